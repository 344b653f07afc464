"""The time by the median of the brokers' clocks, so that one clock that is wrong by days makes retention delete nothing.

Rule 1: the others' wall clocks are kept relative to our monotonic clock, so a step of our own wall clock moves none of them.
Rule 2: the time is the lower median of all registered brokers' clocks, ours among them; of two it is the earlier one.
Rule 3: while less than a majority of the clocks is known, the time is unknown: the answer is 0, so nothing is old.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

UNKNOWN_MS: Final = 0


class ClusterClock:
    """Collects the other brokers' clocks from their answers (`told`), and answers with the cluster's time (`now_ms`)."""

    def __init__(self) -> None:
        self._ahead_ms: dict[int, int] = {}

    def told(self, broker_id: int, its_now_ms: int, monotonic_ms: int) -> None:
        """Notes the wall clock that a broker has just sent. 0: it sent none."""
        if its_now_ms > 0:
            self._ahead_ms[broker_id] = its_now_ms - monotonic_ms

    def now_ms(self, own_now_ms: int, monotonic_ms: int, others: Collection[int]) -> int:
        """Returns the time for retention. `others`: every other registered broker."""
        known = [own_now_ms]
        known += [self._ahead_ms[broker_id] + monotonic_ms for broker_id in others if broker_id in self._ahead_ms]
        if 2 * len(known) <= len(others) + 1:
            return UNKNOWN_MS
        return sorted(known)[(len(known) - 1) // 2]
