"""Dead letters are written before their records are settled, and tried again."""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog import errors
from oncelog.v1 import channel_pb2 as pb
from oncelog_partition_leader.core.channels.settlement import Dead
from tests.unit.partition_leader.channel_world import ChannelWorld, channel, play, said


def test_a_rejected_record_is_settled_when_its_letter_is_written() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(dead_letter_topic="letters"))
        await world.send(b"a", b"b")
        await world.values(max_wait_ms=100)
        world.transport.refusals = [errors.LeaderNotAvailableError(), errors.NotEnoughReplicasError()]
        answer = asyncio.create_task(world.settle("w1", said(0, verdict=pb.VERDICT_REJECT, reason="broken")))
        await asyncio.sleep(1)
        assert not answer.done()
        assert not world.coordinator.of().is_settled(0)
        assert not (await answer).errors
        assert len(world.transport.letters) == 1
        assert world.coordinator.of().is_settled(0)
        assert not world.coordinator.of().is_settled(1)

    play(scenario)


def test_a_rejection_that_was_answered_outlives_the_leader_and_one_that_was_not_is_not_the_workers_any_more() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(dead_letter_topic="letters"))
        await world.send(b"a", b"b")
        await world.values(max_wait_ms=100)
        assert not (await world.settle("w1", said(0, verdict=pb.VERDICT_REJECT))).errors
        world.transport.refusals = [errors.LeaderNotAvailableError()] * 3
        unanswered = asyncio.create_task(world.settle("w1", said(1, verdict=pb.VERDICT_REJECT)))
        await asyncio.sleep(0.1)
        await world.lead(epoch=6)
        assert [item.error.code for item in (await unanswered).errors] == [int(errors.ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        assert await world.values("w2", max_wait_ms=3_000) == [b"b"]

    play(scenario)


def test_no_other_settlement_waits_for_a_letter() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(dead_letter_topic="letters"))
        await world.send(b"a", b"b")
        await world.values(max_wait_ms=100)
        world.transport.refusals = [errors.LeaderNotAvailableError()] * 3
        rejected = asyncio.create_task(world.settle("w1", said(0, verdict=pb.VERDICT_REJECT)))
        await asyncio.sleep(0.1)
        assert not (await world.settle("w1", said(1))).errors
        assert not rejected.done()
        assert not (await rejected).errors

    play(scenario)


def test_a_letter_that_is_not_written_in_time_leaves_the_outcome_open_and_a_repeated_rejection_waits_again() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(dead_letter_topic="letters"))
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        world.transport.refusals = [errors.LeaderNotAvailableError()] * 5
        reply = await world.settle("w1", said(0, verdict=pb.VERDICT_REJECT))
        assert [item.error.code for item in reply.errors] == [int(errors.ErrorCode.REQUEST_TIMED_OUT)]
        assert not (await world.settle("w1", said(0, verdict=pb.VERDICT_REJECT))).errors
        assert (len(world.transport.letters), world.led.counts().dead) == (1, 1)

    play(scenario)


def test_a_record_that_was_delivered_too_often_is_dead() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(max_deliveries=2, ack_wait_ms=500, dead_letter_topic="letters"))
        await world.send(b"a")
        for _ in range(2):
            assert await world.values(max_wait_ms=5_000) == [b"a"]
        assert await world.values(max_wait_ms=5_000) == []
        assert len(world.transport.letters) == 1
        assert world.led.counts().dead == 1

    play(scenario)


def test_without_a_topic_for_letters_the_dead_are_dropped_and_counted() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        assert not (await world.settle("w1", said(0, verdict=pb.VERDICT_REJECT))).errors
        assert world.coordinator.of().is_settled(0)
        assert (world.transport.letters, world.led.counts().dead) == ([], 1)

    play(scenario)


def test_a_topic_that_does_not_exist_keeps_the_record_until_it_does() -> None:
    async def scenario(world: ChannelWorld) -> None:
        from dataclasses import replace

        await world.lead()
        value = channel(dead_letter_topic="nowhere")
        world.put(value)
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        reply = await world.settle("w1", said(0, verdict=pb.VERDICT_REJECT))
        assert [item.error.code for item in reply.errors] == [int(errors.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert await world.values("w2", max_wait_ms=20_000) == []
        assert not world.coordinator.of().is_settled(0)
        world.put(replace(value, options=replace(value.options, dead_letter_topic="letters")))
        assert await world.values("w2", max_wait_ms=40_000) == []
        assert len(world.transport.letters) == 1

    play(scenario)


def test_a_letter_that_can_never_be_written_keeps_no_other_waiting() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(dead_letter_topic="letters"))
        await world.send(b"a", b"b", b"c")
        await world.values(max_wait_ms=100)
        write = world.around.letters._letter

        async def letter(source: Any, name: str, dead: Dead) -> Any:
            if dead.offset == 1:
                raise errors.InvalidRecordError("it cannot be unpacked")
            return await write(source, name, dead)

        world.around.letters._letter = letter  # type: ignore[method-assign]
        await world.settle("w1", said(0, 2, verdict=pb.VERDICT_REJECT))
        await asyncio.sleep(1)
        kept = world.coordinator.of()
        assert [kept.is_settled(offset) for offset in range(3)] == [True, False, True]

    play(scenario)


def test_letters_that_are_large_together_are_not_in_memory_together() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(dead_letter_topic="letters"))
        for _ in range(4):
            await world.send(bytes(3 << 20))
        for offset in range(4):
            await world.values(max_wait_ms=100, max_in_flight=1 + offset)
        await world.settle("w1", said(0, 3, verdict=pb.VERDICT_REJECT))
        assert [header.record_count for header, _ in world.transport.letters] == [1] * 4
        assert (await world.opened()).counts().depth == 0

    play(scenario)
