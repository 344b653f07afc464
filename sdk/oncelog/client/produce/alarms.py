"""Timers of a producer: at most one for each partition, and the newest one counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from oncelog.types import PartitionId

_LEAST_S: Final = 0.001
"""No alarm rings at once: a partition that cannot go on would be looked at without end."""


class Alarms:
    """See the module. `on_ring` gets the partition, on the loop."""

    def __init__(self, on_ring: Callable[[PartitionId], None]) -> None:
        self._on_ring = on_ring
        self._timers: dict[PartitionId, asyncio.TimerHandle] = {}

    def set(self, partition: PartitionId, at_ms: int) -> None:
        """Rings at this time, in the loop's milliseconds."""
        timer = self._timers.pop(partition, None)
        if timer is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        when_s = max((at_ms + 1) / 1000, loop.time() + _LEAST_S)
        self._timers[partition] = loop.call_at(when_s, self._ring, partition)

    def cancel(self) -> None:
        """None rings any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _ring(self, partition: PartitionId) -> None:
        self._timers.pop(partition, None)
        self._on_ring(partition)
