"""Draining, moving and electing by an operator's word: the form is checked here, and each call is executed once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import BrokerRef, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import placement_pb2 as pl
from oncelog.v1 import types_pb2
from oncelog.wire.wire_errors import from_detail
from oncelog_partition_leader.cluster.balancer import Balancer
from oncelog_partition_leader.cluster.elections import Survey
from oncelog_partition_leader.cluster.reassigner import Mover
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.draining import Remaining
from oncelog_partition_leader.core.replication.replica_state import LogState, ReplicaState
from oncelog_partition_leader.rpc.operations_service import OperationsService
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import P0, P1, TOPIC_ID, Place
from tests.unit.partition_leader.rpc.admin_hands import controller, named, once

START, CANCEL, STATUS = types_pb2.DRAIN_ACTION_START, types_pb2.DRAIN_ACTION_CANCEL, types_pb2.DRAIN_ACTION_STATUS


class Drainer:
    """Drains when it is told, unless `skipped` says why not."""

    def __init__(self) -> None:
        self.active = False
        self.skipped = ""
        self.left = Remaining()
        self.started = 0

    async def start(self) -> bool:
        self.started += 1
        self.active = not self.skipped
        return self.active

    async def cancel(self) -> None:
        self.active = False

    def remaining(self) -> Remaining:
        return self.left

    def why_skipped(self) -> str:
        return self.skipped


class Elections:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.found: Survey | None = None

    async def transfer(self, *arguments: Any) -> None:
        self.asked.append(("transfer", *arguments))

    async def elect_unclean(self, *arguments: Any) -> None:
        self.asked.append(("unclean", *arguments))

    async def survey(self, _partition: PartitionId) -> Survey:
        assert self.found is not None
        return self.found


class Serving:
    """Broker 0 of four, a topic, and the service; moves are real."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.drainer, self.elections = Drainer(), Elections()
        config = BrokerConfig(node_id=0)
        mover = Mover(config, place.metadata, place.view, place.commit)
        balancer = Balancer(config, place.view, place.clock, mover, place.commit)
        self.controller = controller(place, mover=mover, balancer=balancer, elections=self.elections)
        drainer: Any = self.drainer
        self.service = OperationsService(place.view, drainer, self.controller, place.me, once())

    async def drain(self, action: Any, **more: Any) -> pb.DrainBrokerReply:
        return (await self.service.drain_broker(pb.DrainBrokerRequest(action=action, **more), b""))[0]

    async def reassign(self, *moves: tuple[PartitionId, tuple[int, ...]], **more: Any) -> pl.ReassignPartitionsReply:
        items = [
            pl.PartitionReplicas(topic_id=place.topic_id, partition=place.partition, replicas=replicas)
            for place, replicas in moves
        ]
        request = pl.ReassignPartitionsRequest(partitions=items, **more)
        return (await self.service.reassign_partitions(request, b""))[0]


def run(scenario: Callable[[Serving], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        await place.topic(partitions=2)
        await place.lead(P0, epoch=4)
        await place.lead(P1)
        await scenario(Serving(place))

    cluster_place.run(whole, brokers=4)


# ---------------------------------------------------------------- draining


def test_a_drain_is_started_looked_at_and_cancelled() -> None:
    async def scenario(serving: Serving) -> None:
        assert (await serving.drain(STATUS)).state == types_pb2.DRAIN_STATE_NOT_DRAINING
        serving.drainer.left = Remaining(2, 1, can_improve=True)
        reply = await serving.drain(START)
        assert (reply.state, reply.leaderships, reply.needed) == (types_pb2.DRAIN_STATE_DRAINING, 2, 1)
        assert "2 leaderships" in reply.reason
        assert reply.in_sync
        serving.drainer.left = Remaining()
        assert (await serving.drain(STATUS)).state == types_pb2.DRAIN_STATE_DRAINED
        assert (await serving.drain(CANCEL)).state == types_pb2.DRAIN_STATE_NOT_DRAINING

    run(scenario)


def test_a_drain_that_is_of_no_use_says_why() -> None:
    async def scenario(serving: Serving) -> None:
        serving.drainer.skipped = "nobody to spare"
        reply = await serving.drain(START)
        assert (reply.state, reply.reason) == (types_pb2.DRAIN_STATE_SKIPPED, "nobody to spare")

    run(scenario)


def test_another_broker_than_the_one_that_is_meant_refuses_and_says_where_it_is() -> None:
    async def scenario(serving: Serving) -> None:
        with pytest.raises(errors.StaleBrokerEpochError) as refusal:
            await serving.drain(START, broker_id=2)
        assert refusal.value.go_to == "broker-2:9092"
        assert serving.drainer.started == 0
        assert (await serving.drain(START, broker_id=0)).state == types_pb2.DRAIN_STATE_DRAINED

    run(scenario)


def test_a_copy_of_a_start_does_not_undo_a_cancel_and_one_for_a_former_process_is_refused() -> None:
    async def scenario(serving: Serving) -> None:
        term = serving.place.me().incarnation
        await serving.drain(START, call=named("a", term))
        await serving.drain(CANCEL, call=named("b", term))
        await serving.drain(START, call=named("a", term))
        assert not serving.drainer.active
        with pytest.raises(errors.StaleBrokerEpochError):
            await serving.drain(START, call=named("c", term - 1))

    run(scenario)


def test_an_action_that_nobody_knows_is_refused() -> None:
    async def scenario(serving: Serving) -> None:
        with pytest.raises(errors.InvalidRequestError):
            await serving.drain(99)
        request = pl.DecommissionBrokersRequest(action=99)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidRequestError):
            await serving.service.decommission_brokers(request, b"")

    run(scenario)


# ---------------------------------------------------------------- on the controller


Call = Callable[[OperationsService], Awaitable[object]]


@pytest.mark.parametrize(
    "call",
    [
        lambda it: it.reassign_partitions(pl.ReassignPartitionsRequest(), b""),
        lambda it: it.transfer_leadership(pl.TransferLeadershipRequest(), b""),
        lambda it: it.survey_replicas(pl.SurveyReplicasRequest(), b""),
        lambda it: it.elect_unclean(pl.ElectUncleanRequest(), b""),
        lambda it: it.decommission_brokers(pl.DecommissionBrokersRequest(), b""),
    ],
)
def test_who_is_not_the_controller_does_nothing(call: Call) -> None:
    async def scenario(serving: Serving) -> None:
        serving.controller.is_controller = False
        with pytest.raises(errors.NotControllerError):
            await call(serving.service)
        assert serving.elections.asked == []

    run(scenario)


def test_each_partition_moves_by_itself_and_what_was_refused_is_named() -> None:
    async def scenario(serving: Serving) -> None:
        reply = await serving.reassign((P0, (1, 2, 3)), (P1, (1, 2, 9)), (PartitionId(TOPIC_ID, 7), (1, 2, 3)))
        refused = {item.partition.partition: from_detail(item.error) for item in reply.errors}
        assert isinstance(refused[1], errors.InvalidReplicaAssignmentError)
        assert isinstance(refused[7], errors.UnknownTopicError)
        listed, _ = await serving.service.list_reassignments(pl.ListReassignmentsRequest(), b"")
        (move,) = listed.moves
        assert (move.topic, move.partition, list(move.original), list(move.target)) == ("t", 0, [0, 1, 2], [1, 2, 3])
        assert (list(move.replicas), list(move.isr)) == ([0, 1, 2], [0, 1, 2])

    run(scenario)


def test_a_copy_of_a_move_does_not_begin_it_again() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.reassign((P0, (1, 2, 3)), call=named("a"))
        await serving.reassign((P0, ()))
        await serving.reassign((P0, (1, 2, 3)), call=named("a"))
        assert serving.place.view.reassignments[P0].value.target == (0, 1, 2)

    run(scenario)


def test_a_transfer_names_its_epoch_or_any() -> None:
    async def scenario(serving: Serving) -> None:
        fields = {"topic_id": TOPIC_ID, "partition": 0, "broker_id": 2}
        await serving.service.transfer_leadership(pl.TransferLeadershipRequest(**fields), b"")
        await serving.service.transfer_leadership(pl.TransferLeadershipRequest(**fields, leader_epoch=0), b"")
        assert serving.elections.asked == [("transfer", P0, 2, None), ("transfer", P0, 2, 0)]

    run(scenario)


def test_an_unclean_election_carries_the_epoch_whose_price_was_told() -> None:
    async def scenario(serving: Serving) -> None:
        request = pl.ElectUncleanRequest(topic_id=TOPIC_ID, partition=0, broker_id=2, leader_epoch=4)
        await serving.service.elect_unclean(request, b"")
        assert serving.elections.asked == [("unclean", P0, 2, 4)]

    run(scenario)


def test_a_survey_says_what_each_replica_has_and_what_is_known_of_it() -> None:
    async def scenario(serving: Serving) -> None:
        place = serving.place
        await place.lead(P0, isr=(0, 1), epoch=4)
        entry = place.view.partitions[P0]
        late = 10 * place.ref(1).incarnation
        serving.elections.found = Survey(
            entry,
            {
                1: (BrokerRef(1, late), ReplicaState(LogState(4, 70), late, 1, high_watermark=60)),
                2: (place.ref(2), ReplicaState(LogState(3, 50))),
            },
            has_leader=False,
        )
        request = pl.SurveyReplicasRequest(topic_id=TOPIC_ID, partition=0)
        reply, _ = await serving.service.survey_replicas(request, b"")
        assert (reply.leader_epoch, reply.has_leader) == (4, False)
        silent, unclean, other = reply.replicas
        assert (silent.answered, silent.holder) == (False, True)
        assert (unclean.standing, unclean.last_epoch, unclean.log_end_offset) == (pl.REPLICA_STANDING_UNCLEAN, 4, 70)
        assert (other.holder, other.standing) == (False, pl.REPLICA_STANDING_UNKNOWN)

    run(scenario)


def test_brokers_are_taken_out_of_use_put_back_and_looked_at() -> None:
    async def scenario(serving: Serving) -> None:
        async def ask(action: Any, *broker_ids: int) -> dict[int, tuple[bool, int, int]]:
            request = pl.DecommissionBrokersRequest(action=action, broker_ids=broker_ids)
            reply, _ = await serving.service.decommission_brokers(request, b"")
            return {item.broker_id: (item.decommissioned, item.replicas, item.leaderships) for item in reply.brokers}

        before = await ask(pl.DECOMMISSION_ACTION_STATUS)
        assert before == {0: (False, 2, 2), 1: (False, 2, 0), 2: (False, 2, 0), 3: (False, 0, 0)}
        assert (await ask(pl.DECOMMISSION_ACTION_START, 3))[3] == (True, 0, 0)
        assert await ask(pl.DECOMMISSION_ACTION_CANCEL, 3) == before
        with pytest.raises(errors.InvalidReplicaAssignmentError):
            await ask(pl.DECOMMISSION_ACTION_START, 2, 3)

    run(scenario)
