"""Checks payloads that take long to unpack in threads, so that a broker serves others meanwhile.

Rule 1: such is a compressed batch that unpacks to more than `check_inline_bytes`. Others are checked at once.
Rule 2: batches of a partition are queued in the order in which they came. So whatever comes while one is checked waits for
        it, or a producer's sequences would stand in another order than they were sent in.
Rule 3: each has its own outcome: what a check or the queue refuses keeps back no other batch.
Rule 4: few are unpacked at a time, which bounds their memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from oncelog.core.batch.header import CODEC_NONE, BatchHeader
from oncelog.errors import OncelogError, ShuttingDownError
from oncelog.types import PartitionId
from oncelog.wire import methods
from oncelog_partition_leader.core.appends.commands import Written
from oncelog_runtime.ports import Disk
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.process.tasks import TaskOwner

_AT_ONCE: Final = 2


class Checking(NamedTuple):
    """A batch on its way to the queue of its partition. `check` and `submit` raise its refusal; `done` gets its outcome."""

    check: Callable[[], None]
    submit: Callable[[], None]
    done: asyncio.Future[Written]


class PayloadChecks:
    """See the module. One per broker. `inline_bytes`: rule 1."""

    def __init__(self, inline_bytes: int, disk: Disk, tasks: TaskOwner, bugs: Bugs) -> None:
        self._inline_bytes = inline_bytes
        self._disk = disk
        self._tasks = tasks
        self._bugs = bugs
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._last: dict[PartitionId, asyncio.Task[None]] = {}
        """The newest batch on its way, by partition."""

    def must_wait(self, place: PartitionId, header: BatchHeader) -> bool:
        """Returns True when a batch is not to be checked and queued at once, but entered here."""
        return place in self._last or self._takes_long(header)

    def enter(self, place: PartitionId, header: BatchHeader, batch: Checking) -> None:
        """Has the batch checked and queued, behind the earlier ones of its partition."""
        name = f"check a payload of partition {place.partition}"
        work = self._pass(batch, self._takes_long(header), self._last.get(place))
        task = self._last[place] = self._tasks.spawn(work, name)
        task.add_done_callback(lambda done: self._passed(place, done))

    async def passed(self, place: PartitionId) -> None:
        """Returns when what has come so far for this partition is queued or refused."""
        task = self._last.get(place)
        if task is not None:
            await asyncio.wait((task,))

    def _takes_long(self, header: BatchHeader) -> bool:
        return header.uncompressed_length > self._inline_bytes and header.codec != CODEC_NONE

    async def _pass(self, batch: Checking, takes_long: bool, before: asyncio.Task[None] | None) -> None:
        done = batch.done
        try:
            refusal = await self._refusal(batch.check, takes_long)
            if before is not None:
                await asyncio.wait((before,))
            if refusal is not None:
                raise refusal
            if not done.done():  # its caller has gone
                batch.submit()
        except OncelogError as error:
            _refuse(done, error)
        except Exception as error:
            _refuse(done, self._bugs.met("request", error, methods.PRODUCE.name))
        except asyncio.CancelledError:
            _refuse(done, ShuttingDownError())
            raise

    async def _refusal(self, check: Callable[[], None], takes_long: bool) -> Exception | None:
        """Returns why the batch is refused: it still waits for its turn."""
        try:
            if takes_long:
                async with self._slots:
                    await self._disk.run(check)
            else:
                check()
        except Exception as error:
            return error
        return None

    def _passed(self, place: PartitionId, task: asyncio.Task[None]) -> None:
        if self._last.get(place) is task:
            del self._last[place]


def _refuse(done: asyncio.Future[Written], error: OncelogError) -> None:
    if not done.done():
        done.set_exception(error)
