"""While a broker's disk is stalled others lead and acknowledge; it returns when the disk answers again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from oncelog_partition_leader.replication.handover import HandOver
from oncelog_partition_leader.replication.stalled_disk import give_way
from tests.unit.partition_leader.cluster_place import P0, P1, Place, run


class Broker:
    """A stalled broker 0: P0 acknowledges what is synced, P1 what is in memory."""

    def __init__(self, place: Place) -> None:
        self.watch: Any = SimpleNamespace(stalled=True)
        fsync, plain = SimpleNamespace(fsync=True), SimpleNamespace(fsync=False)
        self.partitions: Any = {
            P0: SimpleNamespace(id=P0, topic_config=fsync),
            P1: SimpleNamespace(id=P1, topic_config=plain),
        }
        self.led: Any = {
            SimpleNamespaceKey(partition=P0, topic_config=fsync): None,
            SimpleNamespaceKey(partition=P1, topic_config=plain): None,
        }
        gives = HandOver(place.metadata, place.view, place.clock, place.me, lambda _topic: 2)
        self.work = asyncio.ensure_future(give_way(self.watch, gives, place.view, self.partitions, self.led, place.me))


class SimpleNamespaceKey(SimpleNamespace):
    """One that can be a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


def test_what_acknowledges_synced_records_is_left_and_of_the_rest_the_leaderships_go() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(P0)
        await place.lead(P1)
        broker = Broker(place)
        await asyncio.sleep(1)
        synced, plain = await place.state(P0), await place.state(P1)
        assert synced.isr == place.refs(1, 2)
        assert (synced.leader, plain.leader) == (place.ref(1), place.ref(1))
        assert plain.isr == place.refs(0, 1, 2), "its acknowledgements never waited for this disk"
        broker.watch.stalled = False
        await broker.work

    run(scenario)


def test_a_follower_leaves_the_isrs_in_which_it_cannot_acknowledge() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(P0, leader=1)
        await place.lead(P1, leader=1)
        broker = Broker(place)
        broker.led.clear()
        await asyncio.sleep(1)
        assert (await place.state(P0)).isr == place.refs(1, 2)
        assert (await place.state(P1)).isr == place.refs(0, 1, 2)
        broker.watch.stalled = False
        await broker.work

    run(scenario)


def test_where_nobody_else_can_lead_it_stays_until_somebody_can() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(P0, isr=(0,))
        broker = Broker(place)
        broker.led.clear()
        await asyncio.sleep(1)
        assert (await place.state(P0)).leader == place.me()
        await place.lead(P0)
        await asyncio.sleep(1)
        assert (await place.state(P0)).leader == place.ref(1)
        broker.watch.stalled = False
        await broker.work

    run(scenario)


def test_it_does_nothing_when_the_disk_answers() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(P0)
        broker = Broker(place)
        broker.watch.stalled = False
        await broker.work
        assert place.metadata.commits == []

    run(scenario)
