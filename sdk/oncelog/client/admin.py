"""Administration: topics, transactions, groups, the health of a cluster. `client.admin`.

Every call is tried again until `default_api_timeout_ms`; creating, altering and deleting are safe to repeat.
"""

from __future__ import annotations

from oncelog.client.descriptions import (
    AlteredTopic,
    ClusterHealth,
    ConfigValue,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    GroupOffset,
    HangingTransaction,
    LogDescription,
    PartitionDescription,
    PartitionOffsets,
    PendingOffsets,
    ProducerDescription,
    TopicDescription,
    TransactionDescription,
)
from oncelog.client.group_admin import GroupAdmin
from oncelog.client.topic_admin import TopicAdmin, topic_of
from oncelog.client.transaction_admin import TransactionAdmin
from oncelog.v1 import partition_pb2 as pb


class Admin(TopicAdmin, TransactionAdmin, GroupAdmin):
    """See the module. Made by the client."""

    async def cluster_health(self) -> ClusterHealth:
        """What one broker sees of the cluster. Raises `ClusterUnreachableError` when no broker answers."""
        return _health(await self._describe(all_topics=True))


def _health(reply: pb.GetMetadataReply) -> ClusterHealth:
    topics = [topic_of(t) for t in reply.topics]
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
    "AlteredTopic",
    "ClusterHealth",
    "ConfigValue",
    "CreatedTopic",
    "GroupDescription",
    "GroupListing",
    "GroupOffset",
    "HangingTransaction",
    "LogDescription",
    "PartitionDescription",
    "PartitionOffsets",
    "PendingOffsets",
    "ProducerDescription",
    "TopicDescription",
    "TransactionDescription",
]
