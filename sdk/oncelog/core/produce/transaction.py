"""One transaction as its producer sees it: which moves are legal, and what the coordinator will be told.

Rule 1: the coordinator decides; this table only keeps the caller from asking for nonsense.
Rule 2: after a failure only an abort is left. After a commit was asked for, an abort is not: it may be committed.
Rule 3: the first reason of a failure is kept, and told by everything that is refused because of it.
Rule 4: a transaction that touched nothing, and whose number no caller looked at, needs no call: its number is used again.
"""

from __future__ import annotations

import enum
from typing import Final, NoReturn

from oncelog.core.causes import because
from oncelog.errors import (
    CommitOutcomeUnknownError,
    IllegalStateError,
    OncelogError,
    TxnAbortedError,
    TxnEndedError,
)
from oncelog.types import PartitionId


class TransactionState(enum.Enum):
    """Where a transaction stands."""

    OPEN = "open"
    FAILED = "failed"
    COMMITTING = "committing"
    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"
    DEAD = "dead"


_S = TransactionState
_VALID_PREVIOUS: Final = {
    _S.FAILED: (
        _S.OPEN,
        _S.FAILED,
        _S.COMMITTING,
    ),  # a send was refused or timed out; COMMITTING: nothing was asked yet
    _S.COMMITTING: (_S.OPEN, _S.COMMITTING),  # commit(), again after CommitOutcomeUnknownError
    _S.ABORTING: (_S.OPEN, _S.FAILED, _S.ABORTING),  # abort()
    _S.COMMITTED: (_S.OPEN, _S.COMMITTING),  # from OPEN: nothing was touched
    _S.ABORTED: (_S.OPEN, _S.FAILED, _S.COMMITTING, _S.ABORTING),  # COMMITTING: the coordinator had aborted it
    _S.DEAD: (_S.OPEN, _S.FAILED, _S.COMMITTING, _S.ABORTING, _S.DEAD),  # fenced
}
_WHAT_TO_DO: Final = {
    _S.OPEN: "it is open: commit or abort it first",
    _S.FAILED: "it failed: abort it",
    _S.COMMITTING: "its commit was asked for: call commit() again, or ask get_outcome()",
    _S.ABORTING: "its abort was asked for: call abort() again",
    _S.COMMITTED: "it is committed: begin a new one",
    _S.ABORTED: "it is aborted: begin a new one",
    _S.DEAD: "its producer is fenced: create a new producer",
}


_NEVER_MS: Final = 1 << 62
_CAN_ABORT: Final = (_S.OPEN, _S.FAILED, _S.ABORTING)


class TransactionCore:
    """See the module. `timeout_ms` after `begun_ms` the coordinator aborts it. Each thing that may happen to it is a method."""

    def __init__(self, txn_no: int, begun_ms: int = 0, timeout_ms: int = _NEVER_MS) -> None:
        self.txn_no = txn_no
        self.state = _S.OPEN
        self.error: OncelogError | None = None
        """The first reason for its failure."""
        self.is_touched = False
        """Its coordinator may know of it, so its number is used up."""
        self.is_given_up = False
        """Its caller asked for an abort, so it is no loss."""
        self._begun_ms = begun_ms
        self._timeout_ms = timeout_ms
        self._enrolled: dict[PartitionId, None] = {}
        self._offset_sequences: dict[str, int] = {}

    @property
    def is_over(self) -> bool:
        """Decided, as far as this producer is concerned."""
        return self.state in (_S.COMMITTED, _S.ABORTED, _S.DEAD)

    @property
    def what_to_do(self) -> str:
        """How it stands, and what its owner does next."""
        return _WHAT_TO_DO[self.state]

    def check_open(self) -> None:
        """Raises the first failure, or `IllegalStateError`."""
        if self.state in (_S.FAILED, _S.DEAD) and self.error is not None:
            raise self.error.with_traceback(None)  # not with what every earlier raise of it has seen
        if self.state is not _S.OPEN:
            self._refuse(f"the transaction takes nothing more: {_WHAT_TO_DO[self.state]}")

    def touch(self, failure: OncelogError | None, now_ms: int) -> None:
        """It is written to. `failure`: that of its sends, if one has failed. Raises as `check_open`."""
        self.note_failure(failure, now_ms)
        self.check_open()
        self.is_touched = True

    def note_failure(self, failure: OncelogError | None, now_ms: int) -> None:
        """Fails with its sends, as long as it is open."""
        if failure is not None and self.state is _S.OPEN:
            self.fail_with(failure, now_ms)

    def fail_with(self, error: OncelogError, now_ms: int) -> OncelogError:
        """A part of it failed with this; returns the error that the caller gets."""
        explained = self._explained(error, now_ms)
        self.fail(explained)
        return explained

    def _explained(self, error: OncelogError, now_ms: int) -> OncelogError:
        """The error; where the transaction ended because its time had passed, one that says this."""
        ended = isinstance(error, TxnEndedError | TxnAbortedError)
        if not ended or now_ms - self._begun_ms < self._timeout_ms:
            return error
        explained = type(error)(
            f"the transaction timed out after {self._timeout_ms} ms (transaction_timeout_ms), and was aborted:"
            " begin a new one",
            txn_no=self.txn_no,
        )
        return because(explained, error)

    def to_enrol(self, partitions: list[PartitionId]) -> list[PartitionId]:
        """Those that should be enrolled ahead: the new ones, if they are several (one alone its leader enrols)."""
        new = [partition for partition in dict.fromkeys(partitions) if partition not in self._enrolled]
        return new if len(new) > 1 else []

    def enrolled(self, partitions: list[PartitionId]) -> None:
        """The coordinator has them."""
        self._enrolled.update(dict.fromkeys(partitions))

    def enrolled_partitions(self) -> list[PartitionId]:
        """Everything that was enrolled ahead, in order."""
        return list(self._enrolled)

    def next_offset_sequence(self, group_id: str) -> int:
        """Grows per transaction and group, so that a late copy of an older offset commit is refused (hole 13)."""
        self._offset_sequences[group_id] = sequence = self._offset_sequences.get(group_id, 0) + 1
        return sequence

    def fail(self, error: OncelogError) -> None:
        """A part of the transaction failed."""
        if self.state is _S.OPEN:
            self._move(_S.FAILED)
        self.error = self.error or error

    def begin_commit(self) -> None:
        """Raises the first failure or `IllegalStateError`; legal again after an unknown outcome."""
        if self.state in (_S.FAILED, _S.DEAD) and self.error is not None:
            raise self.error.with_traceback(None)  # not with what every earlier raise of it has seen
        self._move(_S.COMMITTING)

    def begin_abort(self) -> None:
        """Raises `IllegalStateError` when a commit was asked for."""
        self._move(_S.ABORTING)

    def flushed(self, failure: OncelogError | None, now_ms: int) -> None:
        """The flush before the commit has ended. Raises the failure of a send: then nothing is committed."""
        if failure is not None:
            self.reopen_for_abort()
            self.fail_with(failure, now_ms)
            self.begin_commit()  # raises it

    def commit_refused(self, error: TxnAbortedError, now_ms: int) -> OncelogError:
        """The coordinator had aborted it before the commit came; returns the error that the caller gets."""
        explained = self.fail_with(error, now_ms)
        self.decided(is_committed=False)
        return explained

    def commit_answered(self, is_committed: bool, now_ms: int) -> OncelogError | None:
        """The coordinator's outcome. An error for the caller when it is an abort."""
        self.decided(is_committed)
        if is_committed:
            return None
        aborted = TxnAbortedError("the coordinator had aborted the transaction", txn_no=self.txn_no)
        return self.fail_with(aborted, now_ms)

    def begin_leave(self) -> bool:
        """Its producer is closed. True: it has to be aborted now."""
        if self.state not in _CAN_ABORT:
            return False
        if self.state is _S.OPEN:  # the block that is in it must not end as if it were committed
            self.fail(IllegalStateError("the producer was closed: its transaction was aborted"))
        self.begin_abort()
        return True

    def cut_short(self) -> OncelogError:
        """For those who wait for an end that a close of the producer has given up."""
        if self.state is _S.COMMITTING:
            return CommitOutcomeUnknownError(
                "the producer was closed before the commit was answered: get_outcome() tells what became of it",
                txn_no=self.txn_no,
            )
        return IllegalStateError("the producer was closed before its transaction was aborted", txn_no=self.txn_no)

    def check_no_loss(self) -> None:
        """Raises why it is not committed, unless its caller asked for the abort."""
        if self.state is not _S.COMMITTED and not self.is_given_up and self.error is not None:
            raise self.error.with_traceback(None)

    def decided(self, is_committed: bool) -> None:
        """The coordinator's word."""
        self._move(_S.COMMITTED if is_committed else _S.ABORTED)

    def die(self, error: OncelogError) -> None:
        """A newer session owns the transactional id."""
        self.error = self.error or error
        self._move(_S.DEAD)

    def reopen_for_abort(self) -> None:
        """The flush before a commit failed and nothing was asked yet: only the abort is left."""
        assert self.state is _S.COMMITTING
        self._move(_S.FAILED)

    def _move(self, target: TransactionState) -> None:
        if self.state not in _VALID_PREVIOUS[target]:
            self._refuse(
                f"the transaction is {self.state.value} and cannot become {target.value}: {_WHAT_TO_DO[self.state]}"
            )
        self.state = target

    def _refuse(self, message: str) -> NoReturn:
        """Raises `IllegalStateError`, with the first reason for this state."""
        why = "" if self.error is None else f"; the first reason: {self.error}"
        raise because(IllegalStateError(message + why), self.error)
