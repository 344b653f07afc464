"""The transition table of a transaction: every legal step, and its triggers. Nothing else decides what is legal.

A state belongs to one *number* of one transactional id; the state shown for the id is that of its newest number.
Numbers are never reused, so a state only moves down this list:

    EMPTY            nothing is recorded of this number yet
    ONGOING          opened by Enrol or Join; partitions may be added
    PREPARE_COMMIT   the outcome is durable, markers travel (to at most 5 numbers of an id at a time) and reach the disks
    PREPARE_ABORT
    COMPLETE_COMMIT  every marker is on disk
    COMPLETE_ABORT
    DEAD             the id expired: its outcomes are forgotten, its producer id, last number and tokens are not

An id that stays DEAD is removed wholly in the end, unless it must last.  Its numbers stay forgotten all the same: the next
producer id under that name begins above every number that a removed id of the shard had (`orphan_records.RemovedIds`).

Differs from Kafka (KIP-98, KIP-890) in two ways.  A number that enrolled nothing goes to COMPLETE in one record, and it
does so for a commit too, so that END(n) always closes n (a late message of n can then never join n+1).  A new session
does not wait: it aborts the open number, or the one that the session before it was given and never used, and goes on
with the next one, since every message names its number and no number is given to two sessions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class TxnState(StrEnum):
    """The state of one transaction number."""

    EMPTY = "EMPTY"
    ONGOING = "ONGOING"
    PREPARE_COMMIT = "PREPARE_COMMIT"
    PREPARE_ABORT = "PREPARE_ABORT"
    COMPLETE_COMMIT = "COMPLETE_COMMIT"
    COMPLETE_ABORT = "COMPLETE_ABORT"
    DEAD = "DEAD"


class Trigger(StrEnum):
    """The request or event that moves a transaction."""

    ENROL = "EnrolPartitions"
    JOIN = "JoinTransaction"
    END = "EndTransaction, CommitTransaction or AbortTransaction"
    TAKE_OVER = "a new session (InitProducerId) or a new run (JoinTransaction)"
    TIMEOUT = "transaction time-out, lease or hard cap"
    OPERATOR = "ForceAbort"
    RESOLVE = "ResolveTransaction of a name that was never recorded"
    MARKERS = "the last marker is in"
    EXPIRY = "id idle for transactional_id_expiration_ms"
    REMOVAL = "id expired for transactional_id_retention_ms, without a token that lasts"


class Outcome(StrEnum):
    """The outcome of a transaction: one letter of the list of kept outcomes."""

    COMMITTED = "C"
    COMMITTED_WINNERS = "W"
    """Committed for its winners only; the list of winners is kept until COMPLETE."""
    ABORTED = "A"

    @property
    def is_commit(self) -> bool:
        """True for both kinds of commit."""
        return self is not Outcome.ABORTED


_S = TxnState
_T = Trigger
_ABORTERS: Final = (_T.END, _T.TAKE_OVER, _T.TIMEOUT, _T.OPERATOR)

TRANSITIONS: Final[dict[tuple[TxnState, TxnState], tuple[Trigger, ...]]] = {
    (_S.EMPTY, _S.ONGOING): (_T.ENROL, _T.JOIN),
    (_S.EMPTY, _S.COMPLETE_COMMIT): (_T.END,),
    (_S.EMPTY, _S.COMPLETE_ABORT): (_T.END, _T.RESOLVE, _T.TAKE_OVER),
    (_S.ONGOING, _S.ONGOING): (_T.ENROL,),
    (_S.ONGOING, _S.PREPARE_COMMIT): (_T.END,),
    (_S.ONGOING, _S.PREPARE_ABORT): _ABORTERS,
    (_S.ONGOING, _S.COMPLETE_COMMIT): (_T.END,),
    (_S.ONGOING, _S.COMPLETE_ABORT): _ABORTERS,
    (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT): (_T.MARKERS,),
    (_S.PREPARE_ABORT, _S.COMPLETE_ABORT): (_T.MARKERS,),
    (_S.COMPLETE_COMMIT, _S.DEAD): (_T.EXPIRY,),
    (_S.COMPLETE_ABORT, _S.DEAD): (_T.EXPIRY,),
    (_S.EMPTY, _S.DEAD): (_T.EXPIRY,),
    (_S.DEAD, _S.EMPTY): (_T.TAKE_OVER, _T.REMOVAL),
}
"""(from, to) -> triggers. DEAD -> EMPTY is an id that is used again (a new session, the next number), or its removal."""


def is_legal(old: TxnState, new: TxnState) -> bool:
    """True when a record may move a number from `old` to `new`; no change is always legal."""
    return old is new or (old, new) in TRANSITIONS


def prepared(outcome: Outcome) -> TxnState:
    """Returns the state of a decided number whose markers are not all on disk."""
    return TxnState.PREPARE_COMMIT if outcome.is_commit else TxnState.PREPARE_ABORT


def complete(outcome: Outcome) -> TxnState:
    """Returns the state of a decided number whose markers are all on disk."""
    return TxnState.COMPLETE_COMMIT if outcome.is_commit else TxnState.COMPLETE_ABORT
