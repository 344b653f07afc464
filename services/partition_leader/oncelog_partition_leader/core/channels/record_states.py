"""The states of a record in a channel, and every step between them.

Rule 1: every step is in `TRANSITIONS`; `Entry.move` asserts that, and nothing else writes a state.
Rule 2: only SETTLED is final; a record leaves the other states by a worker's word, a time that has come, an answer of the
    coordinator, or because the log has no such record any more.
Rule 3: only AVAILABLE leads to IN_FLIGHT for a worker that had no claim before, so a record has one owner at a time.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class RecordState(StrEnum):
    """The state of one record in one channel."""

    AVAILABLE = "AVAILABLE"
    """No worker has it; it may be delivered, from its time on when it has one."""
    IN_FLIGHT = "IN_FLIGHT"
    """A worker has it, until a deadline."""
    IN_TXN = "IN_TXN"
    """A transaction acknowledged it, and its outcome is not known yet."""
    BURYING = "BURYING"
    """It is dead, and its dead letter is being written."""
    SETTLING = "SETTLING"
    """It was acknowledged, or it is dead and gets no letter; the coordinator has not confirmed that yet."""
    SETTLED = "SETTLED"
    """It never comes again."""


class Trigger(StrEnum):
    """The event that moves a record from one state to the next."""

    TAKEN = "delivered to a worker"
    CLAIMED = "claimed by a worker"
    ACK = "ACK"
    NACK = "NACK"
    TOUCH = "TOUCH"
    RELEASE = "RELEASE"
    REJECT = "REJECT"
    DEADLINE = "the deadline has passed"
    LEFT = "the worker has left"
    EXHAUSTED = "delivered max_deliveries times"
    TXN_ACK = "ACK in a transaction"
    COMMITTED = "the transaction has committed"
    ABORTED = "the transaction has aborted"
    TXN_REFUSED = "the coordinator refuses the transaction's acknowledgement"
    BURIED = "the dead letter is written"
    NO_LETTERS = "the channel has no dead-letter topic any more"
    CONFIRMED = "the coordinator has confirmed it"
    EXPIRED = "retention has deleted it"


_S = RecordState
_T = Trigger

TRANSITIONS: Final[dict[tuple[RecordState, RecordState], tuple[Trigger, ...]]] = {
    (_S.AVAILABLE, _S.IN_FLIGHT): (_T.TAKEN, _T.CLAIMED),
    (_S.AVAILABLE, _S.BURYING): (_T.EXHAUSTED,),
    (_S.AVAILABLE, _S.SETTLING): (_T.EXHAUSTED,),
    (_S.AVAILABLE, _S.SETTLED): (_T.EXPIRED,),
    (_S.IN_FLIGHT, _S.IN_FLIGHT): (_T.TOUCH, _T.CLAIMED),
    (_S.IN_FLIGHT, _S.AVAILABLE): (_T.NACK, _T.RELEASE, _T.DEADLINE, _T.LEFT),
    (_S.IN_FLIGHT, _S.SETTLING): (_T.ACK, _T.REJECT, _T.EXHAUSTED),
    (_S.IN_FLIGHT, _S.BURYING): (_T.REJECT, _T.EXHAUSTED),
    (_S.IN_FLIGHT, _S.IN_TXN): (_T.TXN_ACK,),
    (_S.IN_FLIGHT, _S.SETTLED): (_T.EXPIRED,),
    (_S.IN_TXN, _S.IN_FLIGHT): (_T.TXN_REFUSED,),
    (_S.IN_TXN, _S.AVAILABLE): (_T.ABORTED, _T.TXN_REFUSED),
    (_S.IN_TXN, _S.BURYING): (_T.EXHAUSTED,),
    (_S.IN_TXN, _S.SETTLING): (_T.EXHAUSTED,),
    (_S.IN_TXN, _S.SETTLED): (_T.COMMITTED, _T.EXPIRED),
    (_S.BURYING, _S.SETTLING): (_T.BURIED, _T.NO_LETTERS),
    (_S.BURYING, _S.SETTLED): (_T.EXPIRED,),
    (_S.SETTLING, _S.SETTLED): (_T.CONFIRMED, _T.EXPIRED),
}
