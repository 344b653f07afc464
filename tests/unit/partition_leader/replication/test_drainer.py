"""One broker drains at a time, by a key in etcd that names its incarnation; every wait is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import DrainingElsewhereError, LeaderNotAvailableError, MetadataUnavailableError
from oncelog.types import BrokerRef
from oncelog_partition_leader.replication.drainer import Drainer
from oncelog_partition_leader.replication.handover import HandOver
from oncelog_runtime.metadata.cluster_keys import BROKER_DRAIN_KEY, TRANSACTION_TOPIC, Drain
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import P0, P1, Place


class Draining:
    """Broker 0, which leads what etcd says. `resigned`: how often it gave the controller's role up."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.resigned = 0
        self.told: list[bool] = []
        self.replicas: Any = SimpleNamespace(
            led={},
            min_insync_of=lambda _topic: 2,
            hand_over=HandOver(place.metadata, place.view, place.clock, place.me, lambda _topic: 2),
        )
        self.drainer = Drainer(
            place.metadata,
            place.view,
            place.clock,
            place.tasks,
            self.replicas,
            me=place.me,
            resign=self._resign,
            draining_is=self.told.append,
        )

    async def _resign(self) -> None:
        self.resigned += 1

    def leads(self, *partitions: Any, topic: str = "t") -> None:
        for partition in partitions:
            self.replicas.led[Led(partition=partition, topic=topic)] = None

    async def key(self) -> BrokerRef | None:
        found = await self.place.etcd.get(BROKER_DRAIN_KEY)
        return None if found is None else Drain.decode(found.value).broker

    async def drains(self, broker_id: int, incarnation: int | None = None) -> None:
        """Somebody's key."""
        ref = self.place.ref(broker_id)
        value = Drain(str(broker_id), ref.incarnation if incarnation is None else incarnation, 1)
        await self.place.put(BROKER_DRAIN_KEY, value.encode())


class Led(SimpleNamespace):
    """A leadership that can be a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


def run(scenario: Callable[[Draining], Awaitable[None]], brokers: int = 3) -> None:
    async def whole(place: Place) -> None:
        await scenario(Draining(place))

    cluster_place.run(whole, brokers=brokers)


# ---------------------------------------------------------------- starting


def test_a_drain_is_a_key_that_names_this_incarnation() -> None:
    async def scenario(draining: Draining) -> None:
        assert not draining.drainer.active
        for _ in range(2):
            assert await draining.drainer.start()
        assert await draining.key() == draining.place.me()
        assert draining.drainer.active
        assert draining.told[-1] is True

    run(scenario)


def test_while_another_living_broker_drains_it_waits_in_line() -> None:
    async def scenario(draining: Draining) -> None:
        await draining.drains(1)
        with pytest.raises(DrainingElsewhereError, match="broker 1 drains") as refusal:
            await draining.drainer.start()
        assert refusal.value.retriable
        await draining.place.register(1)
        assert await draining.drainer.start(), "the drain of an incarnation that is gone is over"

    run(scenario)


def test_a_cluster_that_has_nobody_to_spare_skips_it() -> None:
    async def scenario(draining: Draining) -> None:
        assert "nobody to spare" in draining.drainer.why_skipped()
        assert not await draining.drainer.start()
        assert await draining.key() is None

    run(scenario, brokers=2)


def test_who_is_not_registered_yet_cannot_drain() -> None:
    async def scenario(draining: Draining) -> None:
        draining.drainer._me = lambda: BrokerRef(0, 0)
        with pytest.raises(LeaderNotAvailableError):
            await draining.drainer.start()

    run(scenario)


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_answer_is_neither_yes_nor_no(landed: bool) -> None:
    async def scenario(draining: Draining) -> None:
        unknown = MetadataUnavailableError("lost", unknown="true")
        if landed:
            draining.place.metadata.lose = [unknown]
        else:
            draining.place.metadata.fail = [unknown]
        assert await draining.drainer.start()
        assert await draining.key() == draining.place.me()
        assert len(draining.place.metadata.commits) == (1 if landed else 2)

    run(scenario)


def test_etcd_that_does_not_answer_is_told() -> None:
    async def scenario(draining: Draining) -> None:
        draining.place.metadata.fail = [MetadataUnavailableError("no")]
        with pytest.raises(MetadataUnavailableError):
            await draining.drainer.start()

    run(scenario)


# ---------------------------------------------------------------- the work


def test_it_gives_away_what_it_leads_and_its_role_again_and_again() -> None:
    async def scenario(draining: Draining) -> None:
        await draining.place.lead(P0)
        draining.leads(P0)
        await draining.drainer.start()
        await asyncio.sleep(1)
        assert (await draining.place.state()).leader == draining.place.ref(1)
        await draining.place.lead(P0)
        await asyncio.sleep(1)
        assert (await draining.place.state()).leader == draining.place.ref(1)
        assert draining.resigned > 1
        assert (await draining.place.state()).isr == draining.place.refs(0, 1, 2), "it stays a follower"

    run(scenario)


def test_a_few_at_a_time_and_users_leaderships_first() -> None:
    async def scenario(draining: Draining) -> None:
        given: list[list[str]] = []

        async def give_away(led: Any, *, leaves: bool) -> None:
            assert not leaves
            given.append([one.topic for one in led])

        draining.replicas.hand_over = SimpleNamespace(give_away=give_away)
        draining.leads(P0, topic=TRANSACTION_TOPIC)
        draining.leads(*[P1] * 11)
        await draining.drainer._give_away(set())
        assert [len(some) for some in given] == [5, 5, 2]
        assert given[-1] == ["t", TRANSACTION_TOPIC]

    run(scenario)


def test_a_drain_that_another_process_asked_for_is_done_too() -> None:
    async def scenario(draining: Draining) -> None:
        await draining.place.lead(P0)
        draining.leads(P0)
        await draining.drains(0)
        await asyncio.sleep(1)
        assert (await draining.place.state()).leader == draining.place.ref(1)

    run(scenario)


def test_a_cancelled_drain_gives_nothing_away_any_more() -> None:
    async def scenario(draining: Draining) -> None:
        await draining.drainer.start()
        await asyncio.sleep(0.5)
        await draining.drainer.cancel()
        assert await draining.key() is None
        await asyncio.sleep(0.5)
        before = draining.resigned
        await asyncio.sleep(1)
        assert draining.resigned == before
        assert draining.told[-1] is False

    run(scenario)


def test_nobody_cancels_anothers_drain() -> None:
    async def scenario(draining: Draining) -> None:
        await draining.drains(1)
        await draining.drainer.cancel()
        assert await draining.key() == draining.place.ref(1)

    run(scenario)


def test_what_a_former_incarnation_left_is_removed() -> None:
    async def scenario(draining: Draining) -> None:
        await draining.drains(0, incarnation=1)
        await asyncio.sleep(1)
        assert await draining.key() is None

    run(scenario)


# ---------------------------------------------------------------- the end of the process


async def took_s(work: Awaitable[None]) -> float:
    began_s = asyncio.get_running_loop().time()
    await work
    return asyncio.get_running_loop().time() - began_s


def test_it_may_stop_as_soon_as_nobody_needs_it() -> None:
    async def scenario(draining: Draining) -> None:
        await draining.place.lead(P0)
        draining.leads(P0)
        assert await took_s(draining.drainer.leave(10_000)) < 2
        assert (await draining.place.state()).leader == draining.place.ref(1)
        assert draining.drainer.remaining().done

    run(scenario)


def test_it_does_not_wait_for_what_nobody_can_change() -> None:
    async def scenario(draining: Draining) -> None:
        await draining.place.lead(P0, isr=(0,), replicas=(0, 8))
        draining.leads(P0)
        assert await took_s(draining.drainer.leave(10_000)) < 2
        assert draining.drainer.remaining().leaderships == 1

    run(scenario)


def test_every_wait_is_bounded_and_half_of_it_is_for_the_line() -> None:
    async def scenario(draining: Draining) -> None:
        await draining.drains(1)
        await draining.place.lead(P0, isr=(0,))
        draining.leads(P0)
        leaving = asyncio.ensure_future(took_s(draining.drainer.leave(4_000)))
        await asyncio.sleep(1.5)
        assert draining.resigned == 0, "another one drains"
        assert 3.9 < await leaving < 4.1
        assert draining.resigned > 0, "it hands over all the same"

    run(scenario)


def test_who_is_not_registered_stops_at_once() -> None:
    async def scenario(draining: Draining) -> None:
        draining.drainer._me = lambda: BrokerRef(0, 0)
        assert await took_s(draining.drainer.leave(10_000)) == 0

    run(scenario)


def test_what_it_has_given_away_and_gets_back_is_from_one_that_ends_as_well() -> None:
    """In a cluster of two nobody holds the key: both gave everything to each other until they were killed."""

    async def scenario(draining: Draining) -> None:
        place = draining.place
        await place.lead(P0, replicas=(0, 1), isr=(0, 1))
        await place.lead(P1, replicas=(0, 1), isr=(0,))  # for this one it waits
        draining.leads(P0, P1)
        leaving = asyncio.ensure_future(took_s(draining.drainer.leave(10_000)))
        while (await place.state()).leader != place.ref(1):
            await place.view.changed()
        await place.lead(P0, replicas=(0, 1), isr=(0, 1))
        await place.lead(P1, replicas=(0, 1), isr=(0, 1))
        assert await leaving < 2
        assert (await place.state(P1)).leader == place.ref(1)
        assert (await place.state()).leader == place.ref(0), "it is not given away again"

    run(scenario, brokers=2)
