"""Replicas move step by step, each step one commit, and any controller goes on where the last one was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from oncelog.errors import InvalidReplicaAssignmentError, OncelogError, ReassignmentInProgressError, UnknownTopicError
from oncelog.types import PartitionId
from oncelog_partition_leader.cluster.reassigner import Mover
from oncelog_partition_leader.config import BrokerConfig
from oncelog_runtime.metadata.cluster_keys import (
    BROKERS,
    RESTORED_KEY,
    TOPICS,
    Reassignment,
    partition_key,
    reassignment_key,
)
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import P0, P1, TOPIC_ID, Place

OLD, NEW = (0, 1, 2), (1, 2, 3)


class Moving:
    """The mover of a cluster of five brokers, and a topic with replicas on 0, 1 and 2."""

    def __init__(self, place: Place, most: int = 8) -> None:
        self.place = place
        self.mover = Mover(BrokerConfig(node_id=0, reassignments_max=most), place.metadata, place.view, place.commit)

    async def step(self) -> None:
        await self.mover.step((), ())

    async def replicas(self, partition: PartitionId = P0) -> tuple[int, ...]:
        return (await self.place.state(partition)).replicas

    def target(self, partition: PartitionId = P0) -> tuple[int, ...] | None:
        move = self.place.view.reassignments.get(partition)
        return None if move is None else move.value.target

    async def in_sync(self, *broker_ids: int, partition: PartitionId = P0) -> None:
        """What the leader would write when these hold everything."""
        state = await self.place.state(partition)
        await self.place.lead(partition, isr=broker_ids, replicas=state.replicas, epoch=state.leader_epoch)


def run(scenario: Callable[[Moving], Awaitable[None]], most: int = 8) -> None:
    async def whole(place: Place) -> None:
        await place.topic(partitions=2)
        await place.lead(P0)
        await place.lead(P1)
        await scenario(Moving(place, most))

    cluster_place.run(whole, brokers=5)


# ---------------------------------------------------------------- steps


def test_new_replicas_stand_beside_the_old_ones_until_they_are_in_sync() -> None:
    async def scenario(moving: Moving) -> None:
        await moving.mover.reassign(P0, NEW)
        await moving.step()
        assert await moving.replicas() == (0, 1, 2, 3)
        await moving.step()
        assert await moving.replicas() == (0, 1, 2, 3), "3 holds nothing yet"
        await moving.in_sync(0, 1, 2, 3)
        await moving.step()
        state = await moving.place.state()
        assert (state.replicas, moving.target()) == (NEW, None)
        assert state.leader == moving.place.ref(1)
        assert state.leader_epoch == 2, "each step is an election"

    run(scenario)


def test_another_controller_goes_on_where_the_last_one_was() -> None:
    async def scenario(moving: Moving) -> None:
        await moving.mover.reassign(P0, NEW)
        await moving.step()
        await moving.in_sync(0, 1, 2, 3)
        await Moving(moving.place).step()
        assert await moving.replicas() == NEW

    run(scenario)


def test_so_many_moves_at_a_time_and_one_to_a_missing_broker_holds_up_nobody() -> None:
    async def scenario(moving: Moving) -> None:
        await moving.mover.reassign(P0, NEW)
        await moving.mover.reassign(P1, NEW)
        await moving.step()
        assert (await moving.replicas(P0), await moving.replicas(P1)) == ((0, 1, 2, 3), OLD)
        await moving.place.leave(3)
        await moving.place.put(reassignment_key(*P1), Reassignment(OLD, (0, 1, 4)).encode())
        await moving.step()
        assert await moving.replicas(P1) == (0, 1, 2, 4)

    run(scenario, most=1)


def test_a_value_from_before_a_restore_of_etcd_is_not_moved() -> None:
    async def scenario(moving: Moving) -> None:
        await moving.mover.reassign(P0, NEW)
        await moving.place.put(RESTORED_KEY, b"1")
        moving.place.view.restart(await moving.place.etcd.list("/oncelog/"))
        await moving.step()
        assert await moving.replicas() == OLD

    run(scenario)


def test_a_step_whose_conditions_do_not_hold_is_tried_again_with_what_etcd_says() -> None:
    async def scenario(moving: Moving) -> None:
        await moving.mover.reassign(P0, NEW)

        async def restart() -> None:
            await moving.place.register(2)

        moving.place.metadata.before_commit = restart
        await moving.step()
        assert await moving.replicas() == OLD
        assert moving.mover.dirty
        await moving.step()
        assert await moving.replicas() == (0, 1, 2, 3)

    run(scenario)


def test_a_partition_that_is_deleted_before_its_move_is_written_holds_up_no_other() -> None:
    async def scenario(moving: Moving) -> None:
        await moving.place.delete(partition_key(*P1))
        assert not await moving.mover.want({P0: NEW, P1: NEW})
        assert (moving.target(P0), moving.target(P1)) == (NEW, None)
        assert not await moving.mover.want({P1: NEW})

    run(scenario)


def test_the_move_of_a_deleted_topic_is_forgotten() -> None:
    async def scenario(moving: Moving) -> None:
        await moving.mover.reassign(P0, NEW)
        await moving.place.delete(partition_key(*P0))
        await moving.step()
        assert moving.target() == NEW, "its topic is there: the partition is made again"
        await moving.place.delete(TOPICS + "t")
        await moving.step()
        assert moving.target() is None

    run(scenario)


# ---------------------------------------------------------------- what operators ask for


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ((1, 2, 9), InvalidReplicaAssignmentError),
        ((1, 2, 2), InvalidReplicaAssignmentError),
        ((1, 2), InvalidReplicaAssignmentError),
    ],
)
def test_a_target_that_cannot_be_is_refused(target: tuple[int, ...], error: type[OncelogError]) -> None:
    async def scenario(moving: Moving) -> None:
        with pytest.raises(error):
            await moving.mover.reassign(P0, target)
        assert moving.target() is None

    run(scenario)


def test_an_unknown_partition_is_named() -> None:
    async def scenario(moving: Moving) -> None:
        with pytest.raises(UnknownTopicError):
            await moving.mover.reassign(PartitionId(TOPIC_ID, 9), NEW)

    run(scenario)


def test_a_copy_of_the_call_changes_nothing_and_another_target_has_to_wait() -> None:
    async def scenario(moving: Moving) -> None:
        for _ in range(2):
            await moving.mover.reassign(P0, NEW)
        with pytest.raises(ReassignmentInProgressError) as refusal:
            await moving.mover.reassign(P0, (1, 2, 4))
        assert refusal.value.context["target"] == "1,2,3"
        await moving.mover.reassign(P1, OLD)
        assert moving.target(P1) is None, "there is nothing to do"

    run(scenario)


@pytest.mark.parametrize("begun", [True, False])
def test_a_cancelled_move_is_a_move_back(begun: bool) -> None:
    async def scenario(moving: Moving) -> None:
        await moving.mover.reassign(P0, NEW)
        if begun:
            await moving.step()
        for _ in range(2):
            await moving.mover.reassign(P0, ())
        await moving.step()
        assert (await moving.replicas(), moving.target()) == (OLD, None)
        await moving.mover.reassign(P0, ())

    run(scenario)


def test_a_move_that_goes_on_meanwhile_is_not_cancelled_behind_its_back() -> None:
    async def scenario(moving: Moving) -> None:
        await moving.mover.reassign(P0, NEW)

        async def end() -> None:
            await moving.place.delete(reassignment_key(*P0))

        moving.place.metadata.before_commit = end
        with pytest.raises(ReassignmentInProgressError):
            await moving.mover.reassign(P0, ())

    run(scenario)


def test_moves_to_brokers_that_are_gone_are_taken_back() -> None:
    async def scenario(moving: Moving) -> None:
        await moving.mover.reassign(P0, NEW)
        await moving.mover.reassign(P1, (0, 1, 4))
        await moving.place.leave(3)
        await moving.mover.give_up_hopeless()
        assert (moving.target(P0), moving.target(P1)) == (OLD, (0, 1, 4))

    run(scenario)


def test_whatever_a_step_depends_on_wakes_it_and_nothing_else() -> None:
    async def scenario(moving: Moving) -> None:
        await moving.step()
        idle = [moving.mover.saw(key) for key in (BROKERS + "1", TOPICS + "t", partition_key(*P0))]
        assert idle == [False, False, False]
        await moving.mover.reassign(P0, NEW)
        for key in (BROKERS + "1", TOPICS + "t", partition_key(*P0), reassignment_key(*P0)):
            moving.mover.dirty = False
            assert moving.mover.saw(key)
        moving.mover.dirty = False
        assert not moving.mover.saw(partition_key(*P1))

    run(scenario)
