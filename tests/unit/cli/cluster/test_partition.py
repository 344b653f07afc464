"""`oncelog partition`: which partitions are in trouble, and moves of leaders and replicas, each with its own outcome."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import placement_pb2 as pl
from oncelog.wire.wire_errors import to_detail
from tests.unit.cli.conftest import Oncelog
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster


def in_sync(*ids: int) -> list[dict[str, int]]:
    return [{"broker_id": number} for number in ids]


@pytest.fixture(autouse=True)
def troubles(cluster: FakeCluster) -> None:
    """Partition 0 is fine, 1 is thin, 2 refuses writes, 3 has no leader."""

    def placed(_: Any, reply: pb.GetMetadataReply, payload: bytes) -> tuple[Any, bytes]:
        for topic in reply.topics:
            del topic.partitions[:]
            for number, isr in enumerate([(0, 1, 2), (0, 1), (0,), (0, 1, 2)]):
                found = topic.partitions.add(partition=number, replicas=[0, 1, 2], isr=in_sync(*isr))
                if number != 3:
                    found.leader.CopyFrom(reply.brokers[0].broker)
        return reply, payload

    cluster.lies["GetMetadata"] = placed
    configs = pb.DescribeTopicConfigsReply()
    configs.topics.add(topic=TOPIC).config.add(name="min_insync_replicas", value="2")
    cluster.answers["DescribeTopicConfigs"] = configs


@pytest.mark.parametrize(
    ("flags", "partitions", "code"),
    [
        ("", [0, 1, 2, 3], 0),
        ("--under-replicated", [1, 2], 1),
        ("--under-min-isr", [2], 1),
        ("--leaderless", [3], 1),
        ("--leaderless --under-min-isr", [2, 3], 1),
    ],
)
def test_filters_show_what_any_of_them_finds_and_exit_with_1(
    oncelog: Oncelog, flags: str, partitions: list[int], code: int
) -> None:
    said = oncelog("partition", "list", *flags.split())
    assert said.code == code
    assert [int(row[1]) for row in said.table[1:]] == partitions


def test_problems_are_named_in_the_row(oncelog: Oncelog) -> None:
    rows = oncelog("partition", "list", "--topic", TOPIC).table
    assert [row[-1] for row in rows[1:]] == ["-", "under-replicated", "under-min-isr,under-replicated", "leaderless"]


# ---------------------------------------------------------------- moving


def test_a_leader_moves_one_partition_at_a_time_and_a_refusal_keeps_no_other(
    cluster: FakeCluster, oncelog: Oncelog
) -> None:
    def transfer(_: str, request: pl.TransferLeadershipRequest) -> pl.TransferLeadershipReply:
        if request.partition == 1:
            raise errors.IneligibleReplicaError("not in sync", retry_after_ms=10_000)
        return pl.TransferLeadershipReply()

    cluster.answers["TransferLeadership"] = transfer
    said = oncelog("partition", "transfer-leadership", f"{TOPIC}/1", f"{TOPIC}/0", "--to", "2")
    assert (said.code, said.out) == (1, f"{TOPIC}/0 is led by 2\n")
    assert "INELIGIBLE_REPLICA: not in sync" in said.err


@pytest.mark.parametrize("verb", ["transfer-leadership --to 1", "reassign --cancel"])
def test_a_topic_alone_is_no_partition(cluster: FakeCluster, oncelog: Oncelog, verb: str) -> None:
    said = oncelog("partition", *verb.split(), TOPIC)
    assert (said.code, cluster.calls) == (2, [])
    assert f"name one partition, for example {TOPIC}/0" in said.err


def test_replicas_move_to_the_brokers_that_are_named(cluster: FakeCluster, oncelog: Oncelog) -> None:
    refused = pl.ReassignPartitionsReply()
    error = to_detail(errors.InvalidReplicaAssignmentError("no such broker"))
    refused.errors.add(partition={"topic_id": TOPIC_ID, "partition": 1}, error=error)
    cluster.answers["ReassignPartitions"] = refused
    said = oncelog("partition", "reassign", f"{TOPIC}/0=1,2", f"{TOPIC}/1=9", "--format", "json")
    assert said.code == 1
    assert [(row["partition"], row["target"], row["result"], row["error"]) for row in said.data] == [
        (0, [1, 2], "moving", None),
        (1, [9], "no such broker", "INVALID_REPLICA_ASSIGNMENT"),
    ]
    (request,) = cluster.requests("ReassignPartitions")
    assert [(p.partition, list(p.replicas)) for p in request.partitions] == [(0, [1, 2]), (1, [9])]


def test_cancelling_names_no_brokers(cluster: FakeCluster, oncelog: Oncelog) -> None:
    cluster.answers["ReassignPartitions"] = pl.ReassignPartitionsReply()
    said = oncelog("partition", "reassign", f"{TOPIC}/0", "--cancel")
    assert said.table[1] == [TOPIC, "0", "-", "cancelled"]
    assert list(cluster.requests("ReassignPartitions")[0].partitions[0].replicas) == []


@pytest.mark.parametrize(
    "words",
    [f"{TOPIC}/0", f"{TOPIC}/0=", f"{TOPIC}/0=1,x", f"{TOPIC}/0=1,", f"{TOPIC}/0=1 --cancel", f"{TOPIC}/0= --cancel"],
)
def test_a_move_that_is_not_understood_moves_nothing(cluster: FakeCluster, oncelog: Oncelog, words: str) -> None:
    said = oncelog("partition", "reassign", *words.split())
    assert (said.code, cluster.calls) == (2, [])
    assert "write TOPIC/PARTITION=NODE,NODE,... to move, or TOPIC/PARTITION with --cancel" in said.err


def test_a_move_that_is_waited_for_is_over_after_two_looks_without_it(cluster: FakeCluster, oncelog: Oncelog) -> None:
    """The first look may be of a broker that has not heard of the move yet."""
    under_way = pl.ListReassignmentsReply(moves=[pl.PartitionMove(topic=TOPIC, partition=0)])
    looks = [pl.ListReassignmentsReply(), under_way, pl.ListReassignmentsReply(), pl.ListReassignmentsReply()]
    cluster.answers |= {
        "ReassignPartitions": pl.ReassignPartitionsReply(),
        "ListReassignments": lambda *_: looks.pop(0),
    }
    assert oncelog("partition", "reassign", f"{TOPIC}/0=1,2", "--wait").table[1][-1] == "moved"
    assert looks == []


def test_moves_under_way_are_shown_as_they_are_now(cluster: FakeCluster, oncelog: Oncelog) -> None:
    move = pl.PartitionMove(topic=TOPIC, partition=0, original=[0], target=[1], replicas=[0, 1], isr=[0])
    cluster.answers["ListReassignments"] = pl.ListReassignmentsReply(moves=[move])
    described = pb.DescribePartitionsReply()
    found = described.partitions.add(topic_id=TOPIC_ID, partition=0, log_start_offset=100, log_end_offset=1_000)
    found.lagging.add(broker_id=2, log_end_offset=-1)
    found.lagging.add(broker_id=1, log_end_offset=400)
    cluster.answers["DescribePartitions"] = described
    assert oncelog("partition", "moves").table[1] == [TOPIC, "0", "0", "1", "0,1", "0", "600"]
    found.lagging[1].log_end_offset = -1
    assert oncelog("partition", "moves").table[1][-1] == "900", "all of the log: nothing was compared yet"
    del described.partitions[:]
    assert oncelog("partition", "moves").table[1][-1] == "-", "its leader says nothing"
