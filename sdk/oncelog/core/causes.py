"""Gives an error the reason that stands behind it: in its words, for people, and as its `__cause__`, for programs.

Rule: a time-out alone says nothing: the call that gave up reports the last answer that it got, and from where.
"""

from __future__ import annotations

from typing import TypeVar

from oncelog.errors import (
    IllegalStateError,
    InvalidResponseError,
    NetworkError,
    NotEnoughReplicasError,
    OncelogError,
    RequestTimedOutError,
)

E = TypeVar("E", bound=BaseException)


def because(error: E, cause: BaseException | None) -> E:
    """The error, with its cause; None: as it is."""
    if cause is not None and cause is not error:
        error.__cause__ = cause
    return error


def again(error: OncelogError) -> OncelogError:
    """The same error once more, with the first one as its cause: each raise needs an object of its own."""
    repeated = type(error)(error.message, retry_after_ms=error.retry_after_ms)
    repeated.context = dict(error.context)
    return because(repeated, error)


def report_this(consequence: str, defect: BaseException, kind: type[OncelogError] = IllegalStateError) -> OncelogError:
    """A defect of ours as an error for its caller; `consequence` says what follows from it, and what to do."""
    return because(kind(f"{consequence}, and report this: {defect!r}"), defect)


def for_caller(consequence: str, error: Exception) -> OncelogError:
    """The error itself, or, for one that is none of ours by name, `report_this`."""
    return error if isinstance(error, OncelogError) else report_this(consequence, error)


def told_of(error: OncelogError, topic: str, partition: int) -> str:
    """`NOT_ENOUGH_REPLICAS on orders-3: ISR 1 of 2 needed`."""
    return f"{error.code.name} on {topic}-{partition}: {_detail(error)}"


def _detail(error: OncelogError) -> str:
    if isinstance(error, NotEnoughReplicasError) and {"isr", "min_insync_replicas"} <= error.context.keys():
        return f"ISR {error.context['isr']} of {error.context['min_insync_replicas']} needed"
    return str(error)


def is_silence(error: OncelogError) -> bool:
    """True: no server has answered, so the answer before explains more."""
    return isinstance(error, NetworkError | RequestTimedOutError)


def is_unanswered(error: OncelogError | None) -> bool:
    """True: no answer came, or none that makes sense; it is our own word for that, not the server's."""
    return isinstance(error, NetworkError | RequestTimedOutError | InvalidResponseError)
