"""The transactions of one partition: which are open, which have ended, and which are not yet stable.

Rule 1: a transaction is its name (txn_producer_id, txn_no); n and n+1 of one id may be open at once, since n+1 may
        start while n's markers travel.
Rule 2: "ended up to n" per txn_producer_id is never forgotten, nor is the session epoch (holes 12, 15).
Rule 3: a decided transaction is unstable until its marker lies below the high watermark
        (docs/internals/protocol.md#visibility).
Rule 4: everything here is a function of the log.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from oncelog_partition_leader.core.producers.sequence_window import SequenceWindow

MARKERS_KEPT: Final = 8
"""The offset and outcome of a marker are remembered this many transaction numbers back."""
NUMBERS_KEPT: Final = 1024
"""This many transaction numbers back it is remembered whether this log has the marker at all, one bit for each. The
coordinator keeps a new number less than this above the oldest number whose markers it cannot prove to be in (its limit
`max_number_span`), so a marker from further back can only be a repeat of one that was written."""
_ALL_NUMBERS: Final = (1 << NUMBERS_KEPT) - 1


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


class KnownMarker(NamedTuple):
    """A marker that this log has."""

    txn_no: int
    offset: int
    committed: bool


@dataclass(slots=True)
class TxnWriter:
    """The sequences and the number of records that one producer wrote in one transaction."""

    window: SequenceWindow = field(default_factory=SequenceWindow)
    records: int = 0


@dataclass(slots=True)
class OpenTransaction:
    """A transaction with data in this log and no marker yet. `open_since_ms`: append time of its first batch."""

    name: TxnName
    first_offset: int
    session_epoch: int
    txn_shard: int
    open_since_ms: int
    writers: dict[int, TxnWriter] = field(default_factory=dict)

    def records_of(self, winners: tuple[int, ...] | None) -> int:
        """Counts the records that the winners wrote here; those of all writers when `winners` is None."""
        if winners is None:
            return sum(writer.records for writer in self.writers.values())
        return sum(self.writers[winner].records for winner in winners if winner in self.writers)


@dataclass(slots=True)
class TxnProducer:
    """The part of a txn_producer_id's state that is never forgotten."""

    ended_up_to: int = 0
    session_epoch: int = -1
    markers: list[KnownMarker] = field(default_factory=list)
    """In the order of their offsets; the last one may be a late marker with a lower number than the others."""
    marked: int = 0
    """Bit k is set: the marker of number `ended_up_to - k` is in the log."""

    def marker(self, txn_no: int) -> KnownMarker | None:
        """Returns the marker of an ended transaction, None when it is not in the log.

        Of a marker that is in the log but whose offset is no longer remembered, it returns the newest marker instead:
        once that one is below the high watermark, the older one is too.
        """
        for known in reversed(self.markers):
            if known.txn_no == txn_no:
                return known
        back = self.ended_up_to - txn_no
        if not self.markers or back < MARKERS_KEPT:
            return None
        return self.markers[-1] if back >= NUMBERS_KEPT or self.marked >> back & 1 else None

    def end(self, marker: KnownMarker) -> None:
        """Notes a marker that is in the log."""
        if marker.txn_no > self.ended_up_to:
            ahead = min(marker.txn_no - self.ended_up_to, NUMBERS_KEPT)
            self.marked = (self.marked << ahead | 1) & _ALL_NUMBERS
            self.ended_up_to = marker.txn_no
        elif self.ended_up_to - marker.txn_no < NUMBERS_KEPT:
            self.marked |= 1 << self.ended_up_to - marker.txn_no
        floor = self.ended_up_to - MARKERS_KEPT
        self.markers = [known for known in self.markers if known.txn_no > floor and known.txn_no != marker.txn_no]
        self.markers.append(marker)


class Transactions:
    """Open and ended transactions of a partition, and its first unstable offset."""

    __slots__ = ("busy", "decided", "ended", "open", "shard_epochs")

    def __init__(self) -> None:
        self.open: OrderedDict[TxnName, OpenTransaction] = OrderedDict()
        """In the order of their first offsets."""
        self.ended: dict[int, TxnProducer] = {}
        """By txn_producer_id; never forgotten."""
        self.decided: deque[tuple[int, int]] = deque()
        """(marker offset, first offset) of ended transactions that may still be unstable, by marker offset."""
        self.shard_epochs: dict[int, int] = {}
        """Highest coordinator epoch seen in a marker, by transaction shard."""
        self.busy: dict[int, int] = {}
        """Producer id -> number of open transactions in which it takes part, as writer or as the transaction's own id."""

    def producer(self, txn_producer_id: int) -> TxnProducer:
        """Returns the state of an id; makes it when the id is new."""
        known = self.ended.get(txn_producer_id)
        if known is None:
            known = self.ended[txn_producer_id] = TxnProducer()
        return known

    def session_epoch(self, producer_id: int) -> int:
        """Returns the newest session epoch of a txn_producer_id that this log has; -1 = none."""
        known = self.ended.get(producer_id)
        return known.session_epoch if known is not None else -1

    def begin(self, opened: OpenTransaction) -> None:
        """Opens a transaction by its first batch here."""
        self.open[opened.name] = opened
        self._touch(opened.name.txn_producer_id, 1)
        known = self.producer(opened.name.txn_producer_id)
        known.session_epoch = max(known.session_epoch, opened.session_epoch)

    def writer(self, opened: OpenTransaction, producer_id: int) -> TxnWriter:
        """Returns this producer's part of an open transaction; makes it when it is new."""
        writer = opened.writers.get(producer_id)
        if writer is None:
            writer = opened.writers[producer_id] = TxnWriter()
            if producer_id != opened.name.txn_producer_id:
                self._touch(producer_id, 1)
        return writer

    def end(self, name: TxnName, marker: KnownMarker, session_epoch: int) -> OpenTransaction | None:
        """Notes a marker of `name` that is in the log; returns the transaction that it closed, if one was open."""
        known = self.producer(name.txn_producer_id)
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

        Forgets ended ones whose marker is below: the high watermark never goes back.
        """
        while self.decided and self.decided[0][0] < high_watermark:
            self.decided.popleft()
        return self.unstable_from(high_watermark)

    def unstable_from(self, high_watermark: int) -> int | None:
        """Returns `first_unstable_offset` without forgetting anything: the state stays a function of the log."""
        first = self.first_open_offset()
        for marker, first_offset in self.decided:
            if marker >= high_watermark and (first is None or first_offset < first):
                first = first_offset
        return first

    def check(self) -> None:
        """Asserts the invariants."""
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
        for known in self.ended.values():
            assert len(known.markers) <= MARKERS_KEPT + 1
            assert known.marked <= _ALL_NUMBERS
            assert all(known.marked >> known.ended_up_to - m.txn_no & 1 for m in known.markers[:-1])
            assert all(marker.txn_no <= known.ended_up_to for marker in known.markers)
