"""An internal partition in memory, with one `LogPort` per life: fences by epoch, delays, loses answers, refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from oncelog_coordinator.core.transactions.records import EPOCH_KEY, EpochRecord, parse
from oncelog_coordinator.shard.log_port import LogBatch, LogItem, LogLostError


class FakePartition:
    """What is durable. `held` appends wait for `release`; a held append of a fenced epoch never lands.

    `start`: records below are deleted, as far as batches go.
    """

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[LogItem]]] = []
        self.epoch = 0
        self.start = 0
        self.keep = False
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
        """Everything that was ever written, in order."""
        return [item for _, items in self.batches for item in items]

    def offsets(self) -> list[tuple[int, int, list[LogItem]]]:
        """Offset, epoch and records of each batch that is not deleted."""
        found, offset = [], 0
        for epoch, items in self.batches:
            if offset >= self.start:
                found.append((offset, epoch, items))
            offset += len(items)
        return found

    async def write(self, epoch: int, items: list[LogItem]) -> int:
        """One append at the leader; returns its offset."""
        if self.hold:
            await self._gate.wait()
        await asyncio.sleep(0.001)
        if epoch < self.epoch:
            raise LogLostError("fenced", fenced=True, newest_epoch=self.epoch)
        if self.refuse:
            raise LogLostError("refused")
        self.epoch = epoch
        offset = sum(len(before) for _, before in self.batches)
        self.batches.append((epoch, items))
        if self.lose_answers and items[0][0] != EPOCH_KEY:
            self.lose_answers = False
            raise LogLostError("no answer came")
        return offset


class FakeLog:
    """Implements `LogPort`."""

    trouble = ""
    free_below = 0

    def __init__(self, partition: FakePartition, epoch: int) -> None:
        self._partition = partition
        self._epoch = epoch
        self._tail: asyncio.Task[int] | None = None
        self.appends = 0

    def append(self, items: Sequence[LogItem]) -> asyncio.Future[int]:
        """In order: each waits for the one before."""
        self.appends += 1
        previous = self._tail
        self._tail = asyncio.get_running_loop().create_task(self._write(previous, list(items)))
        return self._tail

    async def _write(self, previous: asyncio.Task[int] | None, items: list[LogItem]) -> int:
        if previous is not None:
            await asyncio.shield(previous)
        return await self._partition.write(self._epoch, items)

    async def replay(self) -> AsyncIterator[list[LogBatch]]:
        """Up to the own epoch record."""
        for number, (offset, epoch, items) in enumerate(self._partition.offsets()):
            for key, value in items:
                if key == EPOCH_KEY and value is not None and value.startswith(b"{"):
                    self.free_below = max(self.free_below, EpochRecord.decode(parse(value)).free_below)
            yield [LogBatch(offset, items, number == 0)]
            if epoch == self._epoch:
                assert self._partition.start <= self.free_below, "deleted, and not announced"
                return

    def delete_before(self, offset: int) -> None:
        """At once, unless it keeps everything."""
        if not self._partition.keep:
            self._partition.start = max(self._partition.start, offset)

    async def close(self) -> None:
        """What is under way stays under way: a closed connection does not take back what it sent."""
