"""Starts a service whose wall clock can be moved from outside, and from which a rule may be taken out.

    python -m tests.blackbox.wrapped CLOCK-FILE PLANT MODULE ARGUMENTS...     PLANT: a name, or - for none

Rule 1: production code is changed in this process only, before the service's main program begins.
Rule 2: CLOCK-FILE holds milliseconds that are added to the wall clock; without the file the clock is right.
Rule 3: what the process reads there it writes into CLOCK-FILE.seen: the harness looks whether its clock was moved.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from oncelog_runtime.adapters.system import SystemClock

_LOOK_NS: Final = 100_000_000


def seen_file(path: str) -> str:
    """Where a process writes how far its clock was moved."""
    return f"{path}.seen"


class MovedClock:
    """The milliseconds of a file, looked at ten times a second."""

    def __init__(self, path: str, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._path = path
        self._monotonic_ns = monotonic_ns
        self._offset_ms = 0
        self._looked_ns = -_LOOK_NS

    def offset_ms(self) -> int:
        """How far the clock is ahead; negative: behind."""
        now = self._monotonic_ns()
        if now - self._looked_ns >= _LOOK_NS:
            self._looked_ns = now
            self._moved_to(self._told_ms())
        return self._offset_ms

    def _told_ms(self) -> int:
        try:
            with open(self._path) as file:
                return int(file.read() or 0)
        except FileNotFoundError:
            return 0

    def _moved_to(self, offset_ms: int) -> None:
        if offset_ms != self._offset_ms:
            self._offset_ms = offset_ms
            with open(seen_file(self._path), "w") as file:
                file.write(str(offset_ms))


def move_clock(path: str) -> None:
    """From now on this process reads the moved clock."""
    clock = MovedClock(path)

    def now_ms(self: SystemClock) -> int:
        return time.time_ns() // 1_000_000 + clock.offset_ms()

    SystemClock.now_ms = now_ms  # type: ignore[method-assign]


def main() -> None:
    """See the module."""
    path, plant, module, *arguments = sys.argv[1:]
    move_clock(path)
    with ExitStack() as stack:
        if plant != "-":
            from tests.blackbox.plants import plant_named

            stack.enter_context(plant_named(plant).planted())
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main()
