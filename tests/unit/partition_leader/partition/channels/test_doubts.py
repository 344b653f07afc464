"""A leader that may have been replaced delivers and takes nothing before the coordinator knows it as the leader."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from oncelog.v1 import channel_pb2 as pb
from oncelog_partition_leader.partition.channels.doubts import Doubts
from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.loop import SimLoop
from tests.unit.partition_leader.channel_world import CHANNEL_ID, ChannelWorld, channel, play, said


def stand_still(world: ChannelWorld) -> None:
    """Nothing of the broker has run for two seconds; its timers are due, and have not run."""
    world.host.around.doubts._seen_ms -= 2_000


def test_only_a_long_pause_is_a_standstill() -> None:
    over: list[int] = []

    async def scenario() -> None:
        watch = Doubts(SimClock(loop), 1_000, lambda: False)
        watch.stood_still = lambda: over.append(1)
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
        watch = Doubts(SimClock(loop), 1_000, lambda: False)
        watch.stood_still = lambda: over.append(1)
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
        assert await world.values("w1", max_wait_ms=1_000) == [b"b"], "what was acknowledged is remembered"

    play(scenario)


def test_what_is_in_flight_stays_with_its_worker_when_its_leader_stood_still() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(ack_wait_ms=5_000))
        await world.send(b"a")
        assert await world.values("w1", max_wait_ms=100) == [b"a"]
        waiting = asyncio.create_task(world.values("w2", max_wait_ms=30_000))
        await asyncio.sleep(0.1)
        stand_still(world)
        await asyncio.sleep(3)
        assert not waiting.done(), "w1 has it, within its deadline"
        assert not (await world.settle("w1", said(0, verdict=pb.VERDICT_TOUCH))).errors
        await asyncio.sleep(4)
        assert not waiting.done()
        assert await waiting == [b"a"], "the deadline has passed"

    play(scenario)


def test_in_doubt_requests_wait_and_a_second_standstill_asks_once_more() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        value = channel()
        world.put(value)
        await world.send(b"a", b"b")
        assert await world.values("w1", max_in_flight=1, max_wait_ms=100) == [b"a"]
        led, kept = await world.opened(), world.coordinator.of()
        asked = len(world.coordinator.named("open"))
        world.coordinator.gate.clear()
        stand_still(world)
        settling = asyncio.create_task(world.settle("w1", said(0)))
        await asyncio.sleep(1)
        assert led.has_begun
        assert not led.is_open
        assert not settling.done()
        world.put(replace(value, paused=True))
        stand_still(world)
        world.host.around.doubts.look()
        world.coordinator.gate.set()
        assert not (await settling).errors
        assert len(world.coordinator.named("open")) == asked + 2, (
            "the first answer may be of before the second standstill"
        )
        assert kept.settled_before == 1
        assert await world.values("w2", max_wait_ms=1_000) == [], "it was paused meanwhile"
        world.put(value)
        assert await world.values("w2", max_wait_ms=1_000) == [b"b"]

    play(scenario)


def test_the_silence_of_workers_counts_from_the_end_of_a_standstill() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(ack_wait_ms=60_000))
        await world.send(b"a")
        assert await world.values("w1", max_wait_ms=100) == [b"a"]
        (worker,) = world.host.shared[CHANNEL_ID].workers.all()
        worker.heard_ms -= 9_900
        stand_still(world)
        assert await world.values("w2", max_wait_ms=5_000) == [], "w1 had no chance to be heard"

    play(scenario)


def test_a_broker_that_is_cut_off_delivers_nothing_while_no_coordinator_answers() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(ack_wait_ms=1_000))
        await world.send(b"a")
        assert await world.values("w1", max_wait_ms=100) == [b"a"]
        world.is_cut_off = True
        world.coordinator.gate.clear()
        waiting = asyncio.create_task(world.values("w2", max_wait_ms=20_000))
        await asyncio.sleep(5)
        assert not waiting.done(), "the deadline of w1 has passed; another leader may have it acknowledged"
        world.is_cut_off = False
        world.coordinator.gate.set()
        assert await waiting == [b"a"]

    play(scenario)


def test_a_broker_that_is_cut_off_goes_on_while_the_coordinator_knows_no_other_leader() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.opened()
        asked = len(world.coordinator.named("open"))
        world.is_cut_off = True
        waiting = asyncio.create_task(world.values("w1", max_wait_ms=60_000))
        await asyncio.sleep(20)
        assert len(world.coordinator.named("open")) == asked, "there is nothing to be sure about"
        await world.send(b"a")
        assert await waiting == [b"a"]
        await asyncio.sleep(1)
        assert not (await world.settle("w1", said(0))).errors
        assert len(world.coordinator.named("open")) == asked + 2

    play(scenario)


def test_while_it_is_cut_off_an_answer_that_took_long_says_nothing_of_now() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(ack_wait_ms=1_000))
        await world.opened()
        kept = world.coordinator.of()
        world.is_cut_off = True
        await asyncio.sleep(1)
        await world.send(b"a")
        serve = world.coordinator.serve

        async def slow(method: str, request: Any) -> Any:
            reply = await serve(method, request)
            await asyncio.sleep(0.9)
            return reply

        world.coordinator.serve = slow  # type: ignore[method-assign]
        waiting = asyncio.create_task(world.values("w1", max_wait_ms=5_000))
        await asyncio.sleep(0.5)
        kept.epoch, kept.settled_before = (
            2,
            1,
        )  # after the question: another broker leads, and its worker has acknowledged
        assert await waiting == []

    play(scenario)


def test_when_the_reason_is_over_a_slow_answer_is_enough() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.opened()
        world.is_cut_off = True
        await asyncio.sleep(1)
        world.coordinator.gate.clear()
        await world.send(b"a")
        waiting = asyncio.create_task(world.values("w1", max_wait_ms=60_000))
        await asyncio.sleep(0.6)
        world.is_cut_off = False
        world.coordinator.gate.set()
        await asyncio.sleep(0.1)
        assert waiting.done()
        assert waiting.result() == [b"a"]

    play(scenario)


def test_a_channel_that_goes_on_while_it_is_in_doubt_asks_for_the_workers_that_wait() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        value = channel(paused=True)
        world.put(value)
        await world.send(b"a")
        waiting = asyncio.create_task(world.values("w1", max_wait_ms=60_000))
        await asyncio.sleep(1)
        stand_still(world)
        await asyncio.sleep(1)  # the timer sees it, and nothing is due
        world.put(replace(value, paused=False))
        await asyncio.sleep(0.1)
        assert waiting.done()
        assert waiting.result() == [b"a"]

    play(scenario)


def test_a_coordinator_that_has_lost_what_was_written_has_the_channel_opened_again() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a", b"b")
        assert await world.values("w1", max_in_flight=1, max_wait_ms=100) == [b"a"]
        assert not (await world.settle("w1", said(0))).errors
        led = await world.opened()
        world.coordinator.kept.clear()
        stand_still(world)
        assert await world.values("w2", max_wait_ms=10_000) == [], "w2 is to ask again, since the channel ends here"
        await asyncio.sleep(2)
        assert sorted(await world.values("w2", max_wait_ms=10_000)) == [b"a", b"b"], "what nobody remembers comes again"
        assert led.ended is not None
        assert world.coordinator.of().known

    play(scenario)


def test_a_broker_that_was_replaced_while_it_was_cut_off_delivers_nothing() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(ack_wait_ms=1_000))
        await world.send(b"a")
        assert await world.values("w1", max_wait_ms=100) == [b"a"]
        kept = world.coordinator.of()
        kept.epoch, kept.settled_before = 2, 1
        world.is_cut_off = True
        assert await world.values("w2", max_wait_ms=3_000) == []

    play(scenario)
