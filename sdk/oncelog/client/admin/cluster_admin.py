"""Administration of the cluster as a whole: a part of `client.admin`."""

from __future__ import annotations

from collections import Counter

from oncelog.client.admin.descriptions import (
    BrokerDescription,
    ClusterDescription,
    ClusterHealth,
    CoordinatorDescription,
    TopicDescription,
)
from oncelog.client.admin.topic_admin import TopicAdmin, topic_of
from oncelog.v1 import partition_pb2 as pb


class ClusterAdmin(TopicAdmin):
    """See the module."""

    async def cluster_health(self) -> ClusterHealth:
        """Returns the cluster as one broker sees it. Raises `ClusterUnreachableError` when no broker answers."""
        reply = await self._describe(all_topics=True)
        topics = [topic_of(t) for t in reply.topics]
        thin = [t for t in topics if any(not p.fully_in_sync for p in t.partitions)]
        minimum = await self.min_insync_replicas(thin) if thin else {}
        return _health(reply, topics, minimum)

    async def describe_cluster(self) -> ClusterDescription:
        """Returns the processes of the cluster. Raises `ClusterUnreachableError` when no broker answers."""
        reply = await self._describe(all_topics=True)
        partitions = [p for t in reply.topics for p in topic_of(t).partitions]
        leads = Counter(p.leader for p in partitions)
        replicas = Counter(broker for p in partitions for broker in p.replicas)
        controller = reply.controller.broker_id if reply.HasField("controller") else None
        brokers = (
            BrokerDescription(id_, b.address, b.rack, id_ == controller, leads[id_], replicas[id_])
            for b in reply.brokers
            for id_ in (b.broker.broker_id,)
        )
        transactions = Counter(owner.address for owner in reply.transaction_shards)
        groups = Counter(owner.address for owner in reply.group_shards)
        return ClusterDescription(
            cluster_id=reply.cluster_id,
            brokers=tuple(sorted(brokers, key=lambda b: b.broker)),
            coordinators=tuple(
                CoordinatorDescription(address, transactions[address], groups[address])
                for address in sorted({*transactions, *groups})
            ),
            allocators=tuple(reply.pid_allocators),
            transaction_shards=reply.transaction_shard_count,
            group_shards=reply.group_shard_count,
            topics=len(reply.topics),
            partitions=len(partitions),
        )


def _health(reply: pb.GetMetadataReply, topics: list[TopicDescription], minimum: dict[str, int]) -> ClusterHealth:
    leaderless = tuple((t.name, p.partition) for t in topics for p in t.partitions if p.leader is None)
    thin = tuple((t.name, p.partition) for t in topics for p in t.partitions if not p.fully_in_sync)
    refused = tuple(
        (t.name, p.partition)
        for t in topics
        for p in t.partitions
        if len(p.isr) < min(minimum.get(t.name, 1), len(p.replicas))
    )
    live = {b.broker.broker_id for b in reply.brokers}
    missing = tuple(sorted({broker for t in topics for p in t.partitions for broker in p.replicas} - live))
    unowned = reply.transaction_shard_count - len(reply.transaction_shards)
    unowned += reply.group_shard_count - len(reply.group_shards)
    troubled = tuple(
        (f"{kind}-{owner.shard}", owner.trouble)
        for kind, owners in (("txn", reply.transaction_shards), ("group", reply.group_shards))
        for owner in owners
        if owner.trouble
    )
    problems = []
    if not reply.HasField("controller"):
        problems.append("there is no controller")
    if not any(t.internal for t in topics):
        problems.append("the internal topics do not exist yet")
    if leaderless:
        problems.append(f"{len(leaderless)} partitions have no leader")
    if missing:
        problems.append(f"brokers {', '.join(map(str, missing))} have replicas and are not registered")
    if refused:
        problems.append(f"{len(refused)} partitions refuse acks=all: fewer than min_insync_replicas are in sync")
    if thin:
        problems.append(f"{len(thin)} partitions are under-replicated")
    if unowned or not reply.transaction_shard_count:
        problems.append(f"{unowned} coordinator shards have no owner")
    if troubled:
        problems.append(f"{len(troubled)} coordinator shards are not served, see the coordinators' logs")
    if not reply.pid_allocators:
        problems.append("no service for producer ids is registered")
    return ClusterHealth(
        cluster_id=reply.cluster_id,
        controller=reply.controller.broker_id if reply.HasField("controller") else None,
        brokers=tuple(sorted((b.broker.broker_id, b.address) for b in reply.brokers)),
        leaderless=leaderless,
        under_replicated=thin,
        unowned_shards=unowned,
        problems=tuple(problems),
        under_min_isr=refused,
        missing_brokers=missing,
        troubled_shards=troubled,
        allocators=tuple(reply.pid_allocators),
    )
