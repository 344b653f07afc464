"""A fetch that waits: which of its partitions moved since it last looked.

Rule: waking up costs the partitions that moved, not the partitions that are watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol


class Watched(Protocol):
    """A partition that tells when something moves: once for each `watch`."""

    def watch(self, ear: Ear) -> None:
        """`ear.wake` is called when what can be read changes, or the role does."""
        ...

    def unwatch(self, ear: Ear) -> None:
        """Forgets it."""
        ...


class Ear:
    """What a partition wakes: it notes the partition's number in the request."""

    __slots__ = ("_number", "_poll")

    def __init__(self, poll: LongPoll, number: int) -> None:
        self._poll = poll
        self._number = number

    def wake(self) -> None:
        """The partition moved."""
        self._poll.moved.append(self._number)
        self._poll.news.set()


class LongPoll:
    """Listens to the partitions of one request, from its construction until `close`."""

    def __init__(self, partitions: Sequence[Watched | None]) -> None:
        self.moved: list[int] = []
        self.news = asyncio.Event()
        self._partitions = partitions
        self._ears = [Ear(self, number) for number in range(len(partitions))]
        for number in range(len(partitions)):
            self._listen(number)

    def _listen(self, number: int) -> None:
        partition = self._partitions[number]
        if partition is not None:
            partition.watch(self._ears[number])

    async def wait(self, timeout_ms: float) -> list[int]:
        """The numbers of the partitions that moved; empty when none did in time. They are listened to again."""
        try:
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                await self.news.wait()
        except TimeoutError:
            pass
        self.news.clear()
        moved, self.moved = self.moved, []
        for number in moved:
            self._listen(number)
        return moved

    def close(self) -> None:
        """Listens no longer."""
        for partition, ear in zip(self._partitions, self._ears, strict=True):
            if partition is not None:
                partition.unwatch(ear)
