"""The workers of a channel on a broker: turns, shares and silence, over several partitions."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.unit.partition_leader.channel_world import CHANNEL_ID, ChannelWorld, channel, play, said, values_of


def test_a_worker_holds_no_more_than_it_said_over_all_partitions() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead(0)
        await world.lead(1)
        world.put(channel())
        for partition in range(2):
            await world.send(*(b"%d" % n for n in range(10)), partition=partition)
        await asyncio.sleep(0.1)
        assert len(await world.values(partitions=[0, 1], max_in_flight=6, max_wait_ms=100)) == 6
        assert world.host.shared[CHANNEL_ID].in_flight_of("w1") == 6
        assert await world.values(partitions=[1], max_in_flight=6, max_wait_ms=100) == []

    play(scenario)


def test_no_partition_waits_behind_another_one() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead(0)
        await world.lead(1)
        world.put(channel())
        for partition in range(2):
            await world.send(*(b"%d" % partition for n in range(50)), partition=partition)
        await asyncio.sleep(0.1)
        seen = {
            value
            for n in range(4)
            for value in await world.values(f"w{n}", partitions=[0, 1], max_in_flight=5, max_wait_ms=100)
        }
        assert seen == {b"0", b"1"}

    play(scenario)


def test_a_request_that_wants_nothing_now_is_held_and_keeps_the_worker() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead()
        world.put(channel())
        await world.send(b"a")
        holding = asyncio.create_task(world.values(max_in_flight=0, max_wait_ms=30_000))
        await asyncio.sleep(25)
        assert [worker.worker_id for worker in world.host.shared[CHANNEL_ID].workers.all()] == ["w1"]
        assert not partition.watchers, "nobody has room"
        assert await holding == []

    play(scenario)


def test_those_with_room_share_what_is_there() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"x")
        assert len(await world.values("full", max_in_flight=1, max_wait_ms=100)) == 1
        full = asyncio.create_task(world.values("full", max_in_flight=1, max_wait_ms=5_000))
        others = [asyncio.create_task(world.values(f"w{n}", max_wait_ms=5_000)) for n in range(2)]
        await asyncio.sleep(0.1)
        await world.send(*(b"%d" % n for n in range(8)))
        assert [len(await other) for other in others] == [4, 4]
        assert await full == []

    play(scenario)


def test_a_record_that_comes_again_wakes_who_waits() -> None:
    async def scenario(world: ChannelWorld) -> None:
        from oncelog.v1 import channel_pb2 as pb

        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.values("w1", max_wait_ms=100)
        waiting = asyncio.create_task(world.receive("w2", max_wait_ms=60_000))
        await asyncio.sleep(1)
        before_ms = world.clock.monotonic_ms()
        await world.settle("w1", said(0, verdict=pb.VERDICT_NACK, delay_ms=2_000))
        reply, payload = await waiting
        assert values_of(reply, payload) == [b"a"]
        assert 2_000 <= world.clock.monotonic_ms() - before_ms <= 2_020

    play(scenario)


def test_many_workers_get_each_record_once() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead(0)
        await world.lead(1)
        world.put(channel())
        seen: list[bytes | None] = []

        async def work(name: str) -> None:
            while len(seen) < 200:
                reply, payload = await world.receive(name, partitions=[0, 1], max_in_flight=7, max_wait_ms=300)
                seen.extend(values_of(reply, payload))
                for item in reply.records:
                    done = said(item.first_offset, item.last_offset)
                    done.partition = item.partition
                    assert not (await world.settle(name, done)).errors

        working = [asyncio.create_task(work(f"w{n}")) for n in range(5)]
        for n in range(20):
            await world.send(*(b"%d" % (10 * n + k) for k in range(10)), partition=n % 2)
            await asyncio.sleep(0.01)
        await asyncio.gather(*working)
        assert sorted(int(value or b"") for value in seen) == list(range(200))

    play(scenario)


def test_a_record_that_dies_instead_of_being_given_out_gets_its_letter_at_once() -> None:
    async def scenario(world: ChannelWorld) -> None:
        from oncelog.v1 import channel_pb2 as pb

        await world.lead()
        value = channel(dead_letter_topic="letters")
        world.put(value)
        await world.send(b"a")
        await world.values("w1", max_wait_ms=100)
        await world.settle("w1", said(0, verdict=pb.VERDICT_NACK, delay_ms=0))
        world.put(replace(value, options=replace(value.options, max_deliveries=1)))
        waiting = asyncio.create_task(world.values("w2", max_wait_ms=60_000))
        await asyncio.sleep(2)
        assert len(world.transport.letters) == 1
        assert world.coordinator.of().is_settled(0)
        waiting.cancel()

    play(scenario)


def test_a_fault_on_one_partition_leaves_the_others_alone() -> None:
    async def scenario(world: ChannelWorld) -> None:
        for partition in range(2):
            await world.lead(partition)
        world.put(channel())
        for partition in range(2):
            await world.send(b"%d" % partition, partition=partition)
        await asyncio.sleep(0.1)
        led = world.led
        assert led.supply is not None
        led.supply.fill = None  # type: ignore[assignment,method-assign]
        reply, _ = await world.receive(partitions=[0, 1], max_wait_ms=100)
        assert [item.partition.partition for item in reply.errors] == [0]
        assert await world.values(partitions=[0, 1], max_wait_ms=100) == [b"1"]
        assert len(world.faults) == 1
        world.faults.clear()
        await asyncio.sleep(2)
        assert await world.values("w2", max_wait_ms=5_000) == [b"0"], "it was opened again"

    play(scenario)
