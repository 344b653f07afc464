"""The acknowledgements of late, so that a repeated one is known as such.

Rule 1: what is remembered was acknowledged by that worker in that delivery; forgetting costs only that a repetition is refused,
    which does no harm.
Rule 2: at most `MAX_RANGES_EACH` ranges of a worker and delivery, the highest ones, and `MAX_RANGES` ranges in all; the
    worker that has been quiet longest is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from oncelog_partition_leader.core.channels.offset_ranges import OffsetRanges

MAX_RANGES_EACH: Final = 1_024
MAX_RANGES: Final = 65_536


class SettledLately:
    """Remembers the last acknowledgements on one partition."""

    __slots__ = ("_by_worker", "_ranges")

    def __init__(self) -> None:
        self._by_worker: OrderedDict[str, dict[int, OffsetRanges]] = OrderedDict()
        """Worker -> delivery -> offsets."""
        self._ranges = 0

    def add(self, worker_id: str, delivery: int, first: int, last: int) -> None:
        """Remembers an acknowledgement."""
        deliveries = self._by_worker.setdefault(worker_id, {})
        self._by_worker.move_to_end(worker_id)
        offsets = deliveries.setdefault(delivery, OffsetRanges())
        before = len(offsets)
        offsets.add(first, last)
        if len(offsets) > MAX_RANGES_EACH:
            offsets.pop_first(last + 1)
        self._ranges += len(offsets) - before
        while self._ranges > MAX_RANGES and len(self._by_worker) > 1:
            self.forget(next(iter(self._by_worker)))
        if self._ranges > MAX_RANGES:
            oldest = next(iter(deliveries))
            self._ranges -= len(deliveries.pop(oldest))

    def has(self, worker_id: str, delivery: int, offset: int) -> bool:
        """Returns True when the worker is known to have acknowledged this."""
        offsets = self._by_worker.get(worker_id, {}).get(delivery)
        return offsets is not None and offset in offsets

    def forget(self, worker_id: str) -> None:
        """Forgets a worker."""
        self._ranges -= sum(len(offsets) for offsets in self._by_worker.pop(worker_id, {}).values())

    def clear(self) -> None:
        """Forgets everything."""
        self._by_worker.clear()
        self._ranges = 0

    def check(self) -> None:
        """Asserts the bounds."""
        counted = [len(offsets) for deliveries in self._by_worker.values() for offsets in deliveries.values()]
        assert sum(counted) == self._ranges <= MAX_RANGES, "all ranges are counted"
        assert all(0 < count <= MAX_RANGES_EACH for count in counted), "a worker's ranges are bounded"
