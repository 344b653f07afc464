"""Requests that wait until an offset is committed, as in Kafka's purgatory.

Rule: an offset here is exclusive: a waiter for `end` wakes when the watermark has reached it. Time arrives as `now_ms`.
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")


class Waiters(Generic[T]):
    """Items that wait for an end offset, each with a deadline."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, T]] = []
        self._added = 0
        self._next_deadline_ms: int | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, end: int, deadline_ms: int, item: T) -> None:
        """Adds an item that waits until `advance(end)` or `expire(deadline_ms)` returns it."""
        self._added += 1
        heapq.heappush(self._heap, (end, self._added, deadline_ms, item))
        if self._next_deadline_ms is None or deadline_ms < self._next_deadline_ms:
            self._next_deadline_ms = deadline_ms

    def advance(self, watermark: int) -> list[T]:
        """Removes and returns the items whose end is reached, in order of ends."""
        woken: list[T] = []
        while self._heap and self._heap[0][0] <= watermark:
            woken.append(heapq.heappop(self._heap)[3])
        return woken

    def expire(self, now_ms: int) -> list[T]:
        """Removes and returns the items whose deadline has passed, in order of arrival."""
        if self._next_deadline_ms is None or now_ms < self._next_deadline_ms:
            return []
        late = sorted((entry for entry in self._heap if entry[2] <= now_ms), key=lambda entry: entry[1])
        self._heap = [entry for entry in self._heap if entry[2] > now_ms]
        heapq.heapify(self._heap)
        self._next_deadline_ms = min((entry[2] for entry in self._heap), default=None)
        return [entry[3] for entry in late]

    def drain(self) -> list[T]:
        """Removes and returns all items, in order of arrival."""
        everybody = sorted(self._heap, key=lambda entry: entry[1])
        self._heap = []
        self._next_deadline_ms = None
        return [entry[3] for entry in everybody]
