"""Where a channel begins, and what its next leader knows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.work.deadlines import SURE_MS
from oncelog_runtime.metadata.channel_values import START_LATEST
from tests.unit.partition_leader.channel_world import CHANNEL_ID, ChannelWorld, KeptState, channel, play, said


def test_a_channel_begins_at_the_beginning_of_the_log() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead()
        for value in (b"a", b"b", b"c"):
            await world.send(value)
        await partition.delete_before(1)
        world.put(channel())
        assert await world.values(max_wait_ms=100) == [b"b", b"c"]

    play(scenario)


def test_a_channel_that_begins_at_the_end_begins_there_for_every_leader() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        await world.send(b"a")
        world.put(channel(start=START_LATEST))
        await world.send(b"b")
        await world.opened()
        await world.send(b"c")
        await world.lead(epoch=2)
        assert await world.values(max_wait_ms=1_000) == [b"b", b"c"]

    play(scenario)


def test_a_channel_begins_at_a_time() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        await world.send(b"a")
        await asyncio.sleep(10)
        start_ms = world.clock.now_ms()
        await asyncio.sleep(10)
        await world.send(b"b")
        world.put(channel(start=start_ms))
        assert await world.values(max_wait_ms=1_000) == [b"b"]

    play(scenario)


def test_what_an_earlier_leader_confirmed_never_comes_again() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(*(b"%d" % n for n in range(5)))
        await world.values(max_wait_ms=100)
        await world.settle("w1", said(0), said(2, 3))
        await world.lead(epoch=2)
        assert await world.values("w2", max_wait_ms=1_000) == [b"1", b"4"]

    play(scenario)


def test_nothing_is_delivered_while_a_worker_may_be_sure_of_what_an_earlier_leader_gave_it() -> None:
    async def scenario(world: ChannelWorld) -> None:
        began_ms = world.clock.monotonic_ms()
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        assert await world.values("w1", max_wait_ms=1_000) == [b"a"]
        assert world.clock.monotonic_ms() - began_ms < 100, "there was no earlier leader"
        given_ms = world.clock.monotonic_ms()
        await world.lead(epoch=2)
        assert await world.values("w2", max_wait_ms=1_000) == [b"a"]
        assert SURE_MS <= world.clock.monotonic_ms() - given_ms < 2 * SURE_MS

    play(scenario)


def test_nothing_is_delivered_before_the_coordinator_has_answered() -> None:
    async def scenario(world: ChannelWorld) -> None:
        world.coordinator.gate.clear()
        world.coordinator.before = [errors.CoordinatorNotAvailableError() for _ in range(5)]
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        assert await world.values(max_wait_ms=2_000) == []
        world.coordinator.gate.set()
        assert await world.values(max_wait_ms=2_000) == [b"a"]

    play(scenario)


def test_a_fenced_leader_delivers_nothing_and_asks_again() -> None:
    async def scenario(world: ChannelWorld) -> None:
        world.coordinator.of().epoch = 5
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        reply, _ = await world.receive(max_wait_ms=2_000)
        assert not reply.records
        await world.lead(epoch=6)
        assert await world.values(max_wait_ms=2_000) == [b"a"]

    play(scenario)


def test_what_is_remembered_of_lost_records_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: ChannelWorld) -> None:
        kept = world.coordinator.of()
        kept.known, kept.settled_before, kept.settled, kept.write_no = True, 8, {10}, 3
        await world.lead()
        await world.send(b"a", b"b")
        world.put(channel())
        await world.opened()
        await world.send(b"c")
        assert await world.values(max_wait_ms=1_000) == [b"c"]
        await asyncio.sleep(0.1)
        assert kept.settled_before == 2
        assert kept.seeks == 1, "an older coordinator knows no other way to forget"
        assert CHANNEL_ID in world.host.shared

    play(scenario)
    assert "records were lost" in caplog.text


AFTER_THE_LOSS = [b"b", *(b"%d" % n for n in range(2, 9))]


async def lose_the_end(world: ChannelWorld) -> KeptState:
    """The log had five records in epoch 3, of which two are left; the leader of epoch 5 has written on."""
    kept = world.coordinator.of()
    kept.known, kept.settled_before, kept.settled, kept.write_no = True, 1, {2, 3, 4}, 3
    kept.written_epoch = 3
    await world.lead(epoch=3)
    await world.send(b"a", b"b")
    await world.lead(epoch=5)
    await world.send(*(b"%d" % n for n in range(2, 9)))
    return kept


def test_what_was_written_in_the_places_of_lost_records_is_delivered(caplog: pytest.LogCaptureFixture) -> None:
    """The log is longer than ever when the channel is opened, but what it had in epoch 3 ends at 2."""

    async def scenario(world: ChannelWorld) -> None:
        kept = await lose_the_end(world)
        world.put(channel())
        assert await world.values(max_wait_ms=1_000) == AFTER_THE_LOSS
        assert (kept.settled_before, kept.settled, kept.written_epoch, kept.seeks) == (1, set(), 5, 0)

    play(scenario)
    assert "records were lost" in caplog.text


def test_a_loss_shows_in_a_second_opening_too() -> None:
    """The first one ended before anything was forgotten."""

    async def scenario(world: ChannelWorld) -> None:
        kept = await lose_the_end(world)
        world.coordinator.gate.clear()
        world.put(channel())
        await asyncio.sleep(0.1)
        world.led.give_up()
        world.coordinator.gate.set()
        await asyncio.sleep(3)
        assert await world.values(max_wait_ms=1_000) == AFTER_THE_LOSS
        assert kept.settled == set()

    play(scenario)


def test_a_write_that_forgets_may_come_twice_from_two_openings(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: ChannelWorld) -> None:
        kept = await lose_the_end(world)
        real, held = world.coordinator.serve, []

        async def serve(method: str, request: Any) -> Any:
            if method == "write" and request.HasField("forget_from") and not held:
                held.append(request)
                await asyncio.Event().wait()
            return await real(method, request)

        monkeypatch.setattr(world.coordinator, "serve", serve)
        world.put(channel())
        await asyncio.sleep(0.2)
        assert held
        world.host.around.doubts.stood_still()
        await asyncio.sleep(3)
        await real("write", held[0])
        assert await world.values(max_wait_ms=1_000) == AFTER_THE_LOSS
        assert kept.settled == set()

    play(scenario)


def test_what_was_settled_and_is_still_there_does_not_come_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: ChannelWorld) -> None:
        kept = world.coordinator.of()
        kept.known, kept.settled_before, kept.settled, kept.write_no = True, 0, {1, 2, 3}, 3
        kept.written_epoch = 3
        kept.pending = {(7, 3): {0, 3}}
        await world.lead(epoch=3)
        await world.send(b"0", b"1", b"2")
        await world.lead(epoch=4)
        await world.send(b"new 3")
        world.put(channel())
        assert await world.values(max_wait_ms=1_000) == [b"new 3"]
        world.coordinator.end((7, 3), committed=True)
        assert await world.values("w2", max_wait_ms=3_000) == []
        assert kept.settled == {0, 1, 2}

    play(scenario)
    assert "records were lost" in caplog.text


def test_nothing_is_forgotten_when_nothing_was_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: ChannelWorld) -> None:
        kept = world.coordinator.of()
        kept.known, kept.settled_before, kept.settled, kept.write_no = True, 1, {2}, 3
        kept.written_epoch = 3
        await world.lead(epoch=3)
        await world.send(b"0", b"1", b"2")
        for epoch in (4, 5, 6):
            await world.lead(epoch=epoch)
            await world.send(b"of %d" % epoch)
        world.put(channel())
        assert await world.values(max_wait_ms=1_000) == [b"1", b"of 4", b"of 5", b"of 6"]
        assert (kept.settled_before, kept.settled) == (1, {2})

    play(scenario)
    assert "records were lost" not in caplog.text


def test_a_channel_at_the_end_passes_over_nothing_when_its_first_leader_dies_before_it_has_written_that() -> None:
    async def scenario(world: ChannelWorld) -> None:
        world.coordinator.gate.clear()
        await world.lead()
        await world.send(b"a")
        await asyncio.sleep(1)
        world.put(replace(channel(start=START_LATEST), created_ms=world.clock.now_ms()))
        await asyncio.sleep(1)
        await world.send(b"b")
        await world.lead(epoch=2)
        world.coordinator.gate.set()
        assert await world.values(max_wait_ms=5_000) == [b"b"]

    play(scenario)


def test_a_late_write_of_before_a_fault_counts_in_the_place_of_no_other() -> None:
    """The leader opens the channel again in the same epoch, while a write of before is still on its way."""

    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a", b"b")
        await world.values(max_wait_ms=100)
        world.coordinator.gate.clear()
        settling = asyncio.create_task(world.settle("w1", said(0)))
        await asyncio.sleep(0.1)
        late = world.coordinator.named("write")[-1]
        world.led.give_up()
        assert (await settling).errors
        world.coordinator.gate.set()
        await asyncio.sleep(2)
        assert await world.values("w2", max_wait_ms=1_000) == [b"a", b"b"]
        await world.coordinator.serve("write", late)
        assert not (await world.settle("w2", said(1))).errors
        assert world.coordinator.of().is_settled(1)
        await world.lead(epoch=2)
        assert b"b" not in await world.values("w3", max_wait_ms=1_000)

    play(scenario)


def test_acknowledgements_of_lost_records_are_forgotten_with_them(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: ChannelWorld) -> None:
        kept = world.coordinator.of()
        kept.known, kept.settled_before, kept.write_no = True, 2, 3
        kept.pending = {(7, 3): {2, 3}}
        await world.lead()
        await world.send(b"a", b"b")
        world.put(channel())
        await world.opened()
        await world.send(b"c", b"d")
        await asyncio.sleep(0.1)
        world.coordinator.end((7, 3), committed=True)
        assert await world.values(max_wait_ms=3_000) == [b"c", b"d"], (
            "new records, at the offsets of those that were lost"
        )

    play(scenario)
    assert "records were lost" in caplog.text
