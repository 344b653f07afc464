"""`ErrorDetail` <-> `OncelogError`: the only place that converts between the two.

Rule 1: neither end trusts the other's words: what a stranger chose may stand in them, so they are one bounded line each.
Rule 2: where to go instead (`go_to`) is for who reads the detail itself. It is not taken over: a process that hands on the
        error of another one must not send its own caller to where only it can go, and for another call at that.
"""

from __future__ import annotations

from typing import Final

from oncelog import errors
from oncelog.v1 import errors_pb2

_MESSAGE_CHARACTERS_MAX: Final = 2_000
_NAME_CHARACTERS_MAX: Final = 128
_CONTEXT_NAMES_MAX: Final = 64
RETRY_AFTER_MS_MAX: Final = 300_000
"""A peer cannot make us wait for longer than this before we look again."""


def to_detail(error: errors.OncelogError) -> errors_pb2.ErrorDetail:
    """The wire form of an error."""
    return errors_pb2.ErrorDetail(
        code=int(error.code),  # type: ignore[arg-type]
        message=errors.printable(error.message, _MESSAGE_CHARACTERS_MAX),
        context=[errors_pb2.ErrorContext(name=n, value=v) for n, v in error.context.items()],
        retry_after_ms=error.retry_after_ms,
        go_to=error.go_to,
        action=int(error.action),  # type: ignore[arg-type]
    )


def from_detail(detail: errors_pb2.ErrorDetail) -> errors.OncelogError:
    """The error that a peer sent: bounded lines that no terminal obeys, and a bounded wait."""
    named = detail.context[:_CONTEXT_NAMES_MAX]
    context = {errors.printable(item.name, _NAME_CHARACTERS_MAX): item.value for item in named}
    message = errors.printable(detail.message, _MESSAGE_CHARACTERS_MAX)
    retry_after_ms = min(max(detail.retry_after_ms, 0), RETRY_AFTER_MS_MAX)
    return errors.error_for(detail.code, message, retry_after_ms, context)
