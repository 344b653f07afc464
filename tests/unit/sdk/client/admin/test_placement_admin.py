"""Leaders and replicas are moved by the controller, for partitions that exist; what it refuses is told one by one."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.client.admin.descriptions import Reassignment, SurveyedReplica
from oncelog.v1 import placement_pb2 as pl
from oncelog.wire.wire_errors import to_detail
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_a_transfer_names_the_epoch_that_it_ends(cluster: FakeCluster) -> None:
    cluster.answers["TransferLeadership"] = pl.TransferLeadershipReply()
    cluster.epochs[1] = 4

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await client.admin.transfer_leadership(TOPIC, 1, 0)

    cluster.run(work)
    (request,) = cluster.requests("TransferLeadership")
    assert (request.topic_id, request.partition, request.broker_id, request.leader_epoch) == (TOPIC_ID, 1, 0, 4)


def test_a_survey_tells_what_each_replica_has_and_how_it_stands(cluster: FakeCluster) -> None:
    replicas = [
        pl.SurveyedReplica(broker_id=0, answered=True, holder=True, standing=pl.REPLICA_STANDING_LOST),
        pl.SurveyedReplica(broker_id=1, answered=True, last_epoch=3, log_end_offset=90, high_watermark=80),
    ]
    cluster.answers["SurveyReplicas"] = pl.SurveyReplicasReply(leader_epoch=7, has_leader=False, replicas=replicas)
    cluster.answers["ElectUnclean"] = pl.ElectUncleanReply()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            found = await client.admin.survey_replicas(TOPIC, 0)
            assert (found.topic, found.partition, found.leader_epoch, found.has_leader) == (TOPIC, 0, 7, False)
            assert found.replicas == (
                SurveyedReplica(0, True, True, "lost", 0, 0, 0),
                SurveyedReplica(1, True, False, "", 3, 90, 80),
            )
            await client.admin.elect_unclean(TOPIC, 0, 1, leader_epoch=found.leader_epoch)

    cluster.run(work)
    (request,) = cluster.requests("ElectUnclean")
    assert (request.broker_id, request.leader_epoch) == (1, 7)


def test_refused_moves_are_told_by_name_and_the_others_go_on(cluster: FakeCluster) -> None:
    refused = pl.ReassignPartitionsReply()
    error = to_detail(errors.ReassignmentInProgressError("it moves already"))
    refused.errors.add(partition={"topic_id": TOPIC_ID, "partition": 1}, error=error)
    cluster.answers["ReassignPartitions"] = refused

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            (found,) = await client.admin.reassign_partitions({(TOPIC, 0): [1, 2], (TOPIC, 1): []})
            assert (found.topic, found.partition) == (TOPIC, 1)
            assert isinstance(found.error, errors.ReassignmentInProgressError)

    cluster.run(work)
    (request,) = cluster.requests("ReassignPartitions")
    assert [(p.partition, list(p.replicas)) for p in request.partitions] == [(0, [1, 2]), (1, [])], "none: cancel"
    assert request.call.nonce


def test_moves_are_listed_by_topic_and_partition(cluster: FakeCluster) -> None:
    reply = pl.ListReassignmentsReply()
    reply.moves.add(topic="b", partition=0, original=[0], target=[1])
    reply.moves.add(topic="a", partition=1, original=[0, 1], target=[1, 2], replicas=[0, 1, 2], isr=[0, 1])
    reply.moves.add(topic="", topic_id="0d" * 16, partition=5)
    cluster.answers["ListReassignments"] = reply

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            found = await client.admin.list_reassignments()
            assert found == [
                Reassignment("0d" * 16, 5, (), (), (), ()),
                Reassignment("a", 1, (0, 1), (1, 2), (0, 1, 2), (0, 1)),
                Reassignment("b", 0, (0,), (1,), (), ()),
            ]

    cluster.run(work)


CALLS: list[Any] = [
    lambda admin, topic, partition: admin.transfer_leadership(topic, partition, 0),
    lambda admin, topic, partition: admin.survey_replicas(topic, partition),
    lambda admin, topic, partition: admin.elect_unclean(topic, partition, 0, leader_epoch=1),
    lambda admin, topic, partition: admin.reassign_partitions({(topic, partition): [0]}),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("topic", "partition"), [(TOPIC, 2), (TOPIC, -1), ("nowhere", 0)])
def test_a_partition_that_does_not_exist_is_refused_before_the_controller_is_asked(
    cluster: FakeCluster, call: Any, topic: str, partition: int
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with pytest.raises(errors.UnknownTopicError):
                await call(client.admin, topic, partition)

    cluster.run(work)
    assert {method.partition(".")[2] for _, method, _ in cluster.calls} == {"GetMetadata"}
