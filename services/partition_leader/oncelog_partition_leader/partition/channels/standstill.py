"""Notices that this process stood still for so long that other brokers may lead what it leads.

Rule 1: every request about a channel, every look at those that wait, and every timer of a channel looks here first. After a
        standstill the channels are opened again, before anything is delivered or confirmed: the coordinator refuses a leader
        that has been replaced, and tells the others what was acknowledged.
Rule 2: a look that comes late is taken for a standstill. So while there is a channel a timer looks all the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from oncelog.ports import WallClock

_BETWEEN_LOOKS: Final = 4


class Standstill:
    """See the module. One per broker. `harmless_ms`: no other broker leads what this one leads after so short a time."""

    def __init__(self, clock: WallClock, harmless_ms: int) -> None:
        self.over: Callable[[], None] = lambda: None
        """Called after a standstill."""
        self._clock = clock
        self._harmless_ms = harmless_ms
        self._seen_ms = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Looks all the time from now on. May be called repeatedly."""
        if self._timer is None:
            self._seen_ms = self._clock.monotonic_ms()
            self._pulse()

    def end(self) -> None:
        """Looks no more. May be called repeatedly."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Rule 1."""
        if self._timer is None:
            return
        now_ms, seen_ms = self._clock.monotonic_ms(), self._seen_ms
        self._seen_ms = now_ms
        if now_ms - seen_ms > self._harmless_ms:
            self.over()

    def _pulse(self) -> None:
        delay_s = self._harmless_ms / _BETWEEN_LOOKS / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._pulse)
        self.look()
