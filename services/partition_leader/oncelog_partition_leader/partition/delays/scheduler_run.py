"""Runs the scheduler of one waiting partition while this broker leads it: reads its log, moves what is due, cancels.

Rule 1: a run begins with a session of its own (`Mover.begin`). It moves nothing before it has read the log up to where it ended
        when the session began: all that an earlier leader's session has committed lies before that.
Rule 2: one task moves and cancels, one transaction after the other. One whose outcome is not known ends the run, and the next
        one begins. A handler that wants to cancel a record only asks that task: it may end at any await.
Rule 3: a record whose topic is gone, or has no such partition, or refuses it, waits on: nothing is dropped. What fails is tried
        again after pauses that grow, counted, and said in the broker's log once a minute.
Rule 4: a cancellation is decided when the log was read beyond its record: one that its sender saw written is known by then. One
        behind an open transaction, or of one whose marker is under way, may come yet: its cancellation waits for the marker,
        but no longer than `CANCEL_WAIT_MS`; then its caller asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, NamedTuple

from oncelog.errors import (
    ConfigError,
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    NotLeaderError,
    NotScheduledError,
    OncelogError,
    RecordListTooLargeError,
    RequestTimedOutError,
    ResourceExhaustedError,
    StorageError,
    UnknownTopicError,
)
from oncelog.ports import Transport, WallClock
from oncelog.types import PartitionId
from oncelog_partition_leader.core.delays.scheduler import MOVE_RECORDS_MAX, Scheduler
from oncelog_partition_leader.core.delays.timing_wheel import LostBucketError
from oncelog_partition_leader.log.topic_config import TopicConfig, effective
from oncelog_partition_leader.partition.channels.reading.committed_reading import Found, read_committed, visible_end
from oncelog_partition_leader.partition.delays.bucket_files import BucketFiles
from oncelog_partition_leader.partition.delays.due_records import DueRecords, collect
from oncelog_partition_leader.partition.delays.mover import Mover, Part, Place, SessionLostError
from oncelog_partition_leader.partition.delays.own_log import OwnLog
from oncelog_partition_leader.partition.delays.troubles import Troubles
from oncelog_partition_leader.partition.delays.waiting_log import done_batch, parse
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.metadata.waiting_topics import topic_of, transactional_id, waiting_topic_id
from oncelog_runtime.ports import Disk

_log = logging.getLogger(__name__)
_READ_BYTES: Final = 1 << 20
MOVE_BYTES_MAX: Final = 1 << 20
"""The most bytes of records in one transaction, if their topic takes so many in a batch; a single record may have more."""
CANCELS_MAX: Final = 10_000
"""Cancellations that wait for their turn; above: `ResourceExhaustedError`."""
CANCEL_WAIT_MS: Final = 10_000
"""How long a cancellation waits for its turn, and for what hides its record."""
_LOOK_AT_LEAST_MS: Final = 1_000
"""The wall clock may jump, so a wait for a time is never longer."""
_KEEP_EVERY_MS: Final = 10_000
"""The start of the log is moved no more often than this."""
_REFUSALS: Final = (MessageTooLargeError, RecordListTooLargeError, InvalidRecordError, InvalidTimestampError)
"""The answers of a topic that will not take these records later either, as long as its options stay."""


class DelaySurroundings(NamedTuple):
    """The parts of the broker that a run needs."""

    transport: Transport
    view: ClusterView
    clock: WallClock
    cluster_now_ms: Callable[[], int]
    """The time of most brokers' clocks; 0 = not known, and nothing is due then."""
    disk: Disk
    random: Random
    defaults: TopicConfig
    troubles: Troubles


class _Target(NamedTuple):
    """Where due records go, and how many bytes a batch may have there."""

    place: Place
    bytes_max: int


class _Cancel(NamedTuple):
    offset: int
    done: asyncio.Future[None]

    def fail(self, error: OncelogError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class SchedulerRun:
    """One run, in one leadership. It is an `Ear` of its partition: `wake` is called when there is more to read."""

    def __init__(self, partition: LocalPartition, leadership: Leadership, around: DelaySurroundings) -> None:
        self._partition = partition
        self._leadership = leadership
        self._around = around
        self._news = asyncio.Event()
        self._cancels: deque[_Cancel] = deque()
        self.scheduler: Scheduler | None = None
        """None until the log was read up to the beginning of the session."""
        topic_id, number = partition.id
        name, nonce = transactional_id(topic_id, number), f"{around.random.getrandbits(64):016x}"
        own = OwnLog(leadership, around.clock)
        self._mover = Mover(around.transport, around.view, around.clock, own, name, nonce)
        self._trouble = around.troubles.of(partition.topic, number)
        self._kept_ms = around.clock.monotonic_ms()
        self._told_loss = -1

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
                asked = len(self._cancels)
                await self._read(scheduler, files)
                if scheduler.next_offset < begun_at:
                    await self._wait_for_news(_LOOK_AT_LEAST_MS)
                    continue
                self.scheduler = scheduler
                has_cancelled = await self._cancel_asked(scheduler, asked)
                has_moved = await self._move_some(scheduler)
                await self._keep(scheduler)
                if not has_cancelled and not has_moved:
                    await self._wait(scheduler)
        finally:
            self.scheduler = None
            self._partition.unwatch(self)
            while self._cancels:
                self._cancels.popleft().fail(NotLeaderError("the scheduler of the waiting partition has ended"))

    async def _wait(self, scheduler: Scheduler) -> None:
        """Waits for something new, or until something is due and may be moved."""
        now_ms = self._around.cluster_now_ms()
        due_ms = scheduler.next_due_ms(now_ms)
        if due_ms is None:
            await self._wait_for_news(None)
            return
        wait_ms = max(due_ms - now_ms, self._trouble.pauses_for_ms(self._around.clock.monotonic_ms()), 1)
        await self._wait_for_news(min(wait_ms, _LOOK_AT_LEAST_MS))

    async def _wait_for_news(self, timeout_ms: int | None) -> None:
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._news.wait()
        except TimeoutError:
            pass

    # ------------------------------------------------------------ reading

    async def _read(self, scheduler: Scheduler, files: BucketFiles) -> None:
        """Reads what is committed and was not read yet."""
        while scheduler.next_offset < visible_end(self._partition) and self._leadership.ended is None:
            batches, next_offset = self._read_piece(scheduler.next_offset)[:2]
            if next_offset <= scheduler.next_offset:
                return
            try:
                piece = await self._around.disk.run(partial(parse, batches, scheduler.next_offset))
            except CorruptMessageError as error:
                raise self._rotten(error) from error
            scheduler.read(piece.due_ms, piece.offsets, next_offset, self._around.cluster_now_ms())
            scheduler.read_done(piece.done, next_offset)
            await files.spill(scheduler.wheel.take_spills())
        now_ms = self._around.cluster_now_ms()
        while wanted := scheduler.wheel.wanted_buckets(now_ms):
            for bucket in wanted:
                scheduler.wheel.load(bucket, await files.take(bucket), now_ms)
            await files.spill(scheduler.wheel.take_spills())

    def _read_piece(self, offset: int) -> Found:
        """Reads a piece; what is left of a transaction that lost records in a power cut is passed over, and that alone."""
        found = read_committed(self._partition, offset, _READ_BYTES)
        if found.loss is None:
            return found
        marker = int(found.loss.context["marker_offset"])
        if marker != self._told_loss:
            self._told_loss = marker
            _log.error("%s: the delayed records of a transaction are lost: %s", self._partition.topic, found.loss)
        return read_committed(self._partition, offset, _READ_BYTES, skips_lost=True)

    def _rotten(self, error: CorruptMessageError) -> StorageError:
        """Fails this replica's log: another one has these records as they were written."""
        rot = StorageError(f"a record that waits cannot be read: {error}", reason="rot")
        self._partition.fail(rot)
        return rot

    # ------------------------------------------------------------ moving

    async def _move_some(self, scheduler: Scheduler) -> bool:
        """Moves what is due, in one transaction. False when nothing is, or it cannot be moved now."""
        if self._trouble.pauses_for_ms(self._around.clock.monotonic_ms()):
            return False
        offsets = scheduler.take(self._around.cluster_now_ms())
        if not offsets:
            return False
        try:
            await self._move(scheduler, offsets)
        except _REFUSALS as error:
            if scheduler.refused(self._around.cluster_now_ms()):
                self._trouble.refused(offsets[0], error, self._around.clock.monotonic_ms())
            return True
        except OncelogError as error:
            scheduler.put_back()
            if self._leadership.ended is None:
                self._trouble.failed(error, self._around.clock.monotonic_ms())
            return False
        self._trouble.over()
        return True

    async def _move(self, scheduler: Scheduler, offsets: tuple[int, ...]) -> None:
        target = self._target()
        try:
            records = await collect(self._partition, self._around.disk, offsets, target.bytes_max)
        except CorruptMessageError as error:
            raise self._rotten(error) from error
        scheduler.put_back(records.asked)
        if records.row_count:  # else an operator has deleted them
            await self._mover.move([self._part_of(target, records), self._done(offsets[: records.asked])])
        scheduler.moved()

    def _target(self) -> _Target:
        """Raises `UnknownTopicError` while there is no such partition of the topic that these records were sent to."""
        name = topic_of(self._partition.topic)
        topic, number = self._around.view.topic(name), self._partition.id.partition
        if number >= topic.partitions or waiting_topic_id(topic.topic_id) != self._partition.id.topic_id:
            raise UnknownTopicError("the topic is gone, or another one now", topic=name, partition=number)
        try:
            log = effective(topic.config, self._around.defaults).log
        except ConfigError:  # of a newer version; its leader has the last word
            log = self._around.defaults.log
        bytes_max = min(MOVE_BYTES_MAX, log.max_message_bytes, log.segment_bytes) * 7 // 8 - 1_024
        return _Target(Place(PartitionId(topic.topic_id, number), name), max(bytes_max, 1))

    def _part_of(self, target: _Target, records: DueRecords) -> Part:
        now_ms = self._around.clock.now_ms()
        return Part(target.place, records.row_count, partial(records.encode, now_ms=now_ms))

    def _done(self, offsets: tuple[int, ...]) -> Part:
        own = Place(self._partition.id, self._partition.topic)
        return Part(own, 1, partial(done_batch, offsets), is_own=True)

    async def _keep(self, scheduler: Scheduler) -> None:
        """Lets the log be deleted below what still waits, once in a while."""
        now_ms = self._around.clock.monotonic_ms()
        if now_ms - self._kept_ms < _KEEP_EVERY_MS:
            return
        self._kept_ms = now_ms
        keep_from = min(scheduler.keep_from(), self._leadership.high_watermark)
        if keep_from > self._partition.log.log_start_offset and self._leadership.ended is None:
            await self._partition.delete_before(keep_from)

    # ------------------------------------------------------------ cancelling

    async def cancel(self, offset: int) -> None:
        """Cancels a record; returns when that is committed. Raises `NotScheduledError`, or `OncelogError`: it may wait on.
        That is `RequestTimedOutError` after `CANCEL_WAIT_MS`.

        A caller that is gone takes its question along only while that waits for its turn.
        """
        if self.scheduler is None or self._leadership.ended is not None:
            raise NotLeaderError("the leader of the waiting partition is still reading its log")
        if not self._partition.log.log_start_offset <= offset < self._partition.log.log_end_offset:
            raise NotScheduledError(offset=offset)
        if len(self._cancels) >= CANCELS_MAX:
            raise ResourceExhaustedError("too many cancellations wait for this partition", limit=CANCELS_MAX)
        asked = _Cancel(offset, asyncio.get_running_loop().create_future())
        self._cancels.append(asked)
        self._news.set()
        try:
            async with asyncio.timeout(CANCEL_WAIT_MS / 1000):
                await asyncio.shield(asked.done)
        except TimeoutError:
            if asked in self._cancels:
                self._cancels.remove(asked)
                raise RequestTimedOutError(
                    "not decided in time: an open transaction hides the record, or a move takes long"
                ) from None
            await asked.done  # it is being committed
        except asyncio.CancelledError:
            asked.done.cancel()
            raise

    async def _cancel_asked(self, scheduler: Scheduler, count: int) -> bool:
        """Cancels what was asked for before the log was read, in one transaction. False when nothing was, or can be yet."""
        asked = self._take_known(scheduler.next_offset, count)
        if not asked:
            return False
        taken = scheduler.cancel([one.offset for one in asked])
        answer: OncelogError | None = NotLeaderError("the outcome is not known: ask again")
        try:
            if taken:
                await self._mover.move([self._done(taken)])
            scheduler.cancelled()
            answer = None
        except OncelogError as error:
            scheduler.not_cancelled()
            answer = error
        finally:
            _answer(asked, taken, answer)
        return True

    def _take_known(self, end: int, count: int) -> list[_Cancel]:
        """Takes those of the first `count` questions that are about records before `end`, so many as fit into a transaction."""
        known: list[_Cancel] = []
        later: list[_Cancel] = []
        while count and len(known) < MOVE_RECORDS_MAX:
            one, count = self._cancels.popleft(), count - 1
            if not one.done.done():
                (known if one.offset < end else later).append(one)
        self._cancels.extendleft(reversed(later))
        return known


def _answer(asked: list[_Cancel], taken: tuple[int, ...], error: OncelogError | None) -> None:
    there = frozenset(taken)
    for one in asked:
        if one.offset not in there:
            one.fail(NotScheduledError(offset=one.offset))
        elif error is not None:
            one.fail(error)
        elif not one.done.done():
            one.done.set_result(None)


RESTARTS: Final = (SessionLostError, LostBucketError)
"""The errors that end a run, after which another one begins."""
