"""While a majority of a partition's replicas is up and connected, `acks=all` works, but for a bounded fail-over.

Measured *during* the fault: brokers that are cut off from each other (all of them still reach etcd, which is what makes it
hard: nobody's lease runs out), frozen ones, and one whose disk is full.
"""

from __future__ import annotations

from typing import Final

import pytest

from oncelog_runtime.metadata import cluster_keys as keys
from tests.conformance.availability import Availability, measure
from tests.conformance.script import Place, Script, cluster

DEATH_S: Final = 2.5
"""A broker that is silent to everybody is replaced within this."""
SILENCE_S: Final = 3.25
"""A follower that is silent to its leader alone is out of the ISR within this: the bound, and one look at the ISRs."""
GIVEN_UP_S: Final = 5.0
"""A leader cut off from a sufficient ISR, where no majority could say so, has given the partition to that ISR."""
CUT_S: Final = 15.0

FOUR = cluster(brokers=4, replica_balance_enabled=False)
TWO = cluster(brokers=2, internal_topic_replication_factor=2, default_replication_factor=2)


def controller(s: Script) -> str:
    item = s.world.metadata.get(keys.CONTROLLER_KEY)
    return f"broker-{keys.decode_ref(item.value).broker_id}" if item is not None else ""


def others(s: Script, *nodes: str) -> list[str]:
    return [name for name in s.world.nodes if name.startswith("broker-") and name not in nodes]


async def work(s: Script, min_insync: int = 2) -> list[Place]:
    """Six partitions, led by everybody in turn, and not only since a moment ago."""
    places = await s.topic("work", 6, min_insync_replicas=str(min_insync))
    await s.sleep(10)
    return places


class Trial:
    """Writes during a fault, and the brokers that had the controller's role meanwhile."""

    def __init__(self, s: Script, places: list[Place]) -> None:
        self._s = s
        self._places = places
        self.holders = [controller(s)]
        self.led_before = {place: s.leader(place) for place in places}

    async def run(self, seconds: float = CUT_S) -> Availability:
        watching = self._s.start(self._watch())
        found = await measure(self._s, self._places, seconds)
        watching.cancel()
        return found

    async def _watch(self) -> None:
        while True:
            await self._s.sleep(0.02)
            now = controller(self._s)
            if now and now != self.holders[-1]:
                self.holders.append(now)


async def healed(s: Script, places: list[Place]) -> None:
    """Everybody is in every ISR again, and one broker is the controller."""
    s.heal()
    await s.cluster.healthy()
    for place in places:
        assert len(s.isr(place)) == len(s.state(place).replicas)


# ---------------------------------------------------------------- one broker alone


async def test_an_isolated_controller_loses_the_role_and_its_partitions_once(s: Script) -> None:
    places = await work(s)
    trial, alone = Trial(s, places), controller(s)
    s.cut(alone, *others(s, alone))
    found = await trial.run()
    assert found.failed(DEATH_S) == []
    assert len(trial.holders) == 2, "one fail-over, no duel"
    internal = [s.internal(topic, shard) for topic in keys.INTERNAL_TOPICS for shard in range(2)]
    assert alone not in {s.leader(place) for place in (*places, *internal)}
    await healed(s, places)


async def test_an_isolated_broker_loses_its_partitions_and_takes_no_role(s: Script) -> None:
    places = await work(s)
    trial, alone = Trial(s, places), others(s, controller(s))[0]
    s.cut(alone, *others(s, alone))
    found = await trial.run()
    assert found.failed(DEATH_S) == []
    assert len(trial.holders) == 1
    assert alone not in {s.leader(place) for place in places}
    await healed(s, places)


async def test_an_isolated_broker_that_starts_again_takes_no_role(s: Script) -> None:
    """It knows nobody as silent yet: everybody is new to it."""
    places = await work(s)
    trial, alone = Trial(s, places), others(s, controller(s))[0]
    s.cut(alone, *others(s, alone))
    s.restart(alone)
    found = await trial.run()
    assert found.failed(DEATH_S) == []
    assert len(trial.holders) == 1
    await healed(s, places)


# ---------------------------------------------------------------- two brokers that do not reach each other


async def test_a_cut_between_two_brokers_costs_each_the_other_as_follower(s: Script) -> None:
    """None of them is the controller, which hears both: nobody is dead, and nobody loses a partition."""
    places = await work(s)
    trial, (one, other) = Trial(s, places), others(s, controller(s))
    s.cut(one, other)
    found = await trial.run()
    assert found.failed(SILENCE_S) == []
    assert len(trial.holders) == 1
    for place, leader in trial.led_before.items():
        cut_off = {one, other} - {leader} if leader in (one, other) else set()
        assert s.leader(place) == leader
        assert s.isr(place) == {"broker-0", "broker-1", "broker-2"} - cut_off
    await healed(s, places)


async def test_a_broker_that_the_controller_does_not_reach_is_not_dead_while_others_hear_it(s: Script) -> None:
    places = await work(s)
    trial, holder = Trial(s, places), controller(s)
    s.cut(holder, others(s, holder)[0])
    found = await trial.run()
    assert found.failed(SILENCE_S) == []
    assert len(trial.holders) == 1, "who does not reach the controller asks another broker about it"
    assert {place: s.leader(place) for place in places} == trial.led_before
    await healed(s, places)


@pytest.mark.parametrize("outwards", [True, False])
@pytest.mark.parametrize("whole", [True, False])
async def test_one_way_cuts_are_survived_as_whole_ones_are(s: Script, outwards: bool, whole: bool) -> None:
    """Of the controller's messages: none leaves it, or none reaches it; from everybody (`whole`) or from one broker."""
    places = await work(s)
    trial, holder = Trial(s, places), controller(s)
    cut = others(s, holder) if whole else others(s, holder)[:1]
    left, right = ([holder], cut) if outwards else (cut, [holder])
    s.world.network.partition(left, right, one_way=True)
    found = await trial.run()
    assert found.failed(DEATH_S if whole else SILENCE_S) == []
    assert len(trial.holders) == (2 if whole else 1)
    await healed(s, places)


# ---------------------------------------------------------------- no majority on either side


@TWO
async def test_two_brokers_cut_off_from_each_other_keep_the_controller_and_lead_on(s: Script) -> None:
    """Neither is a majority, so nobody is called dead; each leads what it led, with itself as the whole ISR."""
    places = await work(s, min_insync=1)
    trial = Trial(s, places)
    s.cut("broker-0", "broker-1")
    found = await trial.run()
    assert found.failed(SILENCE_S) == []
    assert len(trial.holders) == 1
    assert {place: s.leader(place) for place in places} == trial.led_before
    await healed(s, places)


@TWO
async def test_of_two_brokers_one_that_is_frozen_is_replaced_when_its_lease_is_over(s: Script) -> None:
    places = await work(s, min_insync=1)
    trial, frozen = Trial(s, places), controller(s)
    s.world.nodes[frozen].pause(8_000)
    found = await trial.run(7)
    assert found.failed(4.5) == []
    assert controller(s) != frozen
    await s.cluster.healthy()


@FOUR
async def test_cut_in_halves_each_partition_is_led_where_two_of_its_replicas_are(s: Script) -> None:
    places = await work(s)
    trial, holder = Trial(s, places), controller(s)
    mate = others(s, holder)[0]
    s.cut(holder, *others(s, holder, mate))
    for name in others(s, holder, mate):
        s.world.network.partition([mate], [name])
    found = await trial.run(20)
    assert found.failed(GIVEN_UP_S) == []
    assert len(trial.holders) == 1, "no side is a majority: who has the role keeps it"
    await healed(s, places)


@FOUR
async def test_a_controller_heard_by_one_of_three_keeps_the_role_and_gives_its_partitions_away(s: Script) -> None:
    """The one hears everybody, so nobody is dead."""
    places = await work(s)
    trial, holder = Trial(s, places), controller(s)
    s.cut(holder, *others(s, holder)[1:])
    found = await trial.run(20)
    assert found.failed(GIVEN_UP_S) == []
    assert len(trial.holders) == 1
    await healed(s, places)


@FOUR
async def test_of_four_brokers_an_isolated_controller_is_replaced(s: Script) -> None:
    places = await work(s)
    trial, alone = Trial(s, places), controller(s)
    s.cut(alone, *others(s, alone))
    found = await trial.run()
    assert found.failed(DEATH_S) == []
    assert len(trial.holders) == 2
    await healed(s, places)


async def test_when_nobody_reaches_anybody_no_partition_goes_round(s: Script) -> None:
    """Nothing can be done, and little is: the role is given up, and a partition changes hands once in ten seconds."""
    places = await work(s)
    epochs = {place: s.state(place).leader_epoch for place in places}
    trial = Trial(s, places)
    s.cut("broker-0", "broker-1", "broker-2")
    s.cut("broker-1", "broker-2")
    await trial.run(30)
    assert len(set(trial.holders)) == len(trial.holders), "nobody took it twice"
    assert controller(s) == ""
    assert all(s.state(place).leader_epoch <= epochs[place] + 3 for place in places)
    await healed(s, places)


# ---------------------------------------------------------------- frozen, and full


@pytest.mark.parametrize("is_controller", [True, False])
async def test_a_frozen_broker_is_replaced_and_comes_back(s: Script, is_controller: bool) -> None:
    """It leads a third of the partitions and follows in the others."""
    places = await work(s)
    trial = Trial(s, places)
    frozen = controller(s) if is_controller else others(s, controller(s))[0]
    s.world.nodes[frozen].pause(10_000)
    found = await trial.run(9)
    assert found.failed(DEATH_S) == []
    assert len(trial.holders) == (2 if is_controller else 1)
    await s.sleep(1)
    await healed(s, places)


async def test_a_pause_shorter_than_the_bound_changes_nothing(s: Script) -> None:
    """Who wakes up has heard nobody for a while, and does not take its own sleep for theirs."""
    places = await work(s)
    trial, frozen = Trial(s, places), controller(s)
    s.world.nodes[frozen].pause(1_000)
    await trial.run(5)
    assert len(trial.holders) == 1
    assert {place: s.leader(place) for place in places} == trial.led_before


async def test_a_follower_whose_disk_is_full_leaves_at_once_and_returns_once(s: Script) -> None:
    place = await s.place()
    full = s.followers(place)[0]
    disk = s.world.nodes[full].disk
    disk.capacity = disk.used()
    trial = Trial(s, [place])
    writes = s.count_etcd_writes(s.leader(place), keys.partition_key(*place.id))
    found = await trial.run(8)
    assert found.failed() == [], "it says so itself: nothing waits for a bound"
    assert full not in s.isr(place)
    assert writes() == 1, "it does not go in and out"
    disk.capacity = None
    await s.rejoined(full, place)


async def test_a_full_disk_below_the_minimum_is_said_at_once(s: Script) -> None:
    """With one follower dead the other one is needed: `acks=all` is refused, not held until a time-out."""
    place = await s.place()
    dead, full = s.followers(place)
    s.kill(dead)
    await s.until(lambda: dead not in s.isr(place))
    disk = s.world.nodes[full].disk
    disk.capacity = disk.used()
    found = await Trial(s, [place]).run(5)
    assert {one.error for one in found.failed(0.5)} == {"NotEnoughReplicasError"}
    disk.capacity = None
    await s.rejoined(full, place)
    assert (await Trial(s, [place]).run(2)).failed() == []
