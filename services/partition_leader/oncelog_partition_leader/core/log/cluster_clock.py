"""What time it is by most brokers' clocks: one clock that is wrong by days deletes nothing by retention.

Rule 1: the others' wall clocks are kept against our monotonic clock, so a step of our own wall clock moves none of them.
Rule 2: the time is the lower median of all registered brokers' clocks, ours among them; of two it is the earlier one.
Rule 3: while less than a majority of the clocks is known, nobody knows what is old: the answer is 0, long ago.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

UNKNOWN_MS: Final = 0


class ClusterClock:
    """`told` with each answer of another broker, `now_ms` when something may be too old."""

    def __init__(self) -> None:
        self._ahead_ms: dict[int, int] = {}

    def told(self, broker_id: int, its_now_ms: int, monotonic_ms: int) -> None:
        """This broker's wall clock has said so just now. 0: it does not say."""
        if its_now_ms > 0:
            self._ahead_ms[broker_id] = its_now_ms - monotonic_ms

    def now_ms(self, own_now_ms: int, monotonic_ms: int, others: Collection[int]) -> int:
        """The time for retention. `others`: every other registered broker."""
        known = [own_now_ms]
        known += [self._ahead_ms[broker_id] + monotonic_ms for broker_id in others if broker_id in self._ahead_ms]
        if 2 * len(known) <= len(others) + 1:
            return UNKNOWN_MS
        return sorted(known)[(len(known) - 1) // 2]
