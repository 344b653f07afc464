"""Work in the threads of the event loop, for what takes milliseconds of a processor and lets go of the interpreter's lock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class LoopThreads:
    """Implements `oncelog_runtime.ports.Threads`."""

    async def run(self, work: Callable[[], T]) -> T:
        """See `Threads.run`."""
        return await asyncio.to_thread(work)
