"""The broker's remote methods for operators: topics, options in force, offsets and state of partitions.

Rule: as in `produce_service`, a handler checks the form, submits, and waits; it may be cancelled at any await.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from oncelog.errors import (
    InvalidProducerEpochError,
    InvalidRequestError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    OncelogError,
    RequestTimedOutError,
    StorageError,
)
from oncelog.ports import Transport, WallClock
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.cluster.controller import Controller, require_controller
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.log.topic_config import LEGAL, described
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_partition_leader.rpc.describe import count_records, describe
from oncelog_partition_leader.rpc.topic_readiness import wait_until_known, wait_until_usable
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, SHARD_WRITER_BASE, Topic
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register
from oncelog_runtime.serving.once import Once
from oncelog_runtime.serving.topic_access import TopicOperation, require_access

_SAME_CALL_MS: Final = 600_000


class AdminService:
    """The handlers of these methods."""

    def __init__(
        self,
        config: BrokerConfig,
        view: ClusterView,
        replicas: ReplicaManager,
        controller: Controller,
        transport: Transport,
        once: Once,
        clock: WallClock,
    ) -> None:
        self._config = config
        self._view = view
        self._replicas = replicas
        self._controller = controller
        self._transport = transport
        self._once = once
        self._clock = clock
        self._ends_asked: dict[PartitionId, tuple[int, int]] = {}

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.CREATE_TOPIC, self.create_topic)
        register(server, methods.DELETE_TOPIC, self.delete_topic)
        register(server, methods.ALTER_TOPIC, self.alter_topic)
        register(server, methods.DESCRIBE_TOPIC_CONFIGS, self.describe_topic_configs)
        register(server, methods.DESCRIBE_PARTITIONS, self.describe_partitions)
        register(server, methods.DELETE_RECORDS, self.delete_records)

    # ------------------------------------------------------------ topics

    async def create_topic(
        self, request: pb.CreateTopicRequest, _payload: Buffer
    ) -> tuple[pb.CreateTopicReply, Buffer]:
        """Creates a topic, on the controller. Answers when every partition has a leader."""
        require_access(request.topic, TopicOperation.CREATE)
        require_controller(self._controller, self._view)
        topic, created = await self._controller.topics.create(
            request.topic,
            request.partitions,
            request.replication_factor,
            options_of(request.config),
            if_not_exists=request.if_not_exists,
            nonce=request.nonce,
        )
        timeout_ms = min(max(request.timeout_ms, 1), self._config.request_timeout_max_ms)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._controller.topics.complete(topic)
        except TimeoutError:
            raise self._has_no_leaders(topic, "created") from None
        await wait_until_usable(self._view, self._transport, topic)
        return pb.CreateTopicReply(topic_id=topic.topic_id, created=created), b""

    async def delete_topic(
        self, request: pb.DeleteTopicRequest, _payload: Buffer
    ) -> tuple[pb.DeleteTopicReply, Buffer]:
        """Deletes a topic, on the controller."""
        require_access(request.topic, TopicOperation.DELETE)
        require_controller(self._controller, self._view)
        return pb.DeleteTopicReply(topic_id=await self._controller.topics.delete(request.topic, request.topic_id)), b""

    async def alter_topic(self, request: pb.AlterTopicRequest, _payload: Buffer) -> tuple[pb.AlterTopicReply, Buffer]:
        """Alters a topic, on the controller. Answers when every live broker has the change and new partitions have leaders."""
        require_access(request.topic, TopicOperation.ALTER)
        require_controller(self._controller, self._view)
        return await self._once.run(request.call, self._controller.term, lambda: self._alter(request)), b""

    async def _alter(self, request: pb.AlterTopicRequest) -> pb.AlterTopicReply:
        topic, changed = await self._controller.topics.alter(
            request.topic,
            options_of(request.set),
            request.unset,
            request.partitions,
            validate_only=request.validate_only,
            topic_id=request.topic_id,
        )
        if not request.validate_only:
            await self._wait(topic, request.timeout_ms)
        reply = pb.AlterTopicReply(topic_id=topic.topic_id, partitions=topic.partitions, changed=changed)
        for name, value in sorted(topic.config.items()):
            reply.config.add(name=name, value=value)
        return reply

    async def _wait(self, topic: Topic, timeout_ms: int) -> None:
        timeout_ms = min(max(timeout_ms, 1), self._config.request_timeout_max_ms)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._controller.topics.complete(topic)
        except TimeoutError:
            raise self._has_no_leaders(topic, "altered") from None
        entry = self._view.topics.get(topic.name)
        if entry is not None:
            await wait_until_known(self._view, self._transport, entry.mod_revision)
        await wait_until_usable(self._view, self._transport, topic)

    def _has_no_leaders(self, topic: Topic, done: str) -> RequestTimedOutError:
        """Returns the error of a topic that was made or changed, and whose partitions do not all have a leader yet."""
        text = f"the topic was {done}, but has not all its leaders yet"
        missing = ", ".join(map(str, sorted(self._controller.log_survey.result().missing)))
        made = (PartitionId(topic.topic_id, number) in self._view.partitions for number in range(topic.partitions))
        if not missing or all(made):
            return RequestTimedOutError(text)
        return RequestTimedOutError(
            f"{text}: etcd was restored, and these brokers have not told which logs they keep; start or decommission them:"
            f" {missing}"
        )

    async def describe_topic_configs(
        self, request: pb.DescribeTopicConfigsRequest, _payload: Buffer
    ) -> tuple[pb.DescribeTopicConfigsReply, Buffer]:
        """Answers with the options in force, and their source."""
        reply = pb.DescribeTopicConfigsReply()
        for name in request.topics:
            answer = reply.topics.add(topic=name)
            try:
                require_access(name, TopicOperation.DESCRIBE_CONFIGS)
                explicit = self._view.topic(name).config
            except OncelogError as error:
                answer.error.CopyFrom(to_detail(error))
                continue
            for option, value, is_explicit, default in described(explicit, self._replicas.defaults):
                answer.config.add(
                    name=option, value=value, explicit=is_explicit, default_value=default, legal=LEGAL[option]
                )
        return reply, b""

    async def describe_partitions(
        self, request: pb.DescribePartitionsRequest, _payload: Buffer
    ) -> tuple[pb.DescribePartitionsReply, Buffer]:
        """Describes the partitions that this broker leads; any other one gets an error in its item."""
        reply = pb.DescribePartitionsReply()
        for item in request.partitions:
            answer = reply.partitions.add(topic_id=item.topic_id, partition=item.partition)
            try:
                await self._describe_partition(item, answer)
            except OncelogError as error:
                answer.error.CopyFrom(to_detail(error))
        return reply, b""

    async def _describe_partition(self, item: pb.DescribePartition, answer: pb.DescribedPartition) -> None:
        partition = self._replicas.find(PartitionId(item.topic_id, item.partition))
        require_access(partition.topic, TopicOperation.PLACEMENT)
        leadership = partition.require_leadership()
        describe(leadership, answer)
        if not item.HasField("count_from"):
            return
        try:
            counted = await count_records(leadership.log, item.count_from, answer.last_stable_offset)
        except StorageError as error:
            if leadership.log.failed is not None:
                partition.fail(error)
            raise
        answer.records, answer.counted_to = counted

    async def delete_records(
        self, request: pb.DeleteRecordsRequest, _payload: Buffer
    ) -> tuple[pb.DeleteRecordsReply, Buffer]:
        """Raises the log start; answers when the replicas that may lead next know it, or the records would come back with them.

        Raises `OffsetOutOfRangeError` above the high watermark, and `OffsetNotAvailableError` while too few replicas answer.
        """
        partition = self._replicas.find(PartitionId(request.topic_id, request.partition))
        require_access(partition.topic, TopicOperation.DELETE)
        leadership = partition.require_leadership()
        if partition.topic in INTERNAL_TOPICS:
            _require_owner(leadership, request)
        before = request.before_offset
        if before == -1:
            before = self._end_as_first_asked(partition.id, leadership.high_watermark)
        if not 0 <= before <= leadership.high_watermark:
            raise OffsetOutOfRangeError(before_offset=before, high_watermark=leadership.high_watermark)
        log_start_offset = await partition.delete_before(before)
        if partition.topic not in INTERNAL_TOPICS:  # an owner copes with a leader that begins lower
            await leadership.confirm(all_electable=True)
        return pb.DeleteRecordsReply(log_start_offset=log_start_offset), b""

    def _end_as_first_asked(self, partition: PartitionId, high_watermark: int) -> int:
        """Resolves -1, the high watermark. Callers other than the SDK may repeat the request: the first answer stays."""
        now_ms = self._clock.monotonic_ms()
        known = self._ends_asked.get(partition)
        if known is None or now_ms - known[1] >= _SAME_CALL_MS:
            known = self._ends_asked[partition] = (high_watermark, now_ms)
        return min(known[0], high_watermark)


def _require_owner(leadership: Leadership, request: pb.DeleteRecordsRequest) -> None:
    """Lets the owner of a shard alone shorten its log: it knows which records are needed.

    Raises `InvalidTopicError` for any other caller, and `InvalidProducerEpochError` for a deposed owner.
    """
    writer = leadership.log.producers.producer(request.writer_id)
    if request.writer_id < SHARD_WRITER_BASE or writer is None:
        raise InvalidTopicError("the cluster's own topics keep their records", topic=leadership.topic)
    if request.writer_epoch != writer.producer_epoch:
        raise InvalidProducerEpochError(producer_epoch=request.writer_epoch, newest=writer.producer_epoch)


def options_of(entries: Iterable[pb.ConfigEntry]) -> dict[str, str]:
    """Returns the options by name. Raises `InvalidRequestError` for an option that is given twice."""
    options: dict[str, str] = {}
    for entry in entries:
        if entry.name in options:
            raise InvalidRequestError("an option is given twice", name=ascii(entry.name[:64]))
        options[entry.name] = entry.value
    return options
