"""The transactions of one partition: which are open, which have ended, and which are not yet stable.

Rule 1: a transaction is its name (txn_producer_id, txn_no); n and n+1 of one id may be open at once, since n+1 may
        start while n's markers travel.
Rule 2: "ended up to n" per txn_producer_id is never forgotten, nor is the session epoch (holes 12, 15).
Rule 3: a decided transaction is unstable until its marker lies below the high watermark
        (docs/internals/protocol.md#visibility).
Rule 4: everything here is a function of the log.
Rule 5: a snapshot is of the moment at which `freeze` was called: an object of before is copied before it is changed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from oncelog_partition_leader.core.producers.ended_transactions import EndedTransactions, FrozenEnded
from oncelog_partition_leader.core.producers.sequence_window import SequenceWindow
from oncelog_partition_leader.core.producers.txn_producer import KnownMarker


class TxnName(NamedTuple):
    """The name of a transaction, which every message of it carries."""

    txn_producer_id: int
    txn_no: int


class TxnSession(NamedTuple):
    """A transaction and the session that may write it: what the coordinator confirms when it enrols a partition (hole 15)."""

    txn_producer_id: int
    txn_no: int
    session_epoch: int

    @property
    def name(self) -> TxnName:
        """The name of the transaction, without the session."""
        return TxnName(self.txn_producer_id, self.txn_no)


@dataclass(slots=True)
class TxnWriter:
    """The sequences and the number of records that one producer wrote in one transaction."""

    window: SequenceWindow = field(default_factory=SequenceWindow)
    records: int = 0
    generation: int = field(default=0, compare=False)

    def copied(self, generation: int) -> TxnWriter:
        """Returns a copy that may be changed."""
        return TxnWriter(self.window.copied(), self.records, generation)


@dataclass(slots=True)
class OpenTransaction:
    """A transaction with data in this log and no marker yet. `open_since_ms`: append time of its first batch.

    `generation`: the number of snapshots that had begun when this object was made.
    """

    name: TxnName
    first_offset: int
    session_epoch: int
    txn_shard: int
    open_since_ms: int
    writers: dict[int, TxnWriter] = field(default_factory=dict)
    generation: int = field(default=0, compare=False)

    def copied(self, generation: int) -> OpenTransaction:
        """Returns a copy whose writers may be replaced."""
        return replace(self, writers=dict(self.writers), generation=generation)

    def records_of(self, winners: tuple[int, ...] | None) -> int:
        """Counts the records that the winners wrote here; those of all writers when `winners` is None."""
        if winners is None:
            return sum(writer.records for writer in self.writers.values())
        return sum(self.writers[winner].records for winner in winners if winner in self.writers)


class Transactions:
    """Open and ended transactions of a partition, and its first unstable offset."""

    __slots__ = ("_generation", "busy", "decided", "ended", "open", "shard_epochs")

    def __init__(self) -> None:
        self.open: OrderedDict[TxnName, OpenTransaction] = OrderedDict()
        """In the order of their first offsets."""
        self.ended = EndedTransactions()
        """By txn_producer_id; never forgotten."""
        self.decided: deque[tuple[int, int]] = deque()
        """(marker offset, first offset) of ended transactions that may still be unstable, by marker offset."""
        self.shard_epochs: dict[int, int] = {}
        """Highest coordinator epoch seen in a marker, by transaction shard."""
        self.busy: dict[int, int] = {}
        """Producer id -> number of open transactions in which it takes part, as writer or as the transaction's own id."""
        self._generation = 0

    def session_epoch(self, producer_id: int) -> int:
        """Returns the newest session epoch of a txn_producer_id that this log has; -1 = none."""
        return self.ended.session_epoch(producer_id)

    def begin(self, opened: OpenTransaction) -> None:
        """Opens a transaction by its first batch here."""
        self.open[opened.name] = opened
        self._touch(opened.name.txn_producer_id, 1)
        known = self.ended.to_change(opened.name.txn_producer_id)
        known.session_epoch = max(known.session_epoch, opened.session_epoch)

    def writer(self, opened: OpenTransaction, producer_id: int) -> TxnWriter:
        """Returns this producer's part of an open transaction, which may be changed; makes it when it is new."""
        if opened.generation != self._generation:
            opened = self.open[opened.name] = opened.copied(self._generation)
        writer = opened.writers.get(producer_id)
        if writer is None:
            writer = opened.writers[producer_id] = TxnWriter(generation=self._generation)
            if producer_id != opened.name.txn_producer_id:
                self._touch(producer_id, 1)
        elif writer.generation != self._generation:
            writer = opened.writers[producer_id] = writer.copied(self._generation)
        return writer

    def freeze(self) -> FrozenTransactions:
        """Returns everything as it is now, for a snapshot: from now on each object is copied before it is changed."""
        self._generation += 1
        open_now = list(self.open.values())
        return FrozenTransactions(self.ended.freeze(), sorted(self.shard_epochs.items()), list(self.decided), open_now)

    def end(self, name: TxnName, marker: KnownMarker, session_epoch: int) -> OpenTransaction | None:
        """Notes a marker of `name` that is in the log; returns the transaction that it closed, if one was open."""
        known = self.ended.to_change(name.txn_producer_id)
        known.session_epoch = max(known.session_epoch, session_epoch)
        if known.marker(name.txn_no) is None or name in self.open:
            known.end(marker)
        closed = self.open.pop(name, None)
        if closed is None:
            return None
        self.decided.append((marker.offset, closed.first_offset))
        self._touch(name.txn_producer_id, -1)
        for producer_id in closed.writers:
            if producer_id != name.txn_producer_id:
                self._touch(producer_id, -1)
        return closed

    def _touch(self, producer_id: int, by: int) -> None:
        count = self.busy.get(producer_id, 0) + by
        if count:
            self.busy[producer_id] = count
        else:
            del self.busy[producer_id]

    def first_open_offset(self) -> int | None:
        """Returns the first offset of the oldest open transaction; None without one."""
        for opened in self.open.values():
            return opened.first_offset
        return None

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Returns the lowest first offset of the transactions that are open, or whose marker is not below the high watermark.

        Forgets ended ones whose marker is below it.
        """
        self.forget_stable(high_watermark)
        return self.unstable_from(high_watermark)

    def forget_stable(self, high_watermark: int) -> None:
        """Forgets ended transactions whose marker is below the high watermark, which never goes back."""
        while self.decided and self.decided[0][0] < high_watermark:
            self.decided.popleft()

    def unstable_from(self, high_watermark: int) -> int | None:
        """Returns `first_unstable_offset` without forgetting anything: the state stays a function of the log."""
        first = self.first_open_offset()
        for marker, first_offset in self.decided:
            if marker >= high_watermark and (first is None or first_offset < first):
                first = first_offset
        return first

    def check(self) -> None:
        """Asserts the invariants."""
        self.check_open()
        self.ended.check()

    def check_open(self) -> None:
        """Asserts the invariants of what has not ended for good."""
        firsts = [opened.first_offset for opened in self.open.values()]
        assert firsts == sorted(set(firsts)), "open transactions are in the order of their first offsets"
        markers = [marker for marker, _ in self.decided]
        assert markers == sorted(set(markers)), "decided ones in the order of their markers"
        busy: dict[int, int] = {}
        for name, opened in self.open.items():
            assert name == opened.name
            assert opened.writers, "an open transaction has data"
            assert opened.session_epoch <= self.session_epoch(name.txn_producer_id)
            for producer_id in {name.txn_producer_id, *opened.writers}:
                busy[producer_id] = busy.get(producer_id, 0) + 1
            for writer in opened.writers.values():
                assert writer.records >= 0  # a batch without records keeps its sequences (compaction)
                writer.window.check()
        assert busy == self.busy, "who takes part in open transactions"


class FrozenTransactions(NamedTuple):
    """The transactions of one moment: ended ones, (shard, epoch), (marker offset, first offset) of decided ones, open ones."""

    ended: FrozenEnded
    shard_epochs: list[tuple[int, int]]
    decided: list[tuple[int, int]]
    open: list[OpenTransaction]
