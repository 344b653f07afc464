"""`oncelog cluster`: health is an exit code and a sentence, with what is wrong by name; a cluster that is down is unhealthy."""

from __future__ import annotations

import pytest

from oncelog.v1 import partition_pb2 as pb
from tests.unit.cli.conftest import Oncelog
from tests.unit.sdk.client.admin.test_cluster_admin import metadata
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster


@pytest.fixture(autouse=True)
def answers(cluster: FakeCluster) -> None:
    cluster.answers |= {"GetMetadata": metadata(), "DescribeTopicConfigs": pb.DescribeTopicConfigsReply()}


def changed(cluster: FakeCluster) -> pb.GetMetadataReply:
    """The metadata, to be changed."""
    reply = cluster.answers["GetMetadata"]
    assert isinstance(reply, pb.GetMetadataReply)
    return reply


def test_a_healthy_cluster_is_one_line_and_exit_code_0(oncelog: Oncelog) -> None:
    said = oncelog("cluster", "health")
    assert (said.code, said.out) == (0, "healthy: cluster fake, 2 brokers, controller 1\n")


def test_what_is_wrong_is_named(cluster: FakeCluster, oncelog: Oncelog) -> None:
    reply = changed(cluster)
    reply.topics[0].partitions[1].ClearField("leader")
    reply.group_shards[0].trouble = "its log is rotten"
    said = oncelog("cluster", "health")
    assert said.code == 1
    assert said.out.splitlines() == [
        "unhealthy: 1 partitions have no leader; 1 coordinator shards are not served, see the coordinators' logs",
        f"  leaderless: {TOPIC}/1",
        "  shard group-0 is not served: its log is rotten",
    ]


def test_of_a_great_many_the_first_ten_are_named(cluster: FakeCluster, oncelog: Oncelog) -> None:
    topic = changed(cluster).topics[0]
    del topic.partitions[:]
    for number in range(25):
        topic.partitions.add(partition=number, replicas=[0], isr=[{"broker_id": 0}])
    assert f"{TOPIC}/9 and 15 more\n" in oncelog("cluster", "health").out


def test_a_cluster_that_is_down_is_unhealthy_and_no_error(cluster: FakeCluster, oncelog: Oncelog) -> None:
    cluster.down = {*BROKERS}
    said = oncelog("cluster", "health", "--format", "json")
    assert (said.code, said.data["healthy"], said.err) == (1, False, "")
    assert "connection refused" in said.data["problems"][0]


def test_waiting_for_health_ends_when_it_is_there(cluster: FakeCluster, oncelog: Oncelog) -> None:
    sick, looks = metadata(), []
    sick.ClearField("controller")

    def heal(_address: str, _request: object) -> pb.GetMetadataReply:
        looks.append(1)
        return sick if len(looks) < 10 else metadata()

    cluster.answers["GetMetadata"] = heal
    said = oncelog("cluster", "health", "--exit-when-healthy", "--watch", "--interval-s", "0.1")
    assert said.code == 0
    assert said.out.splitlines() == [
        "unhealthy: there is no controller",
        "healthy: cluster fake, 2 brokers, controller 1",
    ], "what did not change is not said again"


def test_who_is_there_for_people_and_for_programs(oncelog: Oncelog) -> None:
    said = oncelog("cluster", "info").out
    assert "CLUSTER  fake" in said
    assert "producer id services: p0:1" in said
    assert "topics: 2, partitions: 2" in said
    found = oncelog("cluster", "info", "--format", "json").data
    assert [(b["broker"], b["controller"]) for b in found["brokers"]] == [(0, False), (1, True)]
    assert found["transaction_shards"] == 2
