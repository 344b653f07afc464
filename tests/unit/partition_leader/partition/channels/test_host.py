"""Which channels there are on which partitions."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from tests.unit.partition_leader.channel_world import CHANNEL_ID, NAME, TOPIC_ID, ChannelWorld, channel, play, said


def test_a_channel_begins_on_each_partition_that_is_led_here() -> None:
    async def scenario(world: ChannelWorld) -> None:
        world.put(channel())
        assert world.host.shared == {}
        await world.lead(0)
        await world.lead(1)
        assert list(world.host.shared[CHANNEL_ID].led) == [0, 1]
        world.stop_leading(0)
        assert list(world.host.shared[CHANNEL_ID].led) == [1]
        world.stop_leading(1)
        assert world.host.shared == {}

    play(scenario)


def test_each_channel_of_a_topic_sees_every_record() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        world.put(channel("audit", "a" * 32))
        await world.send(b"a")
        assert await world.values(max_wait_ms=100) == [b"a"]
        assert await world.values(channel="audit", max_wait_ms=100) == [b"a"]

    play(scenario)


def test_a_channel_that_was_made_again_is_another_one() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        await world.settle("w1", said(0))
        waiting = asyncio.create_task(world.receive(max_wait_ms=60_000))
        await asyncio.sleep(0.1)
        world.delete(channel())
        world.put(channel(channel_id="d" * 32))
        await waiting
        assert await world.values(channel_id="d" * 32, max_wait_ms=100) == [b"a"]
        with pytest.raises(errors.UnknownChannelError):
            await world.settle("w1", said(0), channel_id=CHANNEL_ID)

    play(scenario)


def test_a_deleted_channel_answers_its_workers() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        waiting = asyncio.create_task(world.receive(max_wait_ms=60_000))
        await asyncio.sleep(0.1)
        world.delete(channel())
        reply, _ = await waiting
        assert not reply.records
        with pytest.raises(errors.UnknownChannelError):
            await world.host.find(TOPIC_ID, NAME, "")

    play(scenario)


def test_a_newer_epoch_of_the_same_leader_opens_it_again() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        first = await world.opened()
        await world.lead(epoch=2)
        second = await world.opened()
        assert isinstance(first.ended, errors.NotLeaderError)
        assert second.place.leader_epoch == 2
        assert world.coordinator.of().epoch == 2

    play(scenario)


def test_a_role_change_is_never_held_up_by_a_fault_here() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead()
        world.host._look = None  # type: ignore[assignment,method-assign]
        world.host.role_changed(partition.id)
        assert len(world.faults) == 1
        world.faults.clear()

    play(scenario)


def test_a_fault_on_one_partition_leaves_the_others_their_channels() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead(0)
        await world.lead(1)
        world.led_partition(0).log.last_stable_offset = None  # type: ignore[assignment,method-assign]
        world.put(channel())
        assert len(world.faults) == 1
        world.faults.clear()
        assert list(world.host.shared[CHANNEL_ID].led) == [1]

    play(scenario)


def test_a_newer_leader_that_a_coordinator_knows_ends_the_whole_leadership() -> None:
    async def scenario(world: ChannelWorld) -> None:
        told: list[tuple[int, int]] = []
        world.host.deposed = lambda leadership, epoch: told.append((leadership.epoch, epoch))
        await world.lead()
        world.put(channel())
        led = await world.opened()
        world.coordinator.of().epoch = 7
        led.doubt(stood_still=False)
        led.make_sure()
        await asyncio.sleep(0.1)
        assert isinstance(led.ended, errors.FencedLeaderEpochError)
        assert told == [(led.leadership.epoch, 7)]

    play(scenario)
