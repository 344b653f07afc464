"""Administration: topics, transactions, the health of a cluster. `client.admin`.

Every call is tried again until `default_api_timeout_ms`; creating and deleting are safe to repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oncelog import methods
from oncelog.client.calls import Caller
from oncelog.client.context import Context
from oncelog.client.metadata import Metadata, unknown_topic
from oncelog.client.offset_lookup import EARLIEST, LATEST, OffsetLookup
from oncelog.config import READ_COMMITTED, READ_UNCOMMITTED
from oncelog.core.names import check_topic_name, check_transactional_id
from oncelog.errors import UnknownTopicError
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire_errors import from_detail


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """`created` False: it existed already."""

    name: str
    topic_id: str
    created: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """`leader` None = leaderless at the moment. Broker ids; `replicas` has the preferred one first."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic; `config` holds what was set explicitly."""

    name: str
    topic_id: str
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Where a partition's log begins, how far it is stable, and how far it is replicated (all exclusive ends)."""

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The state of one transactional id. `txn_no` is the newest number; times are milliseconds since 1970."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    txn_no: int
    state: str
    start_timestamp_ms: int
    timeout_ms: int
    partitions: tuple[tuple[str, int], ...]
    groups: tuple[str, ...]
    coordinator: str
    txn_shard: int
    owner_run: str
    tokens: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """`problems` is empty when all is as it should be."""

    cluster_id: str
    controller: int | None
    brokers: tuple[tuple[int, str], ...]
    leaderless: tuple[tuple[str, int], ...]
    under_replicated: tuple[tuple[str, int], ...]
    unowned_shards: int
    problems: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        """Every partition has a leader and its full ISR, every shard an owner, and there is a controller."""
        return not self.problems


class Admin:
    """See the module. Made by the client."""

    def __init__(self, context: Context, metadata: Metadata, caller: Caller) -> None:
        self._context = context
        self._caller = caller
        self._metadata = metadata

    # ------------------------------------------------------------ topics

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
        entries = [pb.ConfigEntry(name=n, value=v) for n, v in sorted((config or {}).items())]
        request = pb.CreateTopicRequest(
            topic=check_topic_name(name),
            partitions=partitions,
            replication_factor=replication_factor,
            config=entries,
            timeout_ms=timeout_ms,
            if_not_exists=if_not_exists,
        )
        reply = await self._caller.to_controller(methods.CREATE_TOPIC, request)
        if reply.created:
            self._metadata.forget(name)  # an older topic of this name is gone
        return CreatedTopic(name, reply.topic_id, reply.created)

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic and its records. Raises `UnknownTopicError`."""
        await self._caller.to_controller(methods.DELETE_TOPIC, pb.DeleteTopicRequest(topic=check_topic_name(name)))
        self._metadata.forget(name)

    async def list_topics(self, *, internal: bool = False) -> list[TopicDescription]:
        """All topics by name; the cluster's own ones only with `internal`."""
        reply = await self._describe(all_topics=True)
        return [_topic(t) for t in sorted(reply.topics, key=lambda t: t.name) if internal or not t.internal]

    async def describe_topic(self, name: str) -> TopicDescription:
        """One topic. Raises `UnknownTopicError`."""
        reply = await self._describe([check_topic_name(name)])
        topic = reply.topics[0]
        if topic.HasField("error"):
            error = from_detail(topic.error)
            raise unknown_topic(name) if isinstance(error, UnknownTopicError) else error
        return _topic(topic)

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

    async def end_of_epoch(self, topic: str, partition: int, leader_epoch: int) -> int:
        """The offset (exclusive) at which this leader epoch ended in the log; a position above it was cut off."""
        found = await self._metadata.topic(check_topic_name(topic), self._context.deadline_ms())
        where = PartitionId(found.topic_id, partition)
        request = pb.OffsetForLeaderEpochRequest(
            topic_id=found.topic_id, partition=partition, leader_epoch=leader_epoch
        )
        reply = await self._caller.to_leader(where, methods.OFFSET_FOR_LEADER_EPOCH, request)
        return reply.end_offset

    async def delete_records(self, topic: str, partition: int, before_offset: int = -1) -> int:
        """Deletes records below an offset (-1 = everything committed); returns the new log start offset."""
        found = await self._metadata.topic(check_topic_name(topic), self._context.deadline_ms())
        where = PartitionId(found.topic_id, partition)
        request = pb.DeleteRecordsRequest(topic_id=found.topic_id, partition=partition, before_offset=before_offset)
        reply = await self._caller.to_leader(where, methods.DELETE_RECORDS, request)
        return reply.log_start_offset

    # ------------------------------------------------------------ transactions

    async def list_transactions(self, states: Iterable[str] = ()) -> list[TransactionDescription]:
        """Every transactional id that some coordinator owns, by name; only these states when any is given."""
        request = co.ListTransactionsRequest(states=list(states))
        found: list[TransactionDescription] = []
        for address in sorted(set(await self._metadata.coordinators(self._context.deadline_ms()))):
            reply = await self._caller.to_address(address, methods.LIST_TRANSACTIONS, request)
            found.extend(_transaction(info) for info in reply.transactions)
        return sorted(found, key=lambda t: t.transactional_id)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """One transactional id. Raises `InvalidPidMappingError` when nobody knows it."""
        request = co.DescribeTransactionRequest(transactional_id=check_transactional_id(transactional_id))
        reply = await self._caller.to_txn_coordinator(transactional_id, methods.DESCRIBE_TRANSACTION, request)
        return _transaction(reply.transaction)

    async def abort_transaction(self, transactional_id: str) -> int:
        """Aborts the open transaction by an operator's word; returns its number, 0 when none was open."""
        request = co.ForceAbortRequest(transactional_id=check_transactional_id(transactional_id))
        reply = await self._caller.to_txn_coordinator(transactional_id, methods.FORCE_ABORT, request)
        return reply.txn_no

    # ------------------------------------------------------------ health

    async def cluster_health(self) -> ClusterHealth:
        """What one broker sees of the cluster. Raises `ClusterUnreachableError` when no broker answers."""
        return _health(await self._describe(all_topics=True))

    async def _describe(self, topics: Sequence[str] = (), all_topics: bool = False) -> pb.GetMetadataReply:
        request = pb.GetMetadataRequest(topics=list(topics), all_topics=all_topics)
        return await self._caller.to_any_broker(methods.GET_METADATA, request)


def _topic(info: pb.TopicInfo) -> TopicDescription:
    partitions = (
        PartitionDescription(
            partition=p.partition,
            leader=p.leader.broker_id if p.HasField("leader") else None,
            leader_epoch=p.leader_epoch,
            replicas=tuple(p.replicas),
            isr=tuple(ref.broker_id for ref in p.isr),
        )
        for p in info.partitions
    )
    config = {entry.name: entry.value for entry in info.config}
    in_order = tuple(sorted(partitions, key=lambda p: p.partition))
    return TopicDescription(info.name, info.topic_id, info.internal, in_order, config)


def _transaction(info: co.TransactionInfo) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=info.transactional_id,
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
        txn_no=info.txn_no,
        state=info.state,
        start_timestamp_ms=info.start_timestamp_ms,
        timeout_ms=info.timeout_ms,
        partitions=tuple((p.topic or p.topic_id, p.partition) for p in info.partitions),
        groups=tuple(info.groups),
        coordinator=info.coordinator,
        txn_shard=info.txn_shard,
        owner_run=info.owner_run,
        tokens=tuple((t.app_id, t.batch_id) for t in info.tokens),
    )


def _health(reply: pb.GetMetadataReply) -> ClusterHealth:
    topics = [_topic(t) for t in reply.topics]
    leaderless = tuple((t.name, p.partition) for t in topics for p in t.partitions if p.leader is None)
    thin = tuple((t.name, p.partition) for t in topics for p in t.partitions if len(p.isr) < len(p.replicas))
    unowned = reply.transaction_shard_count - len(reply.transaction_shards)
    unowned += reply.group_shard_count - len(reply.group_shards)
    problems = []
    if not reply.HasField("controller"):
        problems.append("there is no controller")
    if not any(t.internal for t in topics):
        problems.append("the internal topics do not exist yet")
    if leaderless:
        problems.append(f"{len(leaderless)} partitions have no leader")
    if thin:
        problems.append(f"{len(thin)} partitions are under-replicated")
    if unowned or not reply.transaction_shard_count:
        problems.append(f"{unowned} coordinator shards have no owner")
    return ClusterHealth(
        cluster_id=reply.cluster_id,
        controller=reply.controller.broker_id if reply.HasField("controller") else None,
        brokers=tuple(sorted((b.broker.broker_id, b.address) for b in reply.brokers)),
        leaderless=leaderless,
        under_replicated=thin,
        unowned_shards=unowned,
        problems=tuple(problems),
    )


__all__ = [
    "Admin",
    "ClusterHealth",
    "CreatedTopic",
    "PartitionDescription",
    "PartitionOffsets",
    "TopicDescription",
    "TransactionDescription",
]
