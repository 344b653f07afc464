"""Looking at a channel, and moving it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import channel_pb2 as pb
from oncelog.v1 import types_pb2
from tests.unit.partition_leader.channel_world import NAME, TOPIC_ID, ChannelWorld, channel, play, said


async def describe(world: ChannelWorld, **fields: Any) -> pb.ChannelPartition:
    request = pb.DescribeChannelRequest(topic_id=TOPIC_ID, channel=NAME, partitions=[0], **fields)
    reply, _ = await world.inspection.describe(request)
    return reply.partitions[0]


async def seek(world: ChannelWorld, offset: int = 0, **fields: Any) -> int:
    request = pb.SeekChannelRequest(topic_id=TOPIC_ID, channel=NAME, partition=0, offset=offset, **fields)
    reply, _ = await world.inspection.seek(request)
    return reply.offset


def test_a_description_says_what_there_is() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(*(b"%d" % n for n in range(5)))
        assert (await describe(world)).depth == 5, "also before anybody has looked at the records"
        await world.values(max_in_flight=3, max_wait_ms=100)
        await world.settle("w1", said(0))
        await world.settle("w1", said(1, verdict=pb.VERDICT_NACK, delay_ms=60_000))
        await asyncio.sleep(2)
        told = await describe(world, max_pending=10)
        assert (told.settled_before, told.end_offset, told.depth) == (1, 5, 4)
        assert (told.in_flight, told.waiting, told.delivered, told.acknowledged) == (1, 1, 3, 1)
        assert [(worker.worker_id, worker.max_in_flight, worker.in_flight) for worker in told.workers] == [("w1", 3, 1)]
        assert told.workers[0].idle_ms == pytest.approx(2_000, abs=50)
        assert [(item.offset, item.worker_id, item.deliveries) for item in told.pending] == [(1, "", 1), (2, "w1", 1)]
        assert [item.offset for item in (await describe(world, max_pending=10, from_offset=2)).pending] == [2]
        assert not (await describe(world)).pending

    play(scenario)


def test_what_is_settled_is_not_counted_at_a_new_leader_either() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(*(b"%d" % n for n in range(6)))
        await world.values(max_wait_ms=100)
        await world.settle("w1", said(1, 2), said(4))
        world.stop_leading()
        await world.lead(epoch=2)
        assert (await describe(world)).depth == 3, "no worker has made it look at the log"
        assert world.led.counts().depth == 3

    play(scenario)


def test_a_dead_record_whose_letter_cannot_be_written_is_told_with_the_reason_until_there_is_a_way_out() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(dead_letter_topic="letters"))
        await world.send(b"a", b"b")
        await world.values(max_wait_ms=100)
        world.transport.refusals = [errors.MessageTooLargeError("5000 bytes")] * 100
        assert (await world.settle("w1", said(0, verdict=pb.VERDICT_REJECT))).errors
        told = (await describe(world, max_pending=10)).pending
        assert [(item.offset, item.worker_id, item.dead) for item in told] == [(0, "", True), (1, "w1", False)]
        assert told[0].trouble == "MessageTooLargeError: 5000 bytes"
        assert 0 < told[0].due_ms <= 30_000
        world.put(channel())
        await asyncio.sleep(30)
        assert [item.offset for item in (await describe(world, max_pending=10)).pending] == [1], "it was dropped"

    play(scenario)


def test_a_partition_that_is_led_elsewhere_has_its_own_error() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        request = pb.DescribeChannelRequest(topic_id=TOPIC_ID, channel=NAME, partitions=[1, 0])
        reply, _ = await world.inspection.describe(request)
        assert [item.HasField("error") for item in reply.partitions] == [True, False]

    play(scenario)


def test_a_seek_goes_back_and_forth() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(*(b"%d" % n for n in range(5)))
        assert len(await world.values(max_wait_ms=100)) == 5
        await world.settle("w1", said(0, 4))
        assert await seek(world, 3) == 3
        assert world.coordinator.of().settled_before == 3
        assert await world.values(max_wait_ms=100) == [b"3", b"4"]
        assert await seek(world, -1) == 5
        assert await world.values(max_wait_ms=100) == []
        assert await seek(world, -2) == 0
        assert len(await world.values(max_wait_ms=100)) == 5
        await world.lead(epoch=2)
        assert len(await world.values(max_wait_ms=1_000)) == 5, "the next leader knows"

    play(scenario)


def test_a_seek_to_a_time_goes_to_the_first_record_at_or_after() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await asyncio.sleep(10)
        time_ms = world.clock.now_ms()
        await world.send(b"b")
        assert await seek(world, timestamp_ms=time_ms) == 1
        assert await seek(world, timestamp_ms=time_ms + 60_000) == 2

    play(scenario)


def test_a_seek_outside_of_the_log_is_refused() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        with pytest.raises(errors.OffsetOutOfRangeError):
            await seek(world, 2)
        with pytest.raises(errors.InvalidRequestError):
            await seek(world, -3)
        assert await world.values(max_wait_ms=100) == [b"a"]

    play(scenario)


def test_a_copy_of_a_seek_changes_nothing() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a", b"b")
        call = types_pb2.CallIdentity(nonce="n", term=1)
        assert await seek(world, 1, call=call) == 1
        assert await world.values(max_wait_ms=100) == [b"b"]
        assert await seek(world, 1, call=call) == 1
        assert await world.values("w2", max_wait_ms=100) == [], "the record is still with its worker"
        with pytest.raises(errors.FencedLeaderEpochError):
            await seek(world, 0, call=types_pb2.CallIdentity(nonce="m", term=9))

    play(scenario)
