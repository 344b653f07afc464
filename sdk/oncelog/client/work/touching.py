"""Tells brokers in time that records are still worked on, as long as this event loop runs (`auto_touch`).

Rule 1: a record is touched when half of its time has passed, all that are due together.
Rule 2: what a touch fails with is not told: a record that was lost says so when the caller settles it. What is refused for
        another reason is tried again after a pause.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Final

from oncelog import errors
from oncelog.client.home.context import now_ms
from oncelog.client.work.settling import Settler
from oncelog.core.work.holding import Holding
from oncelog.core.work.settlements import Said, Verdict

_LONGEST_S: Final = 3_600.0
_SHORTEST_S: Final = 0.005
_PAUSE_MS: Final = 200
"""The pause after a touch that was refused."""


class Toucher:
    """See the module. One per worker."""

    def __init__(self, holding: Holding, settler: Settler, background: Context | None) -> None:
        self._background = background
        """The context of its calls, which belong to no trace; None: nothing is traced."""
        self._holding = holding
        self._settler = settler
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._pause_until_ms = 0

    def begin(self) -> None:
        """Touches from now on."""
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(), name="oncelog-touch", context=self._background)

    def wake(self) -> None:
        """Records have come, or are the caller's again."""
        self._news.set()

    async def stop(self) -> None:
        """Touches nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        while True:
            self._touch()
            next_ms = self._holding.next_touch_ms()
            left_s = _LONGEST_S if next_ms is None else (max(next_ms, self._pause_until_ms) - now_ms()) / 1000
            self._news.clear()
            try:
                async with asyncio.timeout(max(_SHORTEST_S, left_s)):
                    await self._news.wait()
            except TimeoutError:
                pass

    def _touch(self) -> None:
        if now_ms() < self._pause_until_ms:
            return
        due = self._holding.to_touch(now_ms())
        if due:
            try:
                self._settler.say(due, Said(Verdict.TOUCH)).add_done_callback(self._touched)
            except errors.OncelogError:
                pass

    def _touched(self, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None and not isinstance(error, errors.NotOwnerError):
            self._pause_until_ms = now_ms() + _PAUSE_MS
        self.wake()
