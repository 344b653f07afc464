"""What a delivery is told of the log."""

from __future__ import annotations

import numpy as np

from oncelog.core.batch.batch import decode_arrow
from oncelog.core.batch.header import read_header
from oncelog_partition_leader.partition.channels.reading.batch_cutting import cut
from oncelog_partition_leader.partition.channels.reading.supply import runs_of
from tests.unit.partition_leader.channel_world import ChannelWorld, channel, play


def test_offsets_are_runs() -> None:
    assert runs_of(np.array([], np.int64)) == []
    assert runs_of(np.array([3, 4, 5, 9, 11, 12], np.int64)) == [(3, 5), (9, 9), (11, 12)]


def test_it_reads_no_further_than_the_delivery_wants() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(max_unsettled=50))
        led = await world.opened()
        for _ in range(20):
            await world.send(*(b"x" * 100 for _ in range(10)))
        led.fill()
        assert led.delivery.next_offset <= 60, "the window is full"
        assert len(await world.values(max_in_flight=1_000, max_wait_ms=100)) == 50

    play(scenario)


def test_a_long_backlog_is_read_piece_by_piece() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        led = await world.opened()
        for _ in range(30):
            await world.send(b"x" * 100_000)
        assert led.fill(), "there is more to read"
        assert led.delivery.next_offset < 20
        while led.fill():
            pass
        assert led.delivery.next_offset == 30
        assert led.record_bytes > 100_000

    play(scenario)


def test_records_of_a_key_come_one_after_the_other() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(order_by_key=True))
        await world.send(b"a1", b"b1", b"a2", b"n1", b"n2", keys_of=[b"a", b"b", b"a", None, None])
        assert await world.values("w1", max_wait_ms=100) == [b"a1", b"b1", b"n1", b"n2"]
        from tests.unit.partition_leader.channel_world import said

        await world.settle("w1", said(0))
        assert await world.values("w2", max_wait_ms=100) == [b"a2"]

    play(scenario)


def test_a_compacted_batch_has_the_records_that_are_left() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        await world.send(*(b"%d" % n for n in range(6)))
        partition = world.led_partition()
        data = bytes(partition.log.read(0, 1 << 20, 6))
        left = cut(decode_arrow(data), read_header(data), [(1, 1), (4, 4)])
        partition.log.read = lambda *_args: left  # type: ignore[method-assign]
        world.put(channel())
        assert await world.values(max_wait_ms=100) == [b"1", b"4"]
        assert world.led.counts().depth == 2

    play(scenario)
