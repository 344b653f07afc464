"""How far the delivery of a batch has come: one table of states, and nothing else changes a state.

QUEUED   The batch waits for its first try. It has no sequence yet, so it may still go to another partition.
SENT     A try is in flight, and no earlier try can have been written.
RETRY    The last try was certainly not written. The batch waits to be sent again.
DOUBT    A try may have been written: its answer was lost, or left that open. The batch waits to be sent again.
RESENT   A try is in flight, and an earlier one may have been written.
REFUSED  The last try was refused for good, and an earlier one may have been written: the leader is asked which it is.
UNKNOWN  The caller has the answer that the outcome is unknown. The leader is still asked, so that nothing follows a hole.
DONE     The batch is written, or has failed. Later answers to older tries change nothing.

Rule 1: an incident that a state does not list is a mistake of the code around it, so it is an `AssertionError`.
Rule 2: doubt never ends by a later try that was not written. It ends when the batch is acknowledged, when the leader says
        what it has, or when its time has passed where the leader cannot be asked.
Rule 3: the table says where an attempt goes. Which incident an answer is, `ProducerWindow` decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final

from oncelog.errors import OncelogError


class AttemptState(Enum):
    """See the module."""

    QUEUED = "queued"
    SENT = "sent"
    RETRY = "retry"
    DOUBT = "doubt"
    RESENT = "resent"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    DONE = "done"


class Incident(StrEnum):
    """An event that moves an attempt. Its text stands in the table of docs/internals/states.md."""

    SEND = "sent to the leader"
    WRITTEN = "acknowledged"
    NOT_NOW = "answered: not written, try again"
    LOST = "no answer, or one that leaves it open"
    REFUSED = "refused for good"
    CONTESTED = "refused for good, and the leader can be asked about the earlier try"
    SETTLED = "the leader said whether it is written"
    UNANSWERED = "the leader did not say it in time"
    UNANSWERABLE = "the leader refused to say it"
    EXPIRED = "delivery_timeout_ms passed"
    STRANDED = "an earlier batch of its partition failed"
    DROPPED = "dropped"
    """By a close, an abort, a deleted topic, a failed transaction, or because its records cannot be encoded."""
    MOVED = "the topic was created again, and the batch goes to the new one"


_S = AttemptState
_I = Incident
_ENDS_ANYWAY: Final = {_I.STRANDED: _S.DONE, _I.DROPPED: _S.DONE}

ATTEMPT_TRANSITIONS: Final[Mapping[AttemptState, Mapping[Incident, AttemptState]]] = {
    _S.QUEUED: {
        _I.SEND: _S.SENT,
        _I.EXPIRED: _S.DONE,
        _I.DROPPED: _S.DONE,
        _I.MOVED: _S.QUEUED,
    },
    _S.SENT: {
        _I.WRITTEN: _S.DONE,
        _I.NOT_NOW: _S.RETRY,
        _I.LOST: _S.DOUBT,
        _I.REFUSED: _S.DONE,
        **_ENDS_ANYWAY,
    },
    _S.RETRY: {
        _I.SEND: _S.SENT,
        _I.EXPIRED: _S.DONE,
        _I.MOVED: _S.QUEUED,
        **_ENDS_ANYWAY,
    },
    _S.DOUBT: {
        _I.SEND: _S.RESENT,
        _I.SETTLED: _S.DONE,
        _I.UNANSWERED: _S.UNKNOWN,
        _I.UNANSWERABLE: _S.DONE,
        _I.EXPIRED: _S.DONE,  # where the leader cannot be asked: inside a transaction, or without idempotence
        **_ENDS_ANYWAY,
    },
    _S.RESENT: {
        _I.WRITTEN: _S.DONE,
        _I.NOT_NOW: _S.DOUBT,
        _I.LOST: _S.DOUBT,
        _I.REFUSED: _S.DONE,
        _I.CONTESTED: _S.REFUSED,
        **_ENDS_ANYWAY,
    },
    _S.REFUSED: {
        _I.SETTLED: _S.DONE,
        _I.UNANSWERED: _S.UNKNOWN,
        _I.UNANSWERABLE: _S.DONE,
        **_ENDS_ANYWAY,
    },
    _S.UNKNOWN: {
        _I.SETTLED: _S.DONE,
        _I.UNANSWERED: _S.UNKNOWN,
        _I.UNANSWERABLE: _S.DONE,
        _I.DROPPED: _S.DONE,
    },
    _S.DONE: {},
}

_IN_FLIGHT: Final = frozenset({_S.SENT, _S.RESENT})
_IN_DOUBT: Final = frozenset({_S.DOUBT, _S.RESENT, _S.REFUSED, _S.UNKNOWN})
_WAITS_FOR_A_TRY: Final = frozenset({_S.RETRY, _S.DOUBT})
_ASKED_ABOUT: Final = frozenset({_S.REFUSED, _S.UNKNOWN})


class Attempt:
    """All tries to deliver one batch."""

    __slots__ = ("last_error", "refusal", "retry_at_ms", "state", "tries")

    def __init__(self) -> None:
        self.state = _S.QUEUED
        self.tries = 0
        """How often the batch was sent."""
        self.last_error: OncelogError | None = None
        """Why the last try ended without an outcome."""
        self.refusal: OncelogError | None = None
        """The definite refusal, while an earlier try is in doubt."""
        self.retry_at_ms = 0
        """The next try is not before this, in the loop's milliseconds."""

    def move(self, incident: Incident) -> None:
        """Takes the step that the table has for this incident."""
        target = ATTEMPT_TRANSITIONS[self.state].get(incident)
        assert target is not None, f"an attempt that is {self.state.name} knows no {incident.name}"
        self.state = target

    def send(self) -> None:
        """Another try is in flight."""
        self.move(_I.SEND)
        self.tries += 1

    def wait(self, incident: Incident, error: OncelogError | None, retry_at_ms: int) -> None:
        """The try ended without an outcome: the next one is due at this time."""
        self.move(incident)
        self.last_error = error
        self.retry_at_ms = retry_at_ms

    @property
    def is_in_flight(self) -> bool:
        """A try has no answer yet."""
        return self.state in _IN_FLIGHT

    @property
    def is_in_doubt(self) -> bool:
        """A try may have been written."""
        return self.state in _IN_DOUBT

    @property
    def waits_for_a_try(self) -> bool:
        """It is sent again when its time comes."""
        return self.state in _WAITS_FOR_A_TRY

    @property
    def needs_an_answer(self) -> bool:
        """It is never sent again: only the leader can say whether it is written."""
        return self.state in _ASKED_ABOUT
