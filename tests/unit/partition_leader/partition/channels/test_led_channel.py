"""One channel on one partition: its timer, its end, and what it costs when nothing happens."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from oncelog import errors
from oncelog.v1 import channel_pb2 as pb
from tests.unit.partition_leader.channel_world import CHANNEL_ID, ChannelWorld, channel, play, said


def test_a_paused_channel_delivers_nothing_until_it_goes_on() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        value = channel(paused=True)
        world.put(value)
        await world.send(b"a")
        waiting = asyncio.create_task(world.values(max_wait_ms=60_000))
        await asyncio.sleep(5)
        assert not waiting.done()
        world.put(replace(value, paused=False))
        assert await waiting == [b"a"]
        world.put(replace(value, paused=True))
        assert not (await world.settle("w1", said(0))).errors, "what was delivered may be settled"

    play(scenario)


def test_options_count_from_the_next_delivery_on() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        value = channel()
        world.put(value)
        await world.opened()
        world.put(replace(value, options=replace(value.options, ack_wait_ms=200)))
        await world.send(b"a")
        reply, _ = await world.receive("w1", max_wait_ms=100)
        assert reply.records[0].ack_wait_ms == 200
        assert await world.values("w2", max_wait_ms=1_000) == [b"a"]

    play(scenario)


def test_an_idle_channel_runs_nothing() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead()
        world.put(channel())
        led = await world.opened()
        await world.send(b"a")
        assert await world.values(max_wait_ms=100) == [b"a"]
        await world.settle("w1", said(0), leaves=True)
        await asyncio.sleep(0.1)
        assert not led._tasks
        await asyncio.sleep(60)  # the timer of the delivery has passed
        assert led._timer is None
        assert not partition.watchers
        assert world.host.shared[CHANNEL_ID]._silence is None

    play(scenario)


def test_a_fault_ends_it_and_it_begins_anew_with_what_is_durable() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a", b"b")
        await world.values(max_wait_ms=100)
        await world.settle("w1", said(0))
        led = await world.opened()

        async def breaks() -> None:
            raise RuntimeError("a fault")

        led._spawn(breaks(), "test")
        await asyncio.sleep(0.1)
        assert led.ended is not None
        assert [str(fault) for fault in world.faults] == ["a fault"]
        world.faults.clear()
        await asyncio.sleep(2)
        assert await world.values("w2", max_wait_ms=2_000) == [b"b"]

    play(scenario)


def test_who_waits_for_its_opening_hears_that_it_has_ended() -> None:
    async def scenario(world: ChannelWorld) -> None:
        world.coordinator.gate.clear()
        await world.lead()
        world.put(channel())
        led = world.led
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await led.opened(100)
        world.stop_leading()
        with pytest.raises(errors.NotLeaderError):
            await led.opened(100)
        assert led.counts().depth == 0

    play(scenario)


def test_a_transaction_that_lost_records_is_told_to_workers() -> None:
    async def scenario(world: ChannelWorld) -> None:
        from tests.unit.partition_leader.partition.channels.reading.test_committed_reading import _marked

        await _marked(world, lost=True)
        world.put(channel())
        reply, _ = await world.receive(max_wait_ms=60_000)
        assert len(reply.records) == 1
        assert not reply.errors
        reply, _ = await world.receive(max_wait_ms=60_000)
        assert [item.error.code for item in reply.errors] == [int(errors.TransactionDataLossError.code)]

    play(scenario)


def test_a_pause_that_an_earlier_leader_began_ends_in_time_in_a_channel_with_an_order() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(order_by_key=True))
        await world.send(b"a", keys_of=[b"k"])
        await world.values(max_wait_ms=100)
        await world.settle("w1", said(0, verdict=pb.VERDICT_NACK, delay_ms=5_000))
        await world.lead(epoch=2)
        before_ms = world.clock.monotonic_ms()
        assert await world.values("w2", max_wait_ms=60_000) == [b"a"]
        assert world.clock.monotonic_ms() - before_ms < 6_000

    play(scenario)


def test_a_fault_at_a_due_time_does_not_end_all_times() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(ack_wait_ms=1_000))
        await world.send(b"a")
        assert await world.values(max_wait_ms=100) == [b"a"]
        world.led.delivery.tick = None  # type: ignore[assignment,method-assign]
        await asyncio.sleep(4)
        assert len(world.faults) == 1
        world.faults.clear()
        assert await world.values("w2", max_wait_ms=5_000) == [b"a"]

    play(scenario)


def test_why_it_cannot_be_opened_is_told() -> None:
    async def scenario(world: ChannelWorld) -> None:
        world.coordinator.before = [errors.ResourceExhaustedError("too many channels") for _ in range(20)]
        await world.lead()
        world.put(channel())
        with pytest.raises(errors.CoordinatorNotAvailableError) as told:
            await world.led.opened(1_000)
        assert told.value.context["cause"] == "too many channels"

    play(scenario)
