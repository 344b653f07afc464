"""When something is due for a record: a heap of runs of offsets that have the same time.

Rule 1: a record's own `due_ms` says what holds; the heap may have older times of it too. So a time is changed without a search,
    and whatever comes off the heap is compared with the record.
Rule 2: the heap has an item for each time that holds, so nothing is ever late. What is out of date is thrown away when it
    has become more than what holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange
from oncelog_partition_leader.core.channels.record.entry import Entry

_SLACK: Final = 4_096


class Deadlines:
    """Times of records."""

    __slots__ = ("_heap", "offsets")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int]] = []
        self.offsets = 0
        """How many offsets the heap names, counted as often as it names them."""

    def add(self, due_ms: int, first: int, last: int) -> None:
        """Notes that something is due for these records."""
        heappush(self._heap, (due_ms, first, last))
        self.offsets += last - first + 1

    def due(self, now_ms: int) -> Iterator[OffsetRange]:
        """Takes out, and yields, the runs for which something may be due. `add` may be called meanwhile."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, first, last = heappop(self._heap)
            self.offsets -= last - first + 1
            yield first, last

    def next_ms(self) -> int | None:
        """Returns the earliest time, which may be out of date, or None."""
        return self._heap[0][0] if self._heap else None

    def is_stale(self, records: int) -> bool:
        """Returns True when most of the heap is out of date; `records`: how many there are."""
        return self.offsets > 2 * records + _SLACK

    def rebuild(self, entries: Iterable[Entry]) -> None:
        """Begins again with the times of these records."""
        self.clear()
        due = sorted((entry.due_ms, entry.offset) for entry in entries if entry.due_ms is not None)
        run: tuple[int, int, int] | None = None
        for due_ms, offset in due:
            if run is not None and run[0] == due_ms and run[2] + 1 == offset:
                run = (due_ms, run[1], offset)
                continue
            if run is not None:
                self._heap.append(run)
            run = (due_ms, offset, offset)
        if run is not None:
            self._heap.append(run)
        heapify(self._heap)
        self.offsets = len(due)

    def clear(self) -> None:
        """Forgets everything."""
        self._heap.clear()
        self.offsets = 0

    def check(self, entries: Iterable[Entry]) -> None:
        """Asserts that each time that holds is in the heap."""
        named: dict[int, set[int]] = {}
        for due_ms, first, last in self._heap:
            for offset in range(first, last + 1):
                named.setdefault(offset, set()).add(due_ms)
        for entry in entries:
            assert entry.due_ms is None or entry.due_ms in named.get(entry.offset, ()), f"{entry.offset} would be late"
