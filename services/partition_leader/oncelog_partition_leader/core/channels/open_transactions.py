"""Records that a transaction has acknowledged, until its outcome is known.

Rule 1: a call puts all its records into the transaction or none, and only records that the worker holds in that delivery.
Rule 2: a record is in one transaction at a time: it leaves it by a commit, an abort or a certain refusal of the coordinator.
Rule 3: what an earlier leader had sent is known from the coordinator (`Stored.pending`), also before the log was looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from oncelog.errors import InvalidRequestError, NotOwnerError
from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange, OffsetRanges
from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.fates import Fates
from oncelog_partition_leader.core.channels.record.record_states import RecordState
from oncelog_partition_leader.core.channels.record.records import Records
from oncelog_partition_leader.core.channels.settlement import MAX_SETTLED_AT_ONCE, Settlement, Verdict
from oncelog_partition_leader.core.channels.stored_state import StoredPending
from oncelog_partition_leader.core.channels.window import Window
from oncelog_partition_leader.core.producers.transactions import TxnName

_S: Final = RecordState


class OpenTransactions:
    """The open transactions of one channel on one partition."""

    def __init__(self, records: Records, window: Window, fates: Fates, stored: Iterable[StoredPending]) -> None:
        self.ranges = {name: OffsetRanges(ranges) for name, ranges in stored}
        """Name -> its records, also those that were not looked at."""
        self._records = records
        self._window = window
        self._fates = fates

    def enter(self, worker_id: str, name: TxnName, items: Sequence[Settlement]) -> list[OffsetRange]:
        """See `Delivery.enter_transaction`."""
        _check(items)
        for item in items:
            self._check_owner(worker_id, name, item)
        mine = self.ranges.setdefault(name, OffsetRanges())
        for item in items:
            for offset in range(item.first, item.last + 1):
                entry = self._records.entries.get(offset)
                if entry is not None and entry.state is _S.IN_FLIGHT:
                    self._records.move(entry, _S.IN_TXN)
            mine.add(item.first, item.last)
        return list(OffsetRanges((item.first, item.last) for item in items))

    def _check_owner(self, worker_id: str, name: TxnName, item: Settlement) -> None:
        mine = self.ranges.get(name, OffsetRanges())
        for offset in range(item.first, item.last + 1):
            entry = self._records.entries.get(offset)
            if entry is not None and entry.is_held(worker_id, item.delivery):
                continue
            if offset not in mine or not _is_repeated(entry, worker_id, item.delivery):
                raise NotOwnerError(offset=offset, delivery=item.delivery, worker=worker_id)

    def give_back(self, name: TxnName, ranges: Iterable[OffsetRange], now_ms: int) -> None:
        """See `Delivery.left_transaction`."""
        mine = self.ranges.get(name)
        if mine is None:
            return
        for run in [cut for first, last in ranges for cut in mine.within(first, last)]:
            for entry in self._entries([run]):
                if entry.worker:
                    due_ms = now_ms + entry.ack_wait_ms
                    self._records.move(entry, _S.IN_FLIGHT, entry.worker, due_ms)
                    self._records.deadlines.add(due_ms, entry.offset, entry.offset)
                else:
                    self._fates.fail(entry, now_ms)
            mine.remove(*run)
        if not mine:
            del self.ranges[name]

    def disown(self, worker_id: str) -> None:
        """Notes that the worker has left: see `Delivery.worker_left`."""
        for ranges in self.ranges.values():
            for entry in self._entries(ranges):
                if entry.worker == worker_id:
                    entry.worker = ""

    def end(self, name: TxnName, settled: Iterable[OffsetRange], now_ms: int) -> None:
        """See `Delivery.ended_transaction`."""
        mine = self.ranges.pop(name, None)
        if mine is None:
            return
        done = OffsetRanges(settled)
        for entry in self._entries(mine):
            if entry.offset in done:
                self._fates.commit(entry)
            else:
                self._fates.fail(entry, now_ms)
        for first, last in mine:
            for run in done.within(first, last):
                self._window.settle(*run)
            for low, high in done.gaps(max(first, self._window.next_offset), last):
                for offset in range(low, high + 1):
                    self._window.came_back(offset)
        self._window.advance()

    def expire(self, offset: int) -> None:
        """Forgets the records below."""
        for name, ranges in list(self.ranges.items()):
            ranges.remove_below(offset)
            if not ranges:
                del self.ranges[name]

    def open(self) -> list[StoredPending]:
        """Returns the open transactions."""
        return [StoredPending(name, tuple(ranges)) for name, ranges in self.ranges.items()]

    def of(self, name: TxnName) -> tuple[OffsetRange, ...]:
        """Returns the records of one transaction; none when it is not open here."""
        return tuple(self.ranges.get(name, ()))

    def _entries(self, ranges: Iterable[OffsetRange]) -> list[Entry]:
        entries = self._records.entries
        return [entries[offset] for first, last in ranges for offset in range(first, last + 1) if offset in entries]

    def check(self) -> None:
        """Asserts that each record in a transaction is in one, and the reverse."""
        named = [
            offset for ranges in self.ranges.values() for first, last in ranges for offset in range(first, last + 1)
        ]
        assert len(named) == len(set(named)), "a record is in one transaction"
        in_txn = {offset for offset, entry in self._records.entries.items() if entry.state is _S.IN_TXN}
        seen = {offset for offset in named if not self._window.is_ahead(offset) and offset in self._records.entries}
        assert in_txn == seen, "states and transactions agree"


def _check(items: Sequence[Settlement]) -> None:
    if not items:
        raise InvalidRequestError("a call acknowledges at least one record")
    for item in items:
        item.check()
        if item.verdict is not Verdict.ACK:
            raise InvalidRequestError("a transaction acknowledges, and does nothing else", verdict=item.verdict.name)
    if sum(item.last - item.first + 1 for item in items) > MAX_SETTLED_AT_ONCE:
        raise InvalidRequestError(f"one call acknowledges at most {MAX_SETTLED_AT_ONCE} records")


def _is_repeated(entry: Entry | None, worker_id: str, delivery: int) -> bool:
    """Returns True for a record of the transaction that this worker has put into it, as far as this leader knows."""
    if entry is None:
        return True  # an earlier leader has sent it, and this one has not looked at it yet
    return entry.state is _S.IN_TXN and (not entry.worker or entry.was_given(worker_id, delivery))
