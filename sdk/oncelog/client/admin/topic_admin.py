"""Administration of topics and their partitions: a part of `client.admin`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from oncelog import errors
from oncelog.client.admin.admin_base import AdminBase
from oncelog.client.admin.descriptions import (
    AlteredTopic,
    ConfigValue,
    CreatedTopic,
    LaggingReplica,
    LogDescription,
    PartitionDescription,
    PartitionOffsets,
    TopicDescription,
)
from oncelog.client.consume.raw_batches import RawReader
from oncelog.client.routing.metadata import created_again
from oncelog.client.routing.offset_lookup import EARLIEST, LATEST, FoundOffset, OffsetLookup
from oncelog.config import READ_COMMITTED, READ_UNCOMMITTED
from oncelog.core.names import check_topic_name
from oncelog.core.work.bounds import OFFSET_MAX, PARTITION_MAX, whole_number
from oncelog.errors import ConfigError, UnknownTopicError
from oncelog.option_checks import is_text
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail


class TopicAdmin(AdminBase):
    """See the module."""

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 0,
        config: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        timeout_ms: int = 30_000,
    ) -> CreatedTopic:
        """Creates a topic and returns when each partition has a leader. `replication_factor` 0 = the cluster's default.

        Raises `TopicExistsError` unless `if_not_exists`, `InvalidTopicError`, `InvalidPartitionsError`,
        `InvalidReplicationFactorError` or `ConfigError`.
        """
        request = pb.CreateTopicRequest(
            topic=check_topic_name(name),
            partitions=_number("partitions", partitions),
            replication_factor=_number("replication_factor", replication_factor),
            config=_entries(config),
            timeout_ms=_number("timeout_ms", timeout_ms),
            if_not_exists=if_not_exists,
            nonce=self._context.nonce(),
        )
        reply = await self._caller.to_controller(methods.CREATE_TOPIC, request)
        if reply.created:
            self._metadata.forget(name)  # an older topic of this name is gone
        return CreatedTopic(name, reply.topic_id, reply.created)

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic and its records. Raises `UnknownTopicError`.

        The one that has the name now: a later topic of that name is not touched, however late the call arrives.
        """
        known = await self.describe_topic(name)
        request = pb.DeleteTopicRequest(topic=name, topic_id=known.topic_id)
        await self._caller.to_controller(methods.DELETE_TOPIC, request)
        self._metadata.forget(name)

    async def list_topics(self, *, internal: bool = False) -> list[TopicDescription]:
        """All topics by name; the cluster's own ones only with `internal`."""
        reply = await self._describe(all_topics=True)
        return [topic_of(t) for t in sorted(reply.topics, key=lambda t: t.name) if internal or not t.internal]

    async def describe_topic(self, name: str) -> TopicDescription:
        """One topic. Raises `UnknownTopicError`."""
        reply = await self._describe([check_topic_name(name)])
        topic = reply.topics[0]
        if topic.HasField("error"):
            error = from_detail(topic.error)
            raise UnknownTopicError.named(name) if isinstance(error, UnknownTopicError) else error
        return topic_of(topic)

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Those of these topics that exist, by name, in the order of `names`; one call for all."""
        wanted = [check_topic_name(name) for name in dict.fromkeys(names)]
        if not wanted:
            return {}
        found: dict[str, TopicDescription] = {}
        for topic in (await self._describe(wanted)).topics:
            if not topic.HasField("error"):
                found[topic.name] = topic_of(topic)
            elif not isinstance(error := from_detail(topic.error), UnknownTopicError):
                raise error
        return {name: found[name] for name in wanted if name in found}

    async def partition_offsets(self, name: str) -> dict[int, PartitionOffsets]:
        """Offsets of each partition that answers. Raises `UnknownTopicError`."""
        topic = await self._metadata.topic(check_topic_name(name), self._context.deadline_ms())
        where = [PartitionId(topic.topic_id, i) for i in range(topic.partitions)]
        lookup = OffsetLookup(self._context, self._metadata)
        starts, _ = await lookup.try_find(dict.fromkeys(where, EARLIEST), READ_UNCOMMITTED)
        stable, _ = await lookup.try_find(dict.fromkeys(where, LATEST), READ_COMMITTED)
        ends, _ = await lookup.try_find(dict.fromkeys(where, LATEST), READ_UNCOMMITTED)
        return {
            p.partition: PartitionOffsets(starts[p].offset, stable[p].offset, ends[p].offset)
            for p in where
            if p in starts and p in stable and p in ends
        }

    async def offsets_of_topic(
        self, name: str, topic_id: str, times: Mapping[int, int], isolation_level: str = READ_COMMITTED
    ) -> dict[int, FoundOffset]:
        """Returns the offsets that `times` asks for, in the topic of just this id: partition -> ms since 1970 (or -1 the end,
        -2 the beginning).

        Raises `UnknownTopicError` when the name is another topic's by now.
        """
        wanted = {PartitionId(topic_id, partition): time_ms for partition, time_ms in times.items()}
        (found,) = await self.offsets_of_topics({name: topic_id}, wanted, isolation_level=isolation_level)
        return {where.partition: at for where, at in found.items()}

    async def offsets_of_topics(
        self, topic_ids: Mapping[str, str], *wanted: Mapping[PartitionId, int], isolation_level: str = READ_COMMITTED
    ) -> list[dict[PartitionId, FoundOffset]]:
        """Returns the offsets that `wanted` asks for, as in `offsets_of_topic`, of topics (name -> id), all at the same time.

        Raises `UnknownTopicError` when a name is another topic's by now.
        """
        known = (self._require_id(name, topic_id) for name, topic_id in topic_ids.items())
        for refused in await asyncio.gather(*known, return_exceptions=True):
            if refused is not None:
                raise refused
        lookup = OffsetLookup(self._context, self._metadata)
        answers = await asyncio.gather(*(lookup.try_find(asked, isolation_level) for asked in wanted))
        for _, failed in answers:
            for error in failed.values():
                raise error
        return [{key: found[key] for key in asked} for asked, (found, _) in zip(wanted, answers, strict=True)]

    async def _require_id(self, name: str, topic_id: str) -> None:
        known = await self._metadata.topic_known_as(check_topic_name(name), topic_id, self._context.deadline_ms())
        if known.topic_id != topic_id:
            raise created_again(name, advice="look at it anew")

    async def end_of_epoch(self, topic: str, partition: int, leader_epoch: int, topic_id: str = "") -> int:
        """The offset (exclusive) at which this leader epoch ended in the log; a position above it was cut off.

        With a `topic_id`, raises `UnknownTopicError` when the name is another topic's by now.
        """
        if topic_id:
            await self._require_id(topic, topic_id)
        else:
            topic_id = (await self._metadata.topic(check_topic_name(topic), self._context.deadline_ms())).topic_id
        where = PartitionId(topic_id, partition)
        request = pb.OffsetForLeaderEpochRequest(topic_id=topic_id, partition=partition, leader_epoch=leader_epoch)
        reply = await self._caller.to_leader(where, methods.OFFSET_FOR_LEADER_EPOCH, request)
        return reply.end_offset

    async def delete_records(self, topic: str, partition: int, before_offset: int = -1) -> int:
        """Deletes records below an offset (-1 = everything committed by now); returns the new log start offset.

        Raises `UnknownTopicError`, `OffsetOutOfRangeError` or `ConfigError`.
        """
        partition = whole_number("partition", partition, 0, PARTITION_MAX)
        before_offset = whole_number("before_offset", before_offset, -OFFSET_MAX, OFFSET_MAX)
        found = await self._metadata.topic(check_topic_name(topic), self._context.deadline_ms())
        where = PartitionId(found.topic_id, partition)
        if before_offset == -1:  # an offset can be repeated; "the end", asked for again, is another one
            ends = await OffsetLookup(self._context, self._metadata).find({where: LATEST}, READ_UNCOMMITTED)
            before_offset = ends[where].offset
        request = pb.DeleteRecordsRequest(topic_id=found.topic_id, partition=partition, before_offset=before_offset)
        reply = await self._caller.to_leader(where, methods.DELETE_RECORDS, request)
        return reply.log_start_offset

    # ------------------------------------------------------------ altering

    async def alter_topic(
        self,
        name: str,
        *,
        config: Mapping[str, str] | None = None,
        unset: Iterable[str] = (),
        validate_only: bool = False,
        timeout_ms: int = 30_000,
    ) -> AlteredTopic:
        """Sets options, and puts those in `unset` back to the cluster's default; in force everywhere, without restart.

        Raises `UnknownTopicError`, `InvalidTopicError` (one of the cluster's own) or `ConfigError`.
        """
        return await self._alter(
            pb.AlterTopicRequest(
                topic=check_topic_name(name),
                set=_entries(config),
                unset=[_option_text("the name of an option", option) for option in unset],
                validate_only=validate_only,
                timeout_ms=_number("timeout_ms", timeout_ms),
            )
        )

    async def add_partitions(self, name: str, partitions: int, *, timeout_ms: int = 30_000) -> AlteredTopic:
        """Grows a topic to `partitions` in all; never fewer than it has. Keys go to other partitions from then on.

        Raises `UnknownTopicError`, `InvalidTopicError`, `InvalidPartitionsError` or `InvalidReplicationFactorError`.
        """
        total = _number("partitions", partitions)
        if total < 1:
            raise errors.InvalidPartitionsError("the number of partitions in all, 1 and up", partitions=total)
        timeout_ms = _number("timeout_ms", timeout_ms)
        return await self._alter(
            pb.AlterTopicRequest(topic=check_topic_name(name), partitions=total, timeout_ms=timeout_ms)
        )

    async def _alter(self, request: pb.AlterTopicRequest) -> AlteredTopic:
        request.topic_id = (await self.describe_topic(request.topic)).topic_id
        reply = await self._caller.to_controller(methods.ALTER_TOPIC, request, once=True)
        self._metadata.request_refresh()  # it may have more partitions now
        config = {entry.name: entry.value for entry in reply.config}
        return AlteredTopic(request.topic, reply.topic_id, reply.partitions, config, reply.changed)

    # ------------------------------------------------------------ looking closely

    async def topic_configs(self, name: str) -> list[ConfigValue]:
        """Every option of a topic, with its source and what may stand in it. Raises `UnknownTopicError`."""
        request = pb.DescribeTopicConfigsRequest(topics=[check_topic_name(name)])
        reply = await self._caller.to_any_broker(methods.DESCRIBE_TOPIC_CONFIGS, request)
        (topic,) = reply.topics
        if topic.HasField("error"):
            error = from_detail(topic.error)
            raise UnknownTopicError.named(name) if isinstance(error, UnknownTopicError) else error
        return [
            ConfigValue(c.name, c.value, "topic" if c.explicit else "default", c.default_value, c.legal)
            for c in topic.config
        ]

    async def min_insync_replicas(self, topics: Sequence[TopicDescription]) -> dict[str, int]:
        """Topic -> how many replicas must be in sync for acks=all; more than there are means all of them."""
        request = pb.DescribeTopicConfigsRequest(topics=[topic.name for topic in topics])
        reply = await self._caller.to_any_broker(methods.DESCRIBE_TOPIC_CONFIGS, request)
        found = {t.topic: c.value for t in reply.topics for c in t.config if c.name == "min_insync_replicas"}
        return {topic.name: int(found.get(topic.name, 1)) for topic in topics}

    async def describe_partitions(
        self, topics: Sequence[TopicDescription], count_from: Mapping[PartitionId, int] | None = None
    ) -> dict[PartitionId, LogDescription]:
        """Returns what the leaders say of these topics' partitions, in one look: a partition that does not answer is absent.

        `count_from`: partition -> the offset from which its committed records are counted; then only these are asked.
        """
        names = {topic.topic_id: topic.name for topic in topics}
        leaders = {
            PartitionId(topic.topic_id, p.partition): p.leader
            for topic in topics
            for p in topic.partitions
            if p.leader is not None
        }
        if count_from is not None:
            leaders = {where: leader for where, leader in leaders.items() if where in count_from}
        await self._metadata.refresh(self._context.deadline_ms())
        addresses = self._metadata.broker_addresses()
        by_address: dict[str, pb.DescribePartitionsRequest] = {}
        for where, leader in leaders.items():
            if leader in addresses:
                item = by_address.setdefault(addresses[leader], pb.DescribePartitionsRequest()).partitions.add(
                    topic_id=where.topic_id, partition=where.partition
                )
                if count_from is not None:
                    item.count_from = count_from[where]
        replies = await asyncio.gather(*(self._try_describe(a, request) for a, request in by_address.items()))
        return {
            PartitionId(found.topic_id, found.partition): _log(names[found.topic_id], found)
            for reply in replies
            for found in reply.partitions
            if not found.HasField("error")
        }

    def raw_reader(self) -> RawReader:
        """Reads whole batches, markers too, of one partition after the other."""
        return RawReader(self._context, self._metadata)

    async def _try_describe(self, address: str, request: pb.DescribePartitionsRequest) -> pb.DescribePartitionsReply:
        timeout_ms = self._context.call_timeout_ms(self._context.deadline_ms())
        try:
            reply, _ = await methods.DESCRIBE_PARTITIONS.call(self._context.transport, address, request, timeout_ms)
        except errors.OncelogError as error:
            if not error.retriable:
                raise
            return pb.DescribePartitionsReply()
        return reply


def _entries(config: Mapping[str, str] | None) -> list[pb.ConfigEntry]:
    """Returns options as they are sent. Raises `ConfigError`."""
    return [
        pb.ConfigEntry(
            name=_option_text("the name of an option", name), value=_option_text(f"the value of {name}", value)
        )
        for name, value in (config or {}).items()
    ]


def _option_text(what: str, given: object) -> str:
    if not is_text(given):
        raise ConfigError(f"{what} is text that UTF-8 can hold: {{'retention_ms': '60000'}}", given=ascii(given)[:66])
    return str(given)


def _number(name: str, given: object) -> int:
    """Returns a number that a request can hold; whether it makes sense is the controller's to say. Raises `ConfigError`."""
    return whole_number(name, given, -PARTITION_MAX, PARTITION_MAX)


def topic_of(info: pb.TopicInfo) -> TopicDescription:
    """From the wire."""
    partitions = (
        PartitionDescription(
            partition=p.partition,
            leader=p.leader.broker_id if p.HasField("leader") else None,
            leader_epoch=p.leader_epoch,
            replicas=tuple(p.replicas),
            isr=tuple(ref.broker_id for ref in p.isr),
            adding=tuple(p.adding),
        )
        for p in info.partitions
    )
    config = {entry.name: entry.value for entry in info.config}
    in_order = tuple(sorted(partitions, key=lambda p: p.partition))
    return TopicDescription(info.name, info.topic_id, info.internal, in_order, config)


def _log(topic: str, found: pb.DescribedPartition) -> LogDescription:
    return LogDescription(
        topic=topic,
        partition=found.partition,
        leader_epoch=found.leader_epoch,
        log_start_offset=found.log_start_offset,
        last_stable_offset=found.last_stable_offset,
        high_watermark=found.high_watermark,
        log_end_offset=found.log_end_offset,
        size_bytes=found.size_bytes,
        open_transactions=found.open_transactions,
        min_insync_replicas=found.min_insync_replicas,
        records=found.records,
        counted_to=found.counted_to,
        lagging=tuple(LaggingReplica(item.broker_id, item.log_end_offset) for item in found.lagging),
    )
