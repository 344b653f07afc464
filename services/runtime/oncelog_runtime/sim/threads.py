"""Work in threads, as the simulation has it: at once on the loop, after a little virtual time in which others run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")

_LONGEST_S: Final = 0.05
"""A processor that is busy with other things lets work wait."""


class SimThreads:
    """Implements `oncelog_runtime.ports.Threads`."""

    def __init__(self, random: Random) -> None:
        self._random = random

    async def run(self, work: Callable[[], T]) -> T:
        """See `Threads.run`."""
        await asyncio.sleep(self._random.random() ** 4 * _LONGEST_S)
        return work()
