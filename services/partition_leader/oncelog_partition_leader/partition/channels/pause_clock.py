"""The clock by which the pauses of records are kept: the wall clock of most brokers, for the next leader may have another one.

A pause is written as the time at which it ends. By the clock of one machine that is hours ahead, a record would wait for hours
at the next leader.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog.ports import WallClock


class PauseClock:
    """A `WallClock`. `cluster_now_ms` returns the time of most brokers' clocks, or 0 while it is not known."""

    def __init__(self, own: WallClock, cluster_now_ms: Callable[[], int]) -> None:
        self._own = own
        self._cluster_now_ms = cluster_now_ms

    def now_ms(self) -> int:
        """Returns the time of most brokers' clocks; that of this one while too few are known, as just after its start."""
        return self._cluster_now_ms() or self._own.now_ms()

    def monotonic_ms(self) -> int:
        """Returns this broker's monotonic time."""
        return self._own.monotonic_ms()
