"""What was settled is written, once, in order, whatever happens to the calls."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.trace.tracing import NOBODY
from oncelog.trace.transaction_span import inside_of
from oncelog.v1 import channel_pb2 as pb
from tests.unit.partition_leader.channel_world import CHANNEL_ID, ChannelWorld, channel, play, said


def test_an_unknown_outcome_is_repeated_with_the_same_number() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        world.coordinator.calls.clear()
        world.coordinator.after = [errors.NetworkError(), errors.RequestTimedOutError()]
        world.coordinator.before = [None, None, errors.CoordinatorNotAvailableError()]
        assert not (await world.settle("w1", said(0))).errors
        writes = world.coordinator.named("write")
        assert len(writes) == 4
        assert all(write == writes[0] for write in writes)

    play(scenario)


def test_a_newer_leader_ends_it_and_nothing_is_confirmed() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        world.coordinator.of().epoch = 9
        reply = await world.settle("w1", said(0))
        assert [item.error.code for item in reply.errors] == [int(errors.FencedLeaderEpochError.code)]
        assert not world.coordinator.of().is_settled(0)

    play(scenario)


def test_who_waits_hears_the_end_of_the_leadership() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        world.coordinator.gate.clear()
        settling = asyncio.create_task(world.settle("w1", said(0)))
        await asyncio.sleep(0.1)
        led = world.led
        world.stop_leading()
        reply = await settling
        assert [item.error.code for item in reply.errors] == [int(errors.NotLeaderError.code)]
        world.coordinator.gate.set()
        await asyncio.sleep(1)
        assert CHANNEL_ID not in world.host.shared
        assert led.writer is not None
        with pytest.raises(errors.NotLeaderError):
            await led.writer.wait(100)

    play(scenario)


def test_delivery_counts_survive_the_leader() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        await world.settle("w1", said(0, verdict=pb.VERDICT_NACK, delay_ms=5_000))
        kept = world.coordinator.of().retried[0]
        assert kept.deliveries == 1
        assert kept.not_before_ms == pytest.approx(world.clock.now_ms() + 5_000, abs=100)
        await world.lead(epoch=2)
        assert await world.values(max_wait_ms=1_000) == []
        reply, _ = await world.receive(max_wait_ms=10_000)
        assert [item.delivery for item in reply.records] == [2]

    play(scenario)


def test_a_write_that_the_coordinator_refuses_has_the_state_read_anew() -> None:
    """What the coordinator knew was lost in a disaster: the numbers of the writes do not fit any more."""

    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        await world.settle("w1", said(0, verdict=pb.VERDICT_NACK, delay_ms=0))
        await world.values(max_wait_ms=100)
        world.coordinator.of().write_no = 0
        reply = await world.settle("w1", said(0, delivery=2))
        assert [item.error.code for item in reply.errors] == [int(errors.CoordinatorNotAvailableError.code)]
        await asyncio.sleep(2)
        assert await world.values("w2", max_wait_ms=5_000) == [b"a"]
        assert not (await world.settle("w2", said(0, delivery=2))).errors
        assert world.coordinator.of().is_settled(0)

    play(scenario)


def test_what_is_written_for_later_settlements_is_no_part_of_the_first_ones_trace() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a", b"b")
        await world.values(max_wait_ms=100)
        world.coordinator.traces.clear()
        world.coordinator.gate.clear()
        with inside_of("00-" + "a" * 32 + "-" + "b" * 16 + "-01"):
            first = asyncio.create_task(world.settle("w1", said(0)))
            await asyncio.sleep(0.1)
        second = asyncio.create_task(world.settle("w1", said(1)))
        await asyncio.sleep(0.1)
        world.coordinator.gate.set()
        await asyncio.gather(first, second)
        assert [trace[-3:] for trace in world.coordinator.traces] == ["-01", NOBODY]

    play(scenario)
