"""One transaction as its producer sees it: the legal moves, and the calls to the coordinator that they need.

Rule 1: the coordinator decides; this table only keeps the caller from asking for nonsense.
Rule 2: after a failure only an abort is left. After a commit was asked for, an abort is not: it may be committed.
Rule 3: the first reason of a failure is kept, and given by everything that is refused because of it.
Rule 4: a transaction that touched nothing, and whose number the caller has not read, needs no call: its number is used again.
"""

from __future__ import annotations

import enum
from typing import Final, NoReturn

from oncelog.core.causes import because
from oncelog.errors import IllegalStateError, OncelogError
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


class TransactionCore:
    """See the module."""

    def __init__(self, txn_no: int) -> None:
        self.txn_no = txn_no
        self.state = _S.OPEN
        self.error: OncelogError | None = None
        self.is_touched = False
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
