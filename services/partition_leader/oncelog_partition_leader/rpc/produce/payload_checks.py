"""Checks payloads that take long to unpack in threads, so that a broker serves others meanwhile.

Rule 1: a compressed batch that unpacks to more than `check_inline_bytes` is checked in a thread, any other one at once.
Rule 2: batches of a partition are queued in the order in which they came. So whatever comes while one is checked waits for
        it, or a producer's sequences would stand in another order than they were sent in.
Rule 3: each batch has its own outcome: what a check or the queue refuses keeps back no other batch.
Rule 4: two are unpacked at a time, which bounds the memory of that; the bytes of what waits count as its request's. Callers
        take turns: one that sends many delays another one by a check or two.
Rule 5: only processors are waited for: while a disk hangs, the queue refuses batches as soon as ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from oncelog.core.batch.header import CODEC_NONE, BatchHeader
from oncelog.errors import OncelogError, ShuttingDownError
from oncelog.types import PartitionId
from oncelog.wire import methods
from oncelog_partition_leader.core.appends.commands import Written
from oncelog_runtime.core.budget import Budget
from oncelog_runtime.ports import Threads
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.serving.call_context import CALL
from oncelog_runtime.serving.peer_key import peer_of

_AT_ONCE: Final = 2


class Checking(NamedTuple):
    """A batch on its way to the queue of its partition. `check` and `submit` raise its refusal; `done` gets its outcome."""

    check: Callable[[], None]
    submit: Callable[[], None]
    done: asyncio.Future[Written]


class PayloadChecks:
    """See the module. One per broker. `inline_bytes`: rule 1."""

    def __init__(self, inline_bytes: int, threads: Threads, tasks: TaskOwner, bugs: Bugs) -> None:
        self._inline_bytes = inline_bytes
        self._threads = threads
        self._tasks = tasks
        self._bugs = bugs
        self._slots = Budget("checks", _AT_ONCE)  # not of bytes: a batch takes one
        self._callers: dict[str, Budget] = {}
        """Those for which something is unpacked, or waits for that."""
        self._last: dict[PartitionId, asyncio.Task[None]] = {}
        """The newest batch on its way, by partition."""

    def must_wait(self, place: PartitionId, header: BatchHeader) -> bool:
        """Returns True when a batch is to be entered here, and not to be checked and queued at once."""
        return place in self._last or self._takes_long(header)

    def enter(self, place: PartitionId, header: BatchHeader, batch: Checking) -> None:
        """Has the batch checked and queued, behind the earlier ones of its partition. The caller is that of the handler."""
        work = self._pass(batch, self._takes_long(header), self._last.get(place))
        task = self._last[place] = self._tasks.spawn(work, f"check a payload of partition {place.partition}")
        task.add_done_callback(partial(self._passed, place, batch.done))

    def _takes_long(self, header: BatchHeader) -> bool:
        return header.uncompressed_length > self._inline_bytes and header.codec != CODEC_NONE

    async def _pass(self, batch: Checking, takes_long: bool, before: asyncio.Task[None] | None) -> None:
        refusal = await self._refusal(batch, takes_long)
        if before is not None:
            await asyncio.wait((before,))
        if refusal is None and not batch.done.done():  # else its caller has gone
            try:
                batch.submit()
            except Exception as error:
                refusal = self._named(error)
        if refusal is not None:
            _refuse(batch.done, refusal)

    async def _refusal(self, batch: Checking, takes_long: bool) -> OncelogError | None:
        """Returns why the batch is refused: it still waits for its turn."""
        try:
            if not takes_long:
                batch.check()
                return None
            async with self._slot():
                if not batch.done.done():
                    await self._threads.run(batch.check)
        except Exception as error:
            return self._named(error)
        return None

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Waits for this caller's turn to have a batch unpacked, and keeps it until that is done."""
        call = CALL.get()
        caller = peer_of(call) if call is not None else ""
        share = self._callers.setdefault(caller, self._slots.child("checks of a caller", _AT_ONCE))
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = share.wait(1, lambda: None if granted.done() else granted.set_result(None))
        try:
            await granted
            yield
        finally:
            share.give_up(waiter)
            if share.is_idle:
                del self._callers[caller]

    def _named(self, error: Exception) -> OncelogError:
        if isinstance(error, OncelogError):
            return error.with_traceback(None)  # its frames would keep the request's bytes
        return self._bugs.met("request", error, methods.PRODUCE.name)

    def _passed(self, place: PartitionId, done: asyncio.Future[Written], task: asyncio.Task[None]) -> None:
        if task.cancelled():
            _refuse(done, ShuttingDownError())
        if self._last.get(place) is task:
            del self._last[place]


def _refuse(done: asyncio.Future[Written], error: OncelogError) -> None:
    if not done.done():
        done.set_exception(error)
