"""The controller's role is won and lost by one key in etcd, and nothing is written without it (holes 17, 18)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from oncelog.errors import MetadataUnavailableError, StaleControllerEpochError
from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.broker_contacts import Contacts
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.cluster.controller import Controller
from oncelog_partition_leader.cluster.registration import Registration
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.reachability import Verdict
from oncelog_runtime.core.listeners import Addresses
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import (
    BROKER_DRAIN_KEY,
    CLUSTER_KEY,
    CONTROLLER_KEY,
    SESSION_KEY,
    Drain,
    SessionKey,
    decode_ref,
    encode_ref,
)
from oncelog_runtime.ports import Compare, Put
from oncelog_runtime.serving.signpost import Signpost
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import P0, Place


class Prober:
    """Judges as it is told."""

    def __init__(self) -> None:
        self.verdicts: dict[int, Verdict] = {}
        self.asked: list[int] = []

    async def verdict(self, ref: BrokerRef) -> Verdict:
        self.asked.append(ref.broker_id)
        return self.verdicts.get(ref.broker_id, Verdict.ANSWERS)


class Running:
    """Broker 7, which campaigns beside the brokers 0 to 2 that only are registered and heard."""

    def __init__(self, place: Place) -> None:
        self.place = place
        config = BrokerConfig(node_id=7, internal_topic_replication_factor=9, leader_rebalance_interval_ms=5_000)
        self.registration = Registration(
            place.metadata,
            place.view,
            Random(1),
            broker_id=7,
            ttl_ms=3_000,
            on_incarnation=lambda _ref: None,
            on_replaced=lambda: None,
        )
        self.registration.announce(Addresses("b7:9092"), "", "")
        self.contacts = Contacts(config, place.view, place.clock)
        self.prober = Prober()
        prober: Any = self.prober
        self.controller = Controller(
            config,
            place.ports_with_transport,
            ClusterContext(place.view, self.registration, self.contacts, Signpost(place.view, client_listener=False)),
            prober,
            place.tasks,
            lambda _what: None,
        )
        self.deaf = False
        place.tasks.spawn(self.registration.run(), "registration")
        place.tasks.spawn(self.controller.run(), "controller")
        place.tasks.spawn(self._hear(), "hear")

    async def _hear(self) -> None:
        while True:
            for broker_id in range(3):
                if not self.deaf:
                    self.contacts.answered(self.place.ref(broker_id))
            await asyncio.sleep(0.1)

    async def holder(self) -> BrokerRef | None:
        found = await self.place.etcd.get(CONTROLLER_KEY)
        return None if found is None else decode_ref(found.value)

    async def wins(self) -> None:
        await self.place.until(lambda: self.controller.is_controller)


def run(scenario: Callable[[Running], Awaitable[None]], held_by: int | None = None) -> None:
    async def whole(place: Place) -> None:
        if held_by is not None:
            await place.put(CONTROLLER_KEY, encode_ref(place.ref(held_by)))
        await scenario(Running(place))

    cluster_place.run(whole)


# ---------------------------------------------------------------- winning and losing the role


def test_it_wins_the_key_when_nobody_has_it_under_its_own_lease() -> None:
    async def scenario(running: Running) -> None:
        await running.wins()
        found = await running.place.etcd.get(CONTROLLER_KEY)
        assert found is not None
        assert decode_ref(found.value) == running.registration.ref
        assert found.lease_id == running.registration.lease_id
        assert running.controller.term == found.mod_revision

    run(scenario)


def test_it_leaves_a_living_holder_alone_and_follows_a_dead_one() -> None:
    async def scenario(running: Running) -> None:
        await asyncio.sleep(3)
        assert not running.controller.is_controller
        await running.place.leave(1)
        await running.wins()

    run(scenario, held_by=1)


def test_a_holder_that_is_registered_anew_is_somebody_else() -> None:
    async def scenario(running: Running) -> None:
        await running.place.register(1)
        await running.wins()

    run(scenario, held_by=1)


@pytest.mark.case("hole 17")
def test_a_lost_answer_is_read_back() -> None:
    async def scenario(running: Running) -> None:
        await running.place.until(lambda: running.registration.registered)
        running.place.metadata.lose = [MetadataUnavailableError("lost", unknown="true")] * 3
        await running.wins()
        assert await running.holder() == running.registration.ref

    run(scenario)


@pytest.mark.parametrize("proven", [True, False])
def test_a_silent_controller_is_overthrown_on_proof_or_when_it_had_its_time(proven: bool) -> None:
    async def scenario(running: Running) -> None:
        await running.place.until(lambda: running.registration.registered)
        dead = running.place.ref(1)
        running.prober.verdicts[1] = Verdict.DEAD
        running.controller.take_over(running.place.ref(2), proven=True)
        await asyncio.sleep(1)
        assert not running.controller.is_controller, "2 is not the controller"
        running.controller.take_over(dead, proven=proven)
        await running.wins()
        assert 1 in running.prober.asked, "it looks after it from now on"

    run(scenario, held_by=1)


def test_who_reaches_fewer_than_half_of_the_brokers_makes_room() -> None:
    async def scenario(running: Running) -> None:
        await running.wins()
        running.deaf = True
        await asyncio.sleep(3)
        running.controller.look_at_role()
        await asyncio.sleep(1)
        assert await running.holder() is None
        assert not running.controller.is_controller
        running.deaf = False
        await running.wins()

    run(scenario)


def test_who_drains_resigns_and_does_not_campaign_while_others_are_there() -> None:
    async def scenario(running: Running) -> None:
        await running.wins()
        await running.controller.resign()
        assert running.controller.is_controller, "it does not drain"
        me = running.registration.ref
        await running.place.put(BROKER_DRAIN_KEY, Drain("7", me.incarnation, 1).encode())
        await running.controller.resign()
        await asyncio.sleep(2)
        assert await running.holder() is None
        await running.place.delete(BROKER_DRAIN_KEY)
        await running.wins()

    run(scenario)


# ---------------------------------------------------------------- in the role


def test_the_cluster_is_founded_once_and_its_session_key_written_back_when_etcd_has_lost_it() -> None:
    async def scenario(running: Running) -> None:
        await running.wins()
        await running.place.until(lambda: bool(running.place.view.session_key))
        key = running.place.view.session_key
        cluster = running.place.view.cluster
        assert cluster is not None
        await running.place.delete(SESSION_KEY)
        await asyncio.sleep(2)
        found = await running.place.etcd.get(SESSION_KEY)
        assert found is not None
        assert SessionKey.decode(found.value).key == key, "sessions that were begun with it go on"
        again = await running.place.etcd.get(CLUSTER_KEY)
        assert again is not None
        assert cluster_keys.Cluster.decode(again.value).cluster_id == cluster.cluster_id

    run(scenario)


@pytest.mark.case("hole 18")
def test_a_deposed_controller_can_write_nothing() -> None:
    async def scenario(running: Running) -> None:
        with pytest.raises(StaleControllerEpochError):
            await running.controller.commit([], [Put("x", b"")])
        await running.wins()
        assert await running.controller.commit([Compare("x", 0)], [Put("x", b"1")])
        assert not await running.controller.commit([Compare("x", 0)], [Put("x", b"2")])

        async def depose() -> None:
            await running.place.etcd.commit(puts=[Put(CONTROLLER_KEY, encode_ref(running.place.ref(1)))])

        running.place.metadata.before_commit = depose
        assert not await running.controller.commit([], [Put("x", b"3")]), "its view does not know yet"

    run(scenario)


def test_a_broker_that_is_declared_dead_loses_its_leaderships_before_its_lease_ends() -> None:
    async def scenario(running: Running) -> None:
        await running.wins()
        await running.place.lead(P0, epoch=4)
        running.prober.verdicts[0] = Verdict.DEAD
        running.controller.suspect(running.place.ref(0))
        await asyncio.sleep(1)
        state = await running.place.state()
        assert (state.leader, state.leader_epoch) == (running.place.ref(1), 5)
        running.prober.verdicts[0] = Verdict.ANSWERS
        await asyncio.sleep(2)
        assert running.controller._brokers().dead == {}

    run(scenario)


@pytest.mark.parametrize("verdict", [Verdict.UNDECIDED, Verdict.CUT_OFF])
def test_one_of_whom_nothing_is_proven_keeps_its_leaderships_and_is_asked_again(verdict: Verdict) -> None:
    async def scenario(running: Running) -> None:
        await running.wins()
        await running.place.lead(P0, epoch=4)
        running.prober.verdicts[0] = verdict
        running.controller.suspect(running.place.ref(0))
        await asyncio.sleep(1)
        assert (await running.place.state()).leader_epoch == 4
        assert running.prober.asked.count(0) > 3

    run(scenario)


def test_nobody_suspects_itself_nor_without_the_role() -> None:
    async def scenario(running: Running) -> None:
        running.controller.suspect(running.place.ref(0))
        await running.wins()
        running.controller.suspect(running.registration.ref)
        await asyncio.sleep(1)
        assert running.prober.asked == []

    run(scenario)


def test_preferred_replicas_get_their_leaderships_back_from_time_to_time() -> None:
    async def scenario(running: Running) -> None:
        await running.wins()
        await running.place.topic()
        await running.place.lead(P0, leader=1, epoch=4)
        await asyncio.sleep(7)
        assert (await running.place.state()).leader == running.place.ref(0)

    run(scenario)


def test_while_etcd_does_not_answer_the_work_is_not_lost() -> None:
    async def scenario(running: Running) -> None:
        await running.wins()
        await running.place.lead(P0, epoch=4)
        running.place.metadata.fail = [MetadataUnavailableError()] * 5
        await running.place.leave(0)
        await asyncio.sleep(3)
        assert (await running.place.state()).leader == running.place.ref(1)

    run(scenario)
