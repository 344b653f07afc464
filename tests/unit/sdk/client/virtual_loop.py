"""Asyncio's own event loop on virtual time, for tests in which synchronous work takes long.

The simulation's loop moves time only when nobody can run. Here time may also pass while a caller works (`block`), and
then what is due happens in asyncio's order: all that is ready runs once in each turn of the loop, with the timers that are due.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Nothing comes from outside: instead of waiting, time moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now_s += 60.0 if timeout is None else max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module. `FakeCluster.loop` may be one of these."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds."""
        return self._jumping.now_s

    def block(self, work_ms: int) -> None:
        """The time passes, and the loop does nothing meanwhile."""
        self._jumping.now_s += work_ms / 1000

    def run(self, work: Coroutine[object, None, T]) -> T:
        """Runs it to its end, and closes the loop."""
        try:
            return self.run_until_complete(work)
        finally:
            self.close()
