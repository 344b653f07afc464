"""Starts requests later that are above a quota of their caller, in the order in which they came.

Rule: a request starts behind those of its method that wait already, be it within its quota by now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_BEHIND_S: Final = 1e-6
"""Between the starts of two requests that waited: timers of the same moment have no order."""


class DelayedStarts:
    """See the module. One per link."""

    __slots__ = ("_held", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held: dict[str, tuple[int, float]] = {}  # method -> how many wait for their start, when the last one's is

    def waits(self, method: str) -> bool:
        """True while a request of this method waits for its start."""
        return method in self._held

    def start_later(
        self, method: str, delay_ms: float, start: Callable[..., None], *args: object
    ) -> asyncio.TimerHandle:
        """Calls `start` after the delay, in the context of now; it has to call `started` first."""
        count, last_s = self._held.get(method, (0, 0.0))
        start_s = max(self._loop.time() + delay_ms / 1000, last_s + _BEHIND_S)
        self._held[method] = (count + 1, start_s)
        return self._loop.call_at(start_s, start, *args)

    def started(self, method: str) -> None:
        """One of those that waited starts."""
        count, last_s = self._held.pop(method)
        if count > 1:
            self._held[method] = (count - 1, last_s)
