"""An answer holds the worker's records within its memory; what is not sent comes again."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.core.batch.batch import decode_arrow
from oncelog.core.batch.header import read_header
from oncelog_partition_leader.core.channels.settlement import Taken
from oncelog_partition_leader.partition.channels.answering import Answer, Given
from oncelog_partition_leader.partition.channels.reading.batch_cutting import cut
from oncelog_runtime.core.budget import Budget
from oncelog_runtime.serving.admission import Admission
from tests.unit.partition_leader.channel_world import ChannelWorld, channel, play, records_of


async def _taken(world: ChannelWorld, batches: int, records: int = 3, most: int = 1_000) -> Given:
    await world.lead()
    world.put(channel())
    led = await world.opened()
    for n in range(batches):
        await world.send(*(b"%d" % n * 300 for _ in range(records)))
    while led.fill():
        pass
    return Given(led, led.delivery.take("w1", most, led.now_ms()))


def _answer(world: ChannelWorld, budget: Budget, max_bytes: int = 1 << 20) -> Answer:
    return Answer("w1", max_bytes, world.unpacked, Admission(budget))


def test_memory_is_reserved_for_what_is_sent() -> None:
    async def scenario(world: ChannelWorld) -> None:
        given = await _taken(world, 4)
        budget = Budget("test", 1 << 20)
        answer = _answer(world, budget)
        await answer.add_all([given])
        assert budget.taken_bytes == len(answer.payload)
        assert len(records_of(answer.reply, bytes(answer.payload))) == 12

    play(scenario)


def test_what_has_no_room_is_released() -> None:
    async def scenario(world: ChannelWorld) -> None:
        given = await _taken(world, 4)
        size = len(bytes(given.led.partition.log.read(0, 1, 12)))
        answer = _answer(world, Budget("test", 2 * size + 10))
        await answer.add_all([given])
        assert [offset for offset, _ in records_of(answer.reply, bytes(answer.payload))] == list(range(6))
        assert given.led.delivery.in_flight_of("w1") == 6
        again = given.led.delivery.take("w2", 100, given.led.now_ms())
        assert again == [Taken(6, 11, 1)], "it comes at once, and its delivery does not count"

    play(scenario)


def test_what_is_to_be_claimed_is_named_when_it_was_claimed() -> None:
    async def scenario(world: ChannelWorld) -> None:
        given = await _taken(world, 4)
        size = len(bytes(given.led.partition.log.read(0, 1, 12)))
        answer = _answer(world, Budget("test", 2 * size + 10))
        assert await answer.prepare(given.led, [(0, 1), (4, 9)]) == [0, 1, 4, 5], "the third batch has no room"
        assert (given.led.delivery.in_flight_of("w1"), len(answer.reply.records)) == (12, 0)
        answer.name_claimed(given.led, [Taken(4, 5, 2)])
        assert [offset for offset, _ in records_of(answer.reply, bytes(answer.payload))] == [4, 5]
        assert [item.delivery for item in answer.reply.records] == [2]

    play(scenario)


def test_a_partition_that_cannot_be_read_is_named_and_nothing_of_it_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: ChannelWorld) -> None:
        given = await _taken(world, 1)
        answer = _answer(world, Budget("test", 1 << 20))

        def fails(*_: object) -> bytes:
            raise errors.StorageError()

        monkeypatch.setattr("oncelog_partition_leader.partition.channels.answering.read_log", fails)
        assert await answer.prepare(given.led, [(0, 2)]) == []
        assert len(answer.reply.errors) == 1
        assert given.led.delivery.in_flight_of("w1") == 3

    play(scenario)


def test_without_memory_for_the_first_record_all_are_released() -> None:
    async def scenario(world: ChannelWorld) -> None:
        given = await _taken(world, 2)
        answer = _answer(world, Budget("test", 100))
        with pytest.raises(errors.ResourceExhaustedError):
            await answer.add_all([given])
        assert given.led.delivery.in_flight_of("w1") == 0

    play(scenario)


def test_records_that_retention_deleted_meanwhile_are_not_in_it() -> None:
    async def scenario(world: ChannelWorld) -> None:
        given = await _taken(world, 3)
        await given.led.partition.delete_before(4)
        answer = _answer(world, Budget("test", 1 << 20))
        await answer.add_all([given])
        assert [offset for offset, _ in records_of(answer.reply, bytes(answer.payload))] == [4, 5, 6, 7, 8]
        assert given.led.delivery.in_flight_of("w1") == 5

    play(scenario)


def test_records_that_compaction_took_out_meanwhile_are_settled() -> None:
    async def scenario(world: ChannelWorld) -> None:
        given = await _taken(world, 1)
        log = given.led.partition.log
        data = bytes(log.read(0, 1, 3))
        left = cut(decode_arrow(data), read_header(data), [(1, 1)])
        log.read = lambda *_args: left  # type: ignore[method-assign]
        answer = _answer(world, Budget("test", 1 << 20))
        await answer.add_all([given])
        assert [offset for offset, _ in records_of(answer.reply, bytes(answer.payload))] == [1]
        assert given.led.delivery.in_flight_of("w1") == 1
        assert given.led.writer is not None
        await given.led.writer.wait(1_000)
        assert world.coordinator.of().is_settled(2)

    play(scenario)


def test_a_log_that_cannot_be_read_is_its_partitions_error() -> None:
    async def scenario(world: ChannelWorld) -> None:
        given = await _taken(world, 1)

        def fails(*_args: object) -> bytes:
            raise errors.StorageError("cannot be read", reason="io")

        given.led.partition.log.read = fails  # type: ignore[method-assign]
        answer = _answer(world, Budget("test", 1 << 20))
        await answer.add_all([given])
        assert [item.error.code for item in answer.reply.errors] == [int(errors.StorageError.code)]
        assert given.led.delivery.in_flight_of("w1") == 0

    play(scenario)


def test_an_answer_that_is_broken_off_gives_everything_back() -> None:
    async def scenario(world: ChannelWorld) -> None:
        given = await _taken(world, 4)
        size = len(bytes(given.led.partition.log.read(0, 1, 12)))
        answer = _answer(world, Budget("test", 2 * size + 10))
        reserve = answer._reserve

        async def reserve_once(size: int) -> bool:
            if answer._batches:
                await asyncio.Event().wait()
            return await reserve(size)

        answer._reserve = reserve_once  # type: ignore[method-assign]
        building = asyncio.create_task(answer.add_all([given]))
        await asyncio.sleep(1)
        assert answer.reply.records
        building.cancel()
        with pytest.raises(asyncio.CancelledError):
            await building
        assert given.led.delivery.in_flight_of("w1") == 0
        assert given.led.delivery.take("w2", 100, given.led.now_ms()) == [Taken(0, 11, 1)]

    play(scenario)
