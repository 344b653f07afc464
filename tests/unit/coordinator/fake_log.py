"""An internal partition in memory, with one `LogPort` per life: fences by epoch, delays, loses answers, refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from oncelog_coordinator.core.transactions.records import EPOCH_KEY
from oncelog_coordinator.shard.log_port import LogItem, LogLostError


class FakePartition:
    """What is durable. `held` appends wait for `release`; a held append of a fenced epoch never lands."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[LogItem]]] = []
        self.epoch = 0
        self.hold = False
        self.lose_answers = False
        self.refuse = False
        self._gate = asyncio.Event()

    def release(self) -> None:
        """Lets held appends go on."""
        self.hold = False
        self._gate.set()
        self._gate = asyncio.Event()

    def open(self, epoch: int) -> FakeLog:
        """The log of a life."""
        return FakeLog(self, epoch)

    def items(self) -> list[LogItem]:
        """Everything, in order."""
        return [item for _, items in self.batches for item in items]

    async def write(self, epoch: int, items: list[LogItem]) -> None:
        """One append at the leader."""
        if self.hold:
            await self._gate.wait()
        await asyncio.sleep(0.001)
        if epoch < self.epoch:
            raise LogLostError("fenced", fenced=True, newest_epoch=self.epoch)
        if self.refuse:
            raise LogLostError("refused")
        self.epoch = epoch
        self.batches.append((epoch, items))
        if self.lose_answers and items[0][0] != EPOCH_KEY:
            self.lose_answers = False
            raise LogLostError("no answer came")


class FakeLog:
    """Implements `LogPort`."""

    trouble = ""

    def __init__(self, partition: FakePartition, epoch: int) -> None:
        self._partition = partition
        self._epoch = epoch
        self._tail: asyncio.Task[None] | None = None
        self.appends = 0

    def append(self, items: Sequence[LogItem]) -> asyncio.Future[None]:
        """In order: each waits for the one before."""
        self.appends += 1
        previous = self._tail
        self._tail = asyncio.get_running_loop().create_task(self._write(previous, list(items)))
        return self._tail

    async def _write(self, previous: asyncio.Task[None] | None, items: list[LogItem]) -> None:
        if previous is not None:
            await asyncio.shield(previous)
        await self._partition.write(self._epoch, items)

    async def replay(self) -> AsyncIterator[list[LogItem]]:
        """Up to the own epoch record."""
        for epoch, items in list(self._partition.batches):
            yield items
            if epoch == self._epoch:
                return

    async def close(self) -> None:
        """What is under way stays under way: a closed connection does not take back what it sent."""
