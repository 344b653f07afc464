"""After a standstill of its process a leader delivers and confirms nothing before the coordinator knows it as the leader."""

from __future__ import annotations

import asyncio

from oncelog.v1 import channel_pb2 as pb
from oncelog_partition_leader.partition.channels.standstill import Standstill
from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.loop import SimLoop
from tests.unit.partition_leader.channel_world import ChannelWorld, channel, play, said


def stand_still(world: ChannelWorld) -> None:
    """Nothing of the broker has run for two seconds; its timers are due, and have not run."""
    world.host.around.standstill._seen_ms -= 2_000


def test_only_a_long_pause_is_a_standstill() -> None:
    over: list[int] = []

    async def scenario() -> None:
        watch = Standstill(SimClock(loop), 1_000)
        watch.over = lambda: over.append(1)
        watch._seen_ms -= 5_000
        watch.look()
        assert not over, "nothing is led, so nothing is watched"
        watch.begin()
        await asyncio.sleep(5)
        watch._seen_ms -= 700
        watch.look()
        assert not over
        watch._seen_ms -= 1_001
        watch.look()
        watch.look()
        assert len(over) == 1
        watch.end()

    loop = SimLoop(1)
    loop.run(scenario())


def test_the_timer_itself_sees_it() -> None:
    over: list[int] = []

    async def scenario() -> None:
        watch = Standstill(SimClock(loop), 1_000)
        watch.over = lambda: over.append(1)
        watch.begin()
        watch._seen_ms -= 3_000
        await asyncio.sleep(0.3)
        assert len(over) == 1
        watch.end()

    loop = SimLoop(1)
    loop.run(scenario())


def test_what_was_acknowledged_at_the_next_leader_is_not_delivered_here_any_more() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(ack_wait_ms=1_000))
        await world.send(b"a")
        assert await world.values("w1", max_wait_ms=100) == [b"a"]
        waiting = asyncio.create_task(world.values("w2", max_wait_ms=3_000))
        await asyncio.sleep(0.1)
        kept = world.coordinator.of()
        kept.epoch, kept.settled_before = 2, 1  # another broker leads in epoch 2, and its worker has acknowledged
        stand_still(world)
        await asyncio.sleep(1)  # the deadline of w1 passes
        assert await waiting == []

    play(scenario)


def test_a_touch_is_not_confirmed_by_a_leader_that_was_replaced() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        assert await world.values("w1", max_wait_ms=100) == [b"a"]
        world.coordinator.of().epoch = 2
        stand_still(world)
        reply = await world.settle("w1", said(0, verdict=pb.VERDICT_TOUCH))
        assert len(reply.errors) == 1

    play(scenario)


def test_a_leader_that_still_leads_goes_on() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a", b"b")
        assert await world.values("w1", max_in_flight=1, max_wait_ms=100) == [b"a"]
        assert not (await world.settle("w1", said(0))).errors
        stand_still(world)
        assert await world.values("w1", max_wait_ms=100) == []
        await asyncio.sleep(1.5)
        assert await world.values("w1", max_wait_ms=1_000) == [b"b"], "what was acknowledged is remembered"

    play(scenario)
