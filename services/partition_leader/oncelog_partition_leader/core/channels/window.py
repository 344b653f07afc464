"""The window of a channel on a partition: how far everything is settled, what is settled beyond that, and what was looked at.

Rule 1: everything below `settled_before` is settled, and durably so; `settled_before` itself is not, or was not looked at.
Rule 2: nothing at or above `next_offset` was looked at, but for what the coordinator has told of it.
Rule 3: `supply` looks at no record beyond `settled_before + max_unsettled`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from oncelog_partition_leader.core.channels.key_order import NO_KEY
from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange, OffsetRanges
from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.record_states import RecordState
from oncelog_partition_leader.core.channels.record.records import Records
from oncelog_partition_leader.core.channels.stored_state import Stored
from oncelog_partition_leader.core.producers.transactions import TxnName

Pending = Mapping[TxnName, OffsetRanges]
"""The records of each open transaction, also of those that were not looked at."""


class _Told(NamedTuple):
    """All that the coordinator has told about a record that was not looked at yet."""

    deliveries: int
    due_ms: int | None


class Window:
    """The window of one channel. It puts what it looks at into `records`."""

    def __init__(self, records: Records, stored: Stored, now_ms: int) -> None:
        self._records = records
        self.settled_before = stored.settled_before
        self.next_offset = stored.settled_before
        self.settled = OffsetRanges(stored.settled)
        """All that is settled, durably, at and above `settled_before`."""
        self._told = {
            offset: _Told(deliveries, now_ms + pause_ms if pause_ms > 0 else None)
            for offset, deliveries, pause_ms in stored.retried
        }
        self._told_offsets = sorted(self._told)
        self.advance()

    # ------------------------------------------------------------ looking at the log

    def room(self, max_unsettled: int) -> int:
        """Returns how many more offsets may be looked at."""
        return max(0, self.settled_before + max_unsettled - self.next_offset)

    def supply(
        self, begin: int, end: int, visible: Iterable[OffsetRange], keys: Sequence[int] | None, pending: Pending
    ) -> None:
        """Looks at [next_offset, end); see `Delivery.supply`. `end` is within the window."""
        first = self.next_offset
        if begin > first or end <= first:
            return
        position = first
        self.next_offset = end
        for low, high, key_index in _cut(visible, first, end - 1):
            self.settled.add(position, low - 1)
            for run in list(self.settled.gaps(low, high)):
                self._look_at(run, pending, None if keys is None else (keys, key_index - low))
            position = high + 1
        self.settled.add(position, end - 1)
        self._forget_told(end)
        self.advance()

    def _look_at(self, run: OffsetRange, pending: Pending, keys: tuple[Sequence[int], int] | None) -> None:
        """Takes in unsettled neighbours. `keys`: hashes, and what is added to an offset to find its own."""
        first, last = run
        in_txn = {
            offset
            for ranges in pending.values()
            for low, high in ranges.within(first, last)
            for offset in range(low, high + 1)
        }
        if keys is not None:
            hashes, shift = keys
            for offset in range(first, last + 1):
                self._add(offset, int(hashes[offset + shift]), offset in in_txn)
            return
        told = self._told_offsets
        special = in_txn.union(told[bisect_left(told, first) : bisect_left(told, last + 1)])
        for offset in sorted(special):
            if first < offset:
                self._records.add_fresh(first, offset - 1)
            self._add(offset, NO_KEY, offset in in_txn)
            first = offset + 1
        if first <= last:
            self._records.add_fresh(first, last)

    def _add(self, offset: int, key: int, is_in_txn: bool) -> None:
        deliveries, due_ms = self._told.get(offset, (0, None))
        if is_in_txn:
            entry = Entry(offset, key, deliveries + 1, RecordState.IN_TXN)
        else:
            entry = Entry(offset, key, deliveries)
            entry.due_ms = due_ms
        self._records.add(entry)

    def _forget_told(self, end: int) -> None:
        at = bisect_left(self._told_offsets, end)
        for offset in self._told_offsets[:at]:
            del self._told[offset]
        del self._told_offsets[:at]

    # ------------------------------------------------------------ what is known of records that were not looked at

    def is_ahead(self, offset: int) -> bool:
        """Returns True when the record was not looked at yet."""
        return offset >= self.next_offset

    def came_back(self, offset: int) -> None:
        """Notes one delivery more of a record that was not looked at: a transaction that had it was aborted."""
        assert self.is_ahead(offset), "what was looked at has an entry"
        if offset not in self._told:
            insort(self._told_offsets, offset)
        self._told[offset] = _Told(self._told.get(offset, _Told(0, None)).deliveries + 1, None)

    # ------------------------------------------------------------ what is settled

    def settle(self, first: int, last: int) -> None:
        """Notes that this is settled durably; `advance` follows."""
        self.settled.add(max(first, self.settled_before), last)

    def advance(self) -> None:
        """Moves `settled_before` as far as everything is settled."""
        self.settled_before = self.settled.first_gap(self.settled_before)
        self.settled.remove_below(self.settled_before)
        if self.settled_before > self.next_offset:
            self.next_offset = self.settled_before
            self._forget_told(self.next_offset)

    def settled_with(self, more: OffsetRanges) -> int:
        """Returns where `settled_before` would be if `more` were settled too."""
        offset = self.settled_before
        while (after := more.first_gap(self.settled.first_gap(offset))) > offset:
            offset = after
        return offset

    def unsettled_below(self, offset: int) -> int:
        """Returns how many offsets below are not settled; those that were not looked at count."""
        return self.unsettled_between(self.settled_before, offset - 1)

    def unsettled_between(self, first: int, last: int) -> int:
        """Returns how many offsets of [first, last], none below `settled_before`, are not settled as far as is known."""
        return sum(high - low + 1 for low, high in self.settled.gaps(first, last))

    def is_settled(self, offset: int) -> bool:
        """Returns True when the record is settled durably, or there is none."""
        return offset < self.settled_before or offset in self.settled

    def seek(self, offset: int) -> None:
        """Forgets everything and begins again at another offset."""
        self.settled_before = self.next_offset = offset
        self.settled.clear()
        self._told.clear()
        self._told_offsets.clear()

    # ------------------------------------------------------------ invariants

    def check(self) -> None:
        """Asserts that each record looked at is settled, or is one of `records`, and that `settled_before` is maximal."""
        assert self.settled_before <= self.next_offset, "what was not looked at is not settled"
        assert not self.settled or self.settled.first > self.settled_before, "settled_before is maximal"
        assert self._told_offsets == sorted(self._told), "offsets that were told"
        assert not self._told or self._told_offsets[0] >= self.next_offset, "what was looked at has an entry"
        unsettled = OffsetRanges(self._records.fresh)
        for offset in self._records.entries:
            unsettled.add(offset, offset)
        assert unsettled == OffsetRanges(self.settled.gaps(self.settled_before, self.next_offset - 1)), (
            "no record is lost"
        )


def _cut(ranges: Iterable[OffsetRange], first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yields the ranges within [first, last], each with the index of its first offset among all offsets of `ranges`."""
    before = 0
    for low, high in ranges:
        cut = max(low, first)
        if cut <= min(high, last):
            yield cut, min(high, last), before + cut - low
        before += high - low + 1
