"""Notices that other brokers may lead what this one leads, without its having heard of it.

Rule 1: this process stood still for so long: every request about a channel, every look at those that wait, and every timer of
        a channel looks here first. A look that comes late is taken for a standstill, so while there is a channel a timer looks.
Rule 2: this broker is cut off: most others do not answer it, or its registration was not renewed for so long. The timer looks.
Rule 3: whatever the reason, each channel asks the coordinator before anything is delivered or taken (`LedChannel.doubt`): it
        refuses a leader that has been replaced. A broker that stays cut off asks again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from oncelog.ports import WallClock

_BETWEEN_LOOKS: Final = 4


class Doubts:
    """See the module. One per broker. `harmless_ms`: no other broker leads what this one leads after so short a standstill;
    `is_cut_off`: rule 2.
    """

    def __init__(self, clock: WallClock, harmless_ms: int, is_cut_off: Callable[[], bool]) -> None:
        self.stood_still: Callable[[], None] = lambda: None
        """Called after a standstill."""
        self.cut_off: Callable[[], None] = lambda: None
        """Called again and again while this broker is cut off."""
        self._clock = clock
        self._harmless_ms = harmless_ms
        self._is_cut_off = is_cut_off
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
            self.stood_still()

    def still_counts(self, asked_ms: int) -> bool:
        """Whether an answer that came now, to a question of that time, says who leads: while cut off, only a quick one."""
        return not self._is_cut_off() or self._clock.monotonic_ms() - asked_ms <= self._harmless_ms // _BETWEEN_LOOKS

    def _pulse(self) -> None:
        delay_s = self._harmless_ms / _BETWEEN_LOOKS / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._pulse)
        self.look()
        if self._is_cut_off():
            self.cut_off()
