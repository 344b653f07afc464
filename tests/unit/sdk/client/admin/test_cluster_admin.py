"""The health of a cluster names everything that is wrong with it; its description counts who does what."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog.client.admin.descriptions import BrokerDescription, ClusterHealth, CoordinatorDescription
from oncelog.v1 import partition_pb2 as pb
from tests.unit.sdk.client.fake_cluster import BROKERS, COORDINATOR, TOPIC, TOPIC_ID, FakeCluster


def metadata() -> pb.GetMetadataReply:
    """All is well: two brokers, each leads a partition of one topic; an internal one; one coordinator."""
    reply = pb.GetMetadataReply(
        cluster_id="fake", revision=10, transaction_shard_count=2, group_shard_count=1, pid_allocators=["p0:1"]
    )
    for number, address in enumerate(BROKERS):
        reply.brokers.add(broker={"broker_id": number}, address=address, rack=f"r{number}")
    reply.controller.broker_id = 1
    topic = reply.topics.add(name=TOPIC, topic_id=TOPIC_ID)
    for number in range(2):
        leader, isr = {"broker_id": number}, [{"broker_id": 0}, {"broker_id": 1}]
        topic.partitions.add(partition=number, leader=leader, replicas=[0, 1], isr=isr)
    reply.topics.add(name="__internal", topic_id="0b" * 16, internal=True)
    for shard in range(2):
        reply.transaction_shards.add(shard=shard, address=COORDINATOR, epoch=1)
    reply.group_shards.add(shard=0, address=COORDINATOR, epoch=1)
    return reply


def described(change: Callable[[pb.GetMetadataReply], object] = lambda _: None, min_isr: int = 1) -> ClusterHealth:
    cluster, reply = FakeCluster(), metadata()
    change(reply)
    configs = pb.DescribeTopicConfigsReply()
    configs.topics.add(topic=TOPIC).config.add(name="min_insync_replicas", value=str(min_isr))
    cluster.answers = {"GetMetadata": reply, "DescribeTopicConfigs": configs}

    async def work(_: FakeCluster) -> ClusterHealth:
        async with cluster.client() as client:
            return await client.admin.cluster_health()

    return cluster.run(work)


def test_a_cluster_without_a_fault_is_healthy() -> None:
    health = described()
    assert (health.healthy, health.problems) == (True, ())
    assert (health.cluster_id, health.controller, health.allocators) == ("fake", 1, ("p0:1",))
    assert health.brokers == ((0, "b0:1"), (1, "b1:1"))


def without_leader(reply: pb.GetMetadataReply) -> None:
    reply.topics[0].partitions[1].ClearField("leader")


def without_a_replica_in_sync(reply: pb.GetMetadataReply) -> None:
    del reply.topics[0].partitions[0].isr[1]


FAULTS: dict[str, tuple[Callable[[pb.GetMetadataReply], object], tuple[str, ...]]] = {
    "no controller": (lambda reply: reply.ClearField("controller"), ("there is no controller",)),
    "a new cluster": (lambda reply: reply.topics.pop(), ("the internal topics do not exist yet",)),
    "no leader": (without_leader, ("1 partitions have no leader",)),
    "a replica out of sync": (without_a_replica_in_sync, ("1 partitions are under-replicated",)),
    "a broker that left": (
        lambda reply: reply.brokers.pop(),
        ("brokers 1 have replicas and are not registered",),
    ),
    "a shard without owner": (lambda reply: reply.group_shards.pop(), ("1 coordinator shards have no owner",)),
    "a shard that is not served": (
        lambda reply: setattr(reply.group_shards[0], "trouble", "its log is rotten"),
        ("1 coordinator shards are not served, see the coordinators' logs",),
    ),
    "no producer ids": (
        lambda reply: reply.ClearField("pid_allocators"),
        ("no service for producer ids is registered",),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_told_alone(name: str) -> None:
    change, problems = FAULTS[name]
    health = described(change)
    assert (health.problems, health.healthy) == (problems, False)


def test_what_is_in_trouble_is_named_and_not_only_counted() -> None:
    assert described(without_leader).leaderless == ((TOPIC, 1),)
    assert described(without_a_replica_in_sync).under_replicated == ((TOPIC, 0),)
    assert described(lambda reply: reply.brokers.pop()).missing_brokers == (1,)
    troubled = described(lambda reply: setattr(reply.transaction_shards[1], "trouble", "its log is rotten"))
    assert troubled.troubled_shards == (("txn-1", "its log is rotten"),)


@pytest.mark.parametrize(("min_isr", "refused"), [(1, ()), (2, ((TOPIC, 0),)), (5, ((TOPIC, 0),))])
def test_a_thin_partition_refuses_writes_only_below_its_minimum(min_isr: int, refused: tuple[object, ...]) -> None:
    health = described(without_a_replica_in_sync, min_isr)
    assert health.under_min_isr == refused
    assert bool(refused) == any("refuse acks=all" in problem for problem in health.problems)


def test_a_replica_that_is_being_added_is_no_fault() -> None:
    def adding(reply: pb.GetMetadataReply) -> None:
        reply.topics[0].partitions[0].replicas.append(2)
        reply.topics[0].partitions[0].adding.append(2)
        reply.brokers.add(broker={"broker_id": 2}, address="b2:1")

    assert described(adding).problems == ()


def test_the_description_counts_what_each_one_leads_holds_and_owns() -> None:
    cluster = FakeCluster()
    cluster.answers["GetMetadata"] = metadata()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            found = await client.admin.describe_cluster()
        assert found.brokers == (
            BrokerDescription(0, "b0:1", "r0", False, 1, 2),
            BrokerDescription(1, "b1:1", "r1", True, 1, 2),
        )
        assert found.coordinators == (CoordinatorDescription(COORDINATOR, 2, 1),)
        assert (found.topics, found.partitions, found.allocators) == (2, 2, ("p0:1",))
        assert (found.transaction_shards, found.group_shards) == (2, 1)

    cluster.run(work)
