"""The follower's side of replication: appends the leader's batches in order, and acknowledges its log end.

Rule 1: everything is checked before anything is written: our incarnation, the leader epoch, the session, the offset.
Rule 2: appends happen before the first await, so messages of one link are appended in the order in which they came.
Rule 3: in fsync mode only the synced end is acknowledged; that mode holds as soon as the leader, or etcd, says so. While
        the disk is stalled the leader gets an error at once.
Rule 4: one partition's failure is an error in its own item, and does not affect the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from oncelog.errors import (
    InvalidRequestError,
    LeaderNotAvailableError,
    OffsetOutOfRangeError,
    OncelogError,
    StaleBrokerEpochError,
    UnknownTopicError,
)
from oncelog.types import BrokerRef, Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.core.replication.follower_step import (
    Acknowledge,
    FollowerStep,
    acknowledge,
    follower_step,
    is_told_at_once,
)
from oncelog_partition_leader.log.data_dir.disk_room import DiskRoom
from oncelog_partition_leader.log.data_dir.disk_watch import DiskWatch
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_UNKNOWN_EPOCH = -1


class Follower:
    """Handles `Replicate` for every partition of this broker."""

    def __init__(
        self,
        partitions: Mapping[PartitionId, LocalPartition],
        me: Callable[[], BrokerRef],
        tasks: TaskOwner,
        bugs: Bugs,
        disk_watch: DiskWatch,
        disk_room: DiskRoom,
    ) -> None:
        self._disk_watch = disk_watch
        self._disk_room = disk_room
        self._partitions = partitions
        self._me = me
        self._tasks = tasks
        self._bugs = bugs

    async def replicate(self, request: pb.ReplicateRequest, payload: Buffer) -> pb.ReplicateReply:
        """Handles one request. Raises `StaleBrokerEpochError` when the leader addresses another incarnation."""
        me = self._me()
        if (request.follower.broker_id, request.follower.incarnation) != me:
            raise StaleBrokerEpochError("another incarnation was spoken to", incarnation=me.incarnation)
        if sum(item.length for item in request.partitions) != len(payload):
            raise InvalidRequestError("the lengths do not add up to the payload")
        reply = pb.ReplicateReply(follower=types_pb2.BrokerRef(broker_id=me.broker_id, incarnation=me.incarnation))
        view = memoryview(payload)
        steps: list[asyncio.Task[None]] = []
        syncing: list[tuple[LocalPartition, pb.ReplicatePartition, pb.ReplicatePartitionReply]] = []
        position = 0
        for item in request.partitions:
            answer = reply.partitions.add(topic_id=item.topic_id, partition=item.partition, session=item.session)
            bulk = view[position : position + item.length]
            position += item.length
            try:
                partition = self._find(item)
                partition.check_session(item.leader_epoch, item.session, hello=item.hello)
                if partition.exclusive.locked():
                    raise LeaderNotAvailableError("the replica is busy", partition=item.partition)
                if _wants_sync(partition, item):  # also without data: else it would join the ISR again
                    self._disk_watch.require_answering()
                if _step_of(item).waits and not _is_told_at_once(partition, item):
                    # A task of its own: a handler that is cancelled half-way must not leave a log half truncated.
                    step = self._step(partition, item, answer, bytes(bulk) if item.reset else b"")
                    steps.append(self._tasks.spawn(step, "follower-step"))
                elif self._append(partition, item, bulk, answer):
                    syncing.append((partition, item, answer))
            except OncelogError as error:
                answer.error.CopyFrom(to_detail(error))
            except Exception as error:
                answer.error.CopyFrom(to_detail(self._bugs.met("request", error, methods.REPLICATE.name)))
        if steps:
            await asyncio.wait(steps)
        for one in syncing:
            await self._synced(*one)
        return reply

    def _find(self, item: pb.ReplicatePartition) -> LocalPartition:
        partition = self._partitions.get(PartitionId(item.topic_id, item.partition))
        if partition is None:
            raise UnknownTopicError("no such replica here (yet)", partition=item.partition)
        return partition

    def _append(
        self,
        partition: LocalPartition,
        item: pb.ReplicatePartition,
        batches: Buffer,
        answer: pb.ReplicatePartitionReply,
    ) -> bool:
        """Appends data, takes only the high watermark, or tells the log's end. True when a sync must be awaited before the
        answer counts.
        """
        if item.hello:
            _tell_end(partition, answer)
            return False
        if item.length:
            if item.base_offset != partition.log.log_end_offset:
                raise OffsetOutOfRangeError(
                    "the batches do not follow the log end",
                    base_offset=item.base_offset,
                    log_end_offset=partition.log.log_end_offset,
                )
            self._disk_room.require_for_copy(partition.topic, batches)
            partition.follow(item.leader_epoch, batches)
        if item.HasField("epoch_start_offset"):
            partition.reaches(item.leader_epoch, item.epoch_start_offset)
        answer.readers_wait = bool(partition.watchers)  # before the new watermark wakes them
        partition.leader_says(item.high_watermark, item.log_start_offset, item.held_everywhere)
        answer.log_end_offset = partition.log.log_end_offset
        answer.synced_end_offset = partition.log.synced_end_offset
        answer.last_epoch = _UNKNOWN_EPOCH
        when = acknowledge(
            wants_sync=_wants_sync(partition, item),
            synced_end=partition.sync.synced_end,
            log_end=answer.log_end_offset,
            is_epoch_synced=partition.log.is_epoch_synced,
        )
        if when is not Acknowledge.NOW:
            partition.sync.request()
        return when is Acknowledge.AFTER_SYNC

    async def _synced(
        self, partition: LocalPartition, item: pb.ReplicatePartition, answer: pb.ReplicatePartitionReply
    ) -> None:
        try:
            await partition.sync.wait(answer.log_end_offset)
            _require_session(partition, item)
            answer.synced_end_offset = partition.log.synced_end_offset
        except OncelogError as error:
            answer.error.CopyFrom(to_detail(error))

    async def _step(
        self,
        partition: LocalPartition,
        item: pb.ReplicatePartition,
        answer: pb.ReplicatePartitionReply,
        snapshot: bytes,
    ) -> None:
        """Answers a hello, truncates or resets the log; then reports log end and last epoch."""
        try:
            asked = _step_of(item)
            if asked is FollowerStep.RESET:
                await partition.reset(item.leader_epoch, item.session, item.base_offset, snapshot)
            elif asked is FollowerStep.TRUNCATE:
                await partition.truncate(item.leader_epoch, item.session, item.truncate_to)
            if _wants_sync(partition, item):
                await partition.sync.wait(partition.log.log_end_offset)
            _require_session(partition, item)
            _tell_end(partition, answer)
        except OncelogError as error:
            answer.error.CopyFrom(to_detail(error))
        except Exception as error:
            answer.error.CopyFrom(to_detail(self._bugs.met("request", error, methods.REPLICATE.name)))


def _step_of(item: pb.ReplicatePartition) -> FollowerStep:
    return follower_step(hello=item.hello, reset=item.reset, truncates=item.HasField("truncate_to"))


def _is_told_at_once(partition: LocalPartition, item: pb.ReplicatePartition) -> bool:
    return is_told_at_once(
        _step_of(item),
        wants_sync=_wants_sync(partition, item),
        synced_end=partition.sync.synced_end,
        log_end=partition.log.log_end_offset,
    )


def _tell_end(partition: LocalPartition, answer: pb.ReplicatePartitionReply) -> None:
    answer.log_end_offset, answer.last_epoch, answer.last_epoch_start = partition.told_end()


def _wants_sync(partition: LocalPartition, item: pb.ReplicatePartition) -> bool:
    """Returns True in fsync mode. The leader may know the mode earlier than this follower; an older version never says so."""
    return item.fsync or partition.topic_config.fsync


def _require_session(partition: LocalPartition, item: pb.ReplicatePartition) -> None:
    """Checks again, after an await, that the session is current: then the log was not truncated meanwhile."""
    if not partition.in_session(item.leader_epoch, item.session):
        raise LeaderNotAvailableError("a newer session began", partition=item.partition)
