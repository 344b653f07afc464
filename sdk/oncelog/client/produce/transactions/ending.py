"""The end of one transaction: a commit or an abort in a task of its own, which all who ask for it wait for.

Rule 1: one end runs at a time. A caller that asks while it runs joins it: the core has refused every other end.
Rule 2: a cancelled caller waits on for a while before its cancellation goes on, so that the end is not cut short. If it was
        the only one that waited, and the end takes longer than that, the end is given up, and may be asked for again.
Rule 3: a producer that is closed gives the end up after its patience, and everyone who waits gets an error that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from oncelog.errors import OncelogError

Work = Callable[[], Coroutine[object, None, None]]


class Ending:
    """See the module. `patience_ms` is that of rule 2; `cut_short` makes the error of rule 3."""

    def __init__(self, patience_ms: int, cut_short: Callable[[], OncelogError]) -> None:
        self._patience_ms = patience_ms
        self._cut_short = cut_short
        self._task: asyncio.Task[None] | None = None
        self._waiting = 0

    def start(self, work: Work) -> bool:
        """Begins the end. False: it is under way already."""
        if self._task is not None and not self._task.done():
            return False
        self._task = asyncio.get_running_loop().create_task(work())
        self._task.add_done_callback(_seen)
        return True

    async def run(self, work: Work) -> bool:
        """Begins the end or joins it, and waits for it. Raises its error. False: it was joined."""
        is_first = self.start(work)
        task = self._task
        assert task is not None
        self._waiting += 1
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            await asyncio.wait((task,), timeout=self._patience_ms / 1000)
            if not task.done() and self._waiting == 1:
                task.cancel()
                self._task = None  # a caller that asks again begins a new one
            raise
        finally:
            self._waiting -= 1
        if task.cancelled():
            raise self._cut_short()
        task.result()
        return is_first

    async def leave(self, timeout_ms: int) -> None:
        """Waits at most this long for the end that is under way, then gives it up. Raises nothing of it."""
        task = self._task
        if task is None:
            return
        try:
            if timeout_ms > 0:
                await asyncio.wait((task,), timeout=timeout_ms / 1000)
        finally:
            task.cancel()  # if it still runs: the coordinator's time-out ends an abort, and keeps a commit that reached it


def _seen(task: asyncio.Task[None]) -> None:
    """Each caller that waited has the error; one that was cancelled meanwhile knows no more than that."""
    if not task.cancelled():
        task.exception()
