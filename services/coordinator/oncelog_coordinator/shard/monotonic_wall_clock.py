"""A wall clock that never steps back within one process: wall time at the start, then monotonic time."""

from __future__ import annotations

from oncelog.ports import WallClock


class SteadyClock:
    """The clock for times in records, and for deadlines computed from them (W20: a step of the clock must not break a
    transition).
    """

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._offset_ms = clock.now_ms() - clock.monotonic_ms()

    def now_ms(self) -> int:
        """Returns milliseconds since 1970 as of the start of the process, plus the time that has passed since."""
        return self._offset_ms + self._clock.monotonic_ms()
