"""Clocks of simulated nodes: virtual time, with a skew and a drift for each node.

Rule: `now_ms` may step back (`step`), `monotonic_ms` never does.
"""

from __future__ import annotations

from typing import Final

from oncelog_runtime.sim.loop import SimLoop

EPOCH_MS: Final = 1_750_000_000_000
"""Wall-clock time at which every simulation begins."""


class SimClock:
    """Implements `oncelog.ports.WallClock`."""

    def __init__(self, loop: SimLoop, skew_ms: int = 0, drift: float = 0.0) -> None:
        self._loop = loop
        self._skew_ms = skew_ms
        self._rate = 1.0 + drift

    def now_ms(self) -> int:
        """Returns milliseconds since 1970, as this node believes."""
        return EPOCH_MS + self._skew_ms + int(self._loop.time() * 1000 * self._rate)

    def monotonic_ms(self) -> int:
        """Returns milliseconds since the simulation's start, with this node's drift."""
        return int(self._loop.time() * 1000 * self._rate)

    def step(self, ms: int) -> None:
        """Moves the wall clock, as an operator or NTP does."""
        self._skew_ms += ms
