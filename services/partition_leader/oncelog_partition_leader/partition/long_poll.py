"""Long polling of a fetch: it learns which of its partitions have changed since it last looked.

Rule: the cost of a wake-up depends on the number of partitions that changed, not of those that are watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol


class Watcher(Protocol):
    """An object that is woken at a change of a partition."""

    def wake(self) -> None:
        """Is called once for each `watch`."""
        ...


class Watched(Protocol):
    """A partition that wakes a watcher at a change: once for each `watch`."""

    def watch(self, watcher: Watcher) -> None:
        """Calls `wake` when the readable offsets change, or the role."""
        ...

    def unwatch(self, watcher: Watcher) -> None:
        """Removes a watcher."""
        ...


class Ear:
    """A watcher of one partition: it notes the partition's number in the request."""

    __slots__ = ("_number", "_poll")

    def __init__(self, poll: LongPoll, number: int) -> None:
        self._poll = poll
        self._number = number

    def wake(self) -> None:
        """Notes that the partition has changed."""
        self._poll.moved.append(self._number)
        self._poll.news.set()


class LongPoll:
    """Watches the partitions of one request, from its construction until `close`."""

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
        """Returns the numbers of the partitions that changed, and watches them again; empty when none did in time."""
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
        """Stops watching."""
        for partition, ear in zip(self._partitions, self._ears, strict=True):
            if partition is not None:
                partition.unwatch(ear)
