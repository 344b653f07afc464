"""A broker gives partitions away by compare-and-swap: together where it can, users' first, and to nobody outside the ISR."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog.types import PartitionId
from oncelog_partition_leader.replication.handover import HandOver
from oncelog_runtime.metadata.cluster_keys import RESTORED_KEY, TRANSACTION_TOPIC, Partition
from tests.unit.partition_leader.cluster_place import P0, P1, Place, run

INTERNAL = PartitionId("b" * 32, 0)


def hand_over(place: Place) -> HandOver:
    return HandOver(place.metadata, place.view, place.clock, place.me, lambda _topic: 2)


def led(*partitions: PartitionId) -> list[Any]:
    """What of a leadership is asked for."""
    return [SimpleNamespace(partition=partition) for partition in partitions]


def written(place: Place) -> list[list[str]]:
    """The topics that each commit wrote."""
    return [[Partition.decode(put.value).topic for put in puts] for _, puts, _ in place.metadata.commits]


def ids(refs: Sequence[Any]) -> list[int]:
    return [ref.broker_id for ref in refs]


def test_who_drains_stays_in_the_isr_and_another_member_leads_in_a_new_epoch() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(epoch=4)
        await hand_over(place).give_away(led(P0), leaves=False)
        state = await place.state()
        assert (state.leader, state.leader_epoch, ids(state.isr)) == (place.ref(1), 5, [0, 1, 2])

    run(scenario)


def test_whose_disk_takes_nothing_more_leaves_the_isr_too() -> None:
    async def scenario(place: Place) -> None:
        await place.lead()
        await hand_over(place).give_away(led(P0), leaves=True)
        assert ids((await place.state()).isr) == [1, 2]

    run(scenario)


@pytest.mark.parametrize("leaves", [True, False])
def test_alone_in_the_isr_a_leader_stays(leaves: bool) -> None:
    async def scenario(place: Place) -> None:
        await place.lead(isr=(0,))
        await hand_over(place).give_away(led(P0, P1), leaves=leaves)
        assert place.metadata.commits == []

    run(scenario)


def test_a_leadership_goes_to_nobody_but_those_who_are_named() -> None:
    async def scenario(place: Place) -> None:
        await place.lead()
        gives = hand_over(place)
        await gives.give_away(led(P0), leaves=False, to=())
        assert (await place.state()).leader == place.me()
        await gives.give_away(led(P0), leaves=False, to=place.refs(2))
        assert (await place.state()).leader == place.ref(2)

    run(scenario)


def test_what_is_given_away_together_is_written_together_and_users_partitions_first() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(INTERNAL, topic=TRANSACTION_TOPIC)
        await place.lead(P0)
        await place.lead(P1)
        await hand_over(place).give_away(led(INTERNAL, P0, P1), leaves=False)
        assert written(place) == [["t", "t"], [TRANSACTION_TOPIC]]

    run(scenario)


def test_when_one_of_them_has_changed_the_others_go_all_the_same() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(P0)
        await place.lead(P1)

        async def change() -> None:
            await place.lead(P0, isr=(0, 2))

        place.metadata.before_commit = change
        await hand_over(place).give_away(led(P0, P1), leaves=False)
        assert (await place.state(P1)).leader == place.ref(1)
        assert (await place.state(P0)).leader == place.me(), "looked at again by whoever asked"

    run(scenario)


def test_nobody_is_elected_who_is_registered_anew() -> None:
    async def scenario(place: Place) -> None:
        await place.lead()

        async def restart() -> None:
            await place.register(1)

        place.metadata.before_commit = restart
        await hand_over(place).give_away(led(P0), leaves=False)
        assert (await place.state()).leader == place.me()

    run(scenario)


def test_a_partition_is_not_given_round_and_round() -> None:
    async def scenario(place: Place) -> None:
        gives = hand_over(place)
        assert gives.is_due(P0)
        assert gives.is_due(P1)
        assert not gives.is_due(P0)
        await asyncio.sleep(11)
        assert gives.is_due(P0)

    run(scenario)


# ---------------------------------------------------------------- leaving, and being forgotten


def test_a_follower_leaves_the_isr_without_an_election() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(leader=1, epoch=4)
        await hand_over(place).leave([P0])
        state = await place.state()
        assert (state.leader, state.leader_epoch, ids(state.isr)) == (place.ref(1), 4, [1, 2])

    run(scenario)


@pytest.mark.case("hole 3")
def test_whose_log_is_lost_is_named_nowhere_afterwards() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(isr=(1,), leader=1, eligible=place.refs(0))
        assert await hand_over(place).forget(P0)
        state = await place.state()
        assert ids(state.isr) == [1]
        assert state.eligible == ()

    run(scenario)


@pytest.mark.case("hole 3")
def test_the_last_one_is_not_forgotten() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(isr=(0,))
        assert not await hand_over(place).forget(P0)
        assert ids((await place.state()).isr) == [0]

    run(scenario)


def test_it_asks_until_etcd_answers_and_looks_anew_each_time() -> None:
    async def scenario(place: Place) -> None:
        await place.lead()

        async def change() -> None:
            await place.lead(isr=(0, 2))

        place.metadata.fail = [MetadataUnavailableError(), MetadataUnavailableError()]
        place.metadata.before_commit = change
        assert await hand_over(place).forget(P0)
        assert ids((await place.state()).isr) == [2]

    run(scenario)


def test_a_partition_that_is_gone_counts_on_nobody() -> None:
    async def scenario(place: Place) -> None:
        assert await hand_over(place).forget(P0)

    run(scenario)


def test_who_is_registered_anew_meanwhile_forgets_nothing() -> None:
    async def scenario(place: Place) -> None:
        await place.lead()
        before = place.me()
        gives = HandOver(place.metadata, place.view, place.clock, lambda: next(incarnations), lambda _topic: 2)
        await place.register(0)
        incarnations = iter([before, place.me(), place.me()])
        assert not await gives.forget(P0)

    run(scenario)


def test_a_value_from_before_a_restore_of_etcd_is_not_written_anew() -> None:
    async def scenario(place: Place) -> None:
        await place.lead()
        await place.put(RESTORED_KEY, b"1")
        place.view.restart(await place.etcd.list("/oncelog/"))
        assert not await hand_over(place).forget(P0)
        assert ids((await place.state()).isr) == [0, 1, 2]

    run(scenario)
