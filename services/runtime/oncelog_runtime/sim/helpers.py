"""Helpers of a simulated process: they run as tasks of it, on its disk, and die, stop or dawdle as the plan says.

Rule 1: a killed helper does nothing more. Its task is cancelled at an await, so what it wrote stays as it is, half or whole.
Rule 2: a helper belongs to the life of the process that started it, and dies with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

from oncelog_runtime.ports import Disk, HelperGoneError, HelperWork
from oncelog_runtime.sim.faults import FaultPlan


class _End:
    """One end of a channel."""

    def __init__(self, inbox: asyncio.Queue[bytes | None], outbox: asyncio.Queue[bytes | None]) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self.closed = False

    async def send(self, message: bytes) -> None:
        """See `Channel.send`."""
        if self.closed:
            raise HelperGoneError("the helper is gone")
        await self._outbox.put(bytes(message))

    async def receive(self) -> bytes:
        """See `Channel.receive`."""
        message = None if self.closed else await self._inbox.get()
        if message is None:
            self.closed = True
            raise HelperGoneError("the helper is gone")
        return message

    def close(self) -> None:
        """Ends what waits for a message."""
        self.closed = True
        self._inbox.put_nowait(None)

    def leave(self) -> None:
        """Tells the other end that nothing comes any more."""
        self._outbox.put_nowait(None)


class _SlowEnd(_End):
    """The end of a helper, which may be slow."""

    def __init__(
        self,
        inbox: asyncio.Queue[bytes | None],
        outbox: asyncio.Queue[bytes | None],
        random: Random,
        plan: Callable[[], FaultPlan],
    ) -> None:
        super().__init__(inbox, outbox)
        self._random = random
        self._plan = plan

    async def send(self, message: bytes) -> None:
        """See `Channel.send`."""
        plan = self._plan()
        is_slow = self._random.random() < plan.slow_helper
        await asyncio.sleep(plan.slow_helper_ms / 1000 if is_slow else 0)
        await super().send(message)


class SimHelper(_End):
    """Implements `oncelog_runtime.ports.Helper`."""

    task: asyncio.Task[None]

    def kill(self) -> None:
        """See `Helper.kill`."""
        self.task.cancel()
        if not self.closed:
            self.close()


class SimHelpers:
    """Implements `oncelog_runtime.ports.Helpers`. `started` holds all helpers of this process, also the dead ones."""

    def __init__(
        self, disk: Disk, random: Random, plan: Callable[[], FaultPlan] = FaultPlan, name: str = "sim"
    ) -> None:
        self._disk = disk
        self._random = random
        self._plan = plan
        self._name = name.replace("#", "-")
        self.started: list[SimHelper] = []

    async def start(self, work: HelperWork) -> SimHelper:
        """See `Helpers.start`."""
        to_helper: asyncio.Queue[bytes | None] = asyncio.Queue()
        from_helper: asyncio.Queue[bytes | None] = asyncio.Queue()
        helper = SimHelper(from_helper, to_helper)
        end = _SlowEnd(to_helper, from_helper, self._random, self._plan)
        helper.task = asyncio.ensure_future(self._run(work, end, f"{self._name}-{len(self.started)}"))
        self.started.append(helper)
        self._trouble(helper)
        return helper

    async def _run(self, work: HelperWork, end: _End, name: str) -> None:
        with suppress(HelperGoneError):
            await work(self._disk, end, name)
        end.leave()

    def _trouble(self, helper: SimHelper) -> None:
        plan, random = self._plan(), self._random
        after_s = random.random() * plan.helper_trouble_max_ms / 1000
        kind = random.random()
        loop = asyncio.get_running_loop()
        if kind < plan.helper_death:
            loop.call_later(after_s, helper.kill)
        elif kind < plan.helper_death + plan.helper_freeze:
            loop.call_later(after_s, helper.task.cancel)
