"""Runs the scheduler of one waiting partition while this broker leads it: reads its log, moves what is due, cancels.

Rule 1: a run begins with a session of its own (`Mover.begin`). It moves nothing before it has read the log up to where it ended
        when the session began: all that an earlier leader's session has committed lies before that.
Rule 2: one task moves, one after the other. A move whose outcome is not known ends the run, and the next one begins.
Rule 3: a record whose topic is gone, or has no such partition, waits on: nothing is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, NamedTuple

from oncelog.errors import NotLeaderError, NotScheduledError, OncelogError, UnknownTopicError
from oncelog.ports import Transport, WallClock
from oncelog.types import PartitionId
from oncelog_partition_leader.core.delays.scheduler import Scheduler
from oncelog_partition_leader.core.delays.timing_wheel import LostBucketError
from oncelog_partition_leader.partition.channels.reading.committed_reading import read_committed, read_one, visible_end
from oncelog_partition_leader.partition.delays.bucket_files import BucketFiles
from oncelog_partition_leader.partition.delays.due_records import DueRecords, collect
from oncelog_partition_leader.partition.delays.mover import Mover, Part, Place, SessionLostError
from oncelog_partition_leader.partition.delays.waiting_log import done_batch, parse
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.metadata.waiting_topics import topic_of, transactional_id, waiting_topic_id
from oncelog_runtime.ports import Disk

_log = logging.getLogger(__name__)
_READ_BYTES: Final = 1 << 20
_PAUSE_AFTER_FAILURE_S: Final = 0.2
_LOOK_AT_LEAST_MS: Final = 1_000
"""The wall clock may jump, so a wait for a time is never longer."""
_KEEP_EVERY: Final = 100
"""So many moves before the start of the log is moved again."""


class DelaySurroundings(NamedTuple):
    """The parts of the broker that a run needs."""

    transport: Transport
    view: ClusterView
    clock: WallClock
    cluster_now_ms: Callable[[], int]
    """The time of most brokers' clocks."""
    disk: Disk
    random: Random


class SchedulerRun:
    """One run, in one leadership. It is an `Ear` of its partition: `wake` is called when there is more to read."""

    def __init__(self, partition: LocalPartition, leadership: Leadership, around: DelaySurroundings) -> None:
        self._partition = partition
        self._leadership = leadership
        self._around = around
        self._news = asyncio.Event()
        self._turn = asyncio.Lock()
        self.scheduler: Scheduler | None = None
        """None until the log was read up to the beginning of the session."""
        topic_id, number = partition.id
        nonce = f"{around.random.getrandbits(64):016x}"
        self._mover = Mover(around.transport, around.view, around.clock, transactional_id(topic_id, number), nonce)
        self._moves = 0

    def wake(self) -> None:
        """Looks at the log again."""
        self._news.set()

    async def run(self) -> None:
        """Runs until the leadership ends. Raises `SessionLostError` or `LostBucketError`: then another run begins."""
        await self._mover.begin()
        begun_at = self._partition.log.log_end_offset
        files = BucketFiles(self._around.disk, self._partition.log.directory)
        await files.clear()
        scheduler = Scheduler(self._partition.log.log_start_offset)
        try:
            while self._leadership.ended is None:
                self._news.clear()
                self._partition.watch(self)
                await self._read(scheduler, files)
                if scheduler.next_offset >= begun_at:
                    self.scheduler = scheduler
                    if await self._move_one(scheduler):
                        continue
                await self._wait(scheduler)
        finally:
            self.scheduler = None
            self._partition.unwatch(self)

    async def _wait(self, scheduler: Scheduler) -> None:
        now_ms = self._around.cluster_now_ms()
        due_ms = scheduler.next_due_ms(now_ms)
        wait_ms = _LOOK_AT_LEAST_MS if due_ms is None else min(max(due_ms - now_ms, 1), _LOOK_AT_LEAST_MS)
        try:
            async with asyncio.timeout(None if due_ms is None else wait_ms / 1000):
                await self._news.wait()
        except TimeoutError:
            pass

    # ------------------------------------------------------------ reading

    async def _read(self, scheduler: Scheduler, files: BucketFiles) -> None:
        """Reads what is committed and was not read yet."""
        while scheduler.next_offset < visible_end(self._partition) and self._leadership.ended is None:
            found = read_committed(self._partition, scheduler.next_offset, _READ_BYTES)
            batches, next_offset = found.batches, found.next_offset
            if found.loss is not None:
                _log.error("records of a transaction that were delayed are lost: %s", found.loss)
                next_offset = max(int(found.loss.context["marker_offset"]) + 1, scheduler.next_offset)
                batches = []
            elif next_offset <= scheduler.next_offset:
                return
            begin, own = scheduler.next_offset, self._mover.producer_id
            piece = await self._around.disk.run(partial(parse, batches, begin, own))
            scheduler.read(piece.due_ms, piece.offsets, next_offset, self._around.cluster_now_ms())
            scheduler.read_done(piece.done, next_offset)
            await files.spill(scheduler.wheel.take_spills())
        for bucket in scheduler.wheel.wanted_buckets(self._around.cluster_now_ms()):
            scheduler.wheel.load(bucket, await files.take(bucket))

    # ------------------------------------------------------------ moving

    async def _move_one(self, scheduler: Scheduler) -> bool:
        """Moves what is due, in one transaction. False when nothing is, or it cannot be moved now."""
        async with self._turn:
            offsets = scheduler.take(self._around.cluster_now_ms())
            if not offsets:
                return False
            try:
                await self._move(scheduler, offsets)
            except OncelogError as error:
                scheduler.put_back()
                if self._leadership.ended is None:
                    _log.warning("delayed records of %s wait on: %s", self._partition.topic, error)
                    await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)
                return False
        await self._keep(scheduler)
        return True

    async def _move(self, scheduler: Scheduler, offsets: tuple[int, ...]) -> None:
        target = self._target()
        records = await collect(self._partition, self._around.disk, offsets)
        if records is None:  # they were deleted, by an operator
            scheduler.moved()
            return
        scheduler.put_back(records.asked)
        moved = offsets[: records.asked]
        await self._mover.move([self._part_of(target, records), self._done(moved)])
        scheduler.moved()

    def _target(self) -> Place:
        name = topic_of(self._partition.topic)
        topic, number = self._around.view.topic(name), self._partition.id.partition
        if number >= topic.partitions or waiting_topic_id(topic.topic_id) != self._partition.id.topic_id:
            raise UnknownTopicError("the topic is gone, or another one now", topic=name, partition=number)
        return Place(PartitionId(topic.topic_id, number), name)

    def _part_of(self, target: Place, records: DueRecords) -> Part:
        now_ms = self._around.clock.now_ms()
        return Part(target, records.rows.num_rows, partial(records.encode, codec=0, now_ms=now_ms))

    def _done(self, offsets: tuple[int, ...]) -> Part:
        own = Place(self._partition.id, self._partition.topic)
        return Part(own, 1, lambda identity: done_batch(offsets, identity, self._around.clock.now_ms()))

    async def _keep(self, scheduler: Scheduler) -> None:
        """Lets the log be deleted below what still waits, once in a while."""
        self._moves += 1
        keep_from = scheduler.keep_from()
        if self._moves % _KEEP_EVERY == 0 and keep_from > self._partition.log.log_start_offset:
            await self._partition.delete_before(min(keep_from, self._leadership.high_watermark))

    # ------------------------------------------------------------ cancelling

    async def cancel(self, offset: int) -> None:
        """Cancels a record; returns when that is committed. Raises `NotScheduledError`, or `OncelogError`: it waits on."""
        scheduler = self.scheduler
        if scheduler is None or self._leadership.ended is not None:
            raise NotLeaderError("the leader of the waiting partition is still reading its log")
        due_ms = self._due_ms_of(offset)
        scheduler.cancel(offset)
        async with self._turn:
            try:
                await self._mover.move([self._done((offset,))])
            except OncelogError:
                scheduler.not_cancelled(offset, due_ms, self._around.cluster_now_ms())
                raise
            except SessionLostError as error:
                raise NotLeaderError("the outcome is not known: ask again") from error
            finally:
                self._news.set()
        scheduler.cancelled(offset)

    def _due_ms_of(self, offset: int) -> int:
        """Returns when a record is due. Raises `NotScheduledError` when the log does not have it."""
        if not self._partition.log.log_start_offset <= offset < visible_end(self._partition):
            raise NotScheduledError(offset=offset)
        batch = read_one(self._partition, offset)
        piece = parse([] if batch is None or batch[0].is_control else [batch], offset, self._mover.producer_id)
        if not len(piece.offsets) or piece.offsets[0] != offset:
            raise NotScheduledError(offset=offset)
        return int(piece.due_ms[0])


RESTARTS: Final = (SessionLostError, LostBucketError)
"""The errors that end a run, after which another one begins."""
