"""Tasks with an owner. A task that fails is a bug: it is reported to the owner, never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Never, TypeVar

T = TypeVar("T")


class TaskOwner:
    """Starts tasks, keeps references to them, and ends them all. `on_failure` gets each exception except cancellation."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._tasks: dict[asyncio.Task[object], None] = {}
        self._on_failure = on_failure

    def spawn(self, work: Coroutine[object, Never, T], name: str) -> asyncio.Task[T]:
        """Starts a task that this owner keeps until it ends."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[T]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def stop(self) -> None:
        """Cancels every task and waits for its end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
