"""Computes how far consumer groups are behind, from the end offsets that partition leaders report periodically: a pure
core.

Rule 1: lag in offsets is the readable end minus the committed offset, never below 0.
Rule 2: lag in time is the age of the first sample whose end is above the committed offset. Ends are sampled, so it is
        late by one interval at most, and a partition that is newly watched begins at 0.
Rule 3: the state per partition is bounded: `KEPT` samples at which the end had moved. When there are more, every second
        one of the older half is dropped, so an old lag is coarse and a recent one is precise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from oncelog.types import PartitionId

KEPT: Final = 64


class _Ends:
    """Samples of one partition: growing end offsets, each with the time at which it was first seen."""

    __slots__ = ("ends", "seen_ms")

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.seen_ms: list[int] = []

    def saw(self, end: int, now_ms: int) -> None:
        while self.ends and self.ends[-1] > end:  # the log was cut, or its leader is another one
            self.ends.pop()
            self.seen_ms.pop()
        if self.ends and self.ends[-1] == end:
            return
        self.ends.append(end)
        self.seen_ms.append(now_ms)
        if len(self.ends) > KEPT:
            half = KEPT // 2
            self.ends = self.ends[0:half:2] + self.ends[half:]
            self.seen_ms = self.seen_ms[0:half:2] + self.seen_ms[half:]


class LagTable:
    """Keeps samples of the readable ends of watched partitions."""

    def __init__(self) -> None:
        self._ends: dict[PartitionId, _Ends] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def saw(self, partition: PartitionId, end: int, now_ms: int) -> None:
        """Adds the readable end that a leader has reported."""
        known = self._ends.get(partition)
        if known is None:
            known = self._ends[partition] = _Ends()
        known.saw(end, now_ms)

    def keep(self, partitions: Iterable[PartitionId]) -> None:
        """Drops all other partitions."""
        wanted = set(partitions)
        self._ends = {partition: ends for partition, ends in self._ends.items() if partition in wanted}

    def lag(self, partition: PartitionId, committed: int) -> int | None:
        """Returns the number of readable offsets above the committed one; None = no leader has reported an end yet."""
        known = self._ends.get(partition)
        return None if known is None else max(0, known.ends[-1] - committed)

    def behind_ms(self, partition: PartitionId, committed: int, now_ms: int) -> int:
        """Returns for how long there has been something to read above the committed offset; 0 = there is nothing."""
        known = self._ends.get(partition)
        if known is None:
            return 0
        first = bisect_right(known.ends, committed)
        return max(0, now_ms - known.seen_ms[first]) if first < len(known.ends) else 0

    def check(self) -> None:
        """Asserts the invariants."""
        for known in self._ends.values():
            assert known.ends == sorted(set(known.ends)), "ends grow"
            assert known.seen_ms == sorted(known.seen_ms), "time does too"
            assert 0 < len(known.ends) == len(known.seen_ms) <= KEPT
