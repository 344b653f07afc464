"""The consumer against a scripted cluster: positions, ranges, iteration, and what is said before there is anything to read."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.client.consume.consumer import Consumer
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, P1, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


def test_all_partitions_of_a_topic_are_read_from_the_beginning(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(TOPIC, **EARLIEST) as consumer:
            assert consumer.assignment() == [P0, P1]
            found = []
            while len(found) < 6:
                found += await consumer.getmany(timeout_ms=1_000)
            assert [(r.offset, r.value) for r in found if r.partition == 0] == [(i, b"%d" % i) for i in range(5)]
            assert await consumer.position(P0) == 5
            assert await consumer.getmany(timeout_ms=100) == []

    cluster.run(work)


def test_pause_and_resume(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(TOPIC, **EARLIEST) as consumer:
            consumer.pause(P0)
            assert values(await consumer.getmany(timeout_ms=200)) == [b"x"]
            assert await consumer.getmany(timeout_ms=200) == []
            consumer.resume(P0)
            assert len(await consumer.getmany(timeout_ms=1_000)) == 5

    cluster.run(work)


def test_a_reader_that_waits_gets_what_was_fetched_before_the_pause(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST | {"fetch_max_wait_ms": 10_000}) as consumer:
            await consumer.assign([P0])
            assert await consumer.position(P0) == 0
            await asyncio.sleep(0.5)
            consumer.pause(P0)
            waiting = asyncio.ensure_future(consumer.getmany())
            await asyncio.sleep(0.5)
            consumer.resume(P0)
            async with asyncio.timeout(1):
                assert len(await waiting) == 5

    cluster.run(work)


def test_iteration_and_deserializers(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            found = []
            async for record in client.consumer(TOPIC, value_deserializer=lambda v: v.decode(), **EARLIEST):
                found.append(record.value)
                if len(found) == 6:
                    break
            assert sorted(found) == ["0", "1", "2", "3", "4", "x"]

    cluster.run(work)


async def read_on(consumer: Consumer, count: int) -> list[int]:
    """The offsets of the next `count` records of `async for`."""
    return [(await anext(consumer)).offset for _ in range(count)]


def test_iteration_keeps_the_position_behind_each_record(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            for offset in range(5):
                assert await read_on(consumer, 1) == [offset]
                assert await consumer.position(P0) == offset + 1
            append(cluster, [b"5", b"6", b"7"])
            assert await read_on(consumer, 1) == [5]
            assert values(await consumer.getmany(max_records=1)) == [b"6"]
            assert await read_on(consumer, 1) == [7]

    cluster.run(work)


def test_iteration_follows_a_seek_a_pause_and_the_end(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert await read_on(consumer, 1) == [0]
            consumer.seek(P0, 4)
            assert await read_on(consumer, 1) == [4]
            consumer.seek(P0, 0)
            assert await read_on(consumer, 1) == [0]
            consumer.pause(P0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(consumer), 1)
            consumer.resume(P0)
            assert await read_on(consumer, 1) == [1]
            await consumer.close()
            with pytest.raises(StopAsyncIteration):
                await anext(consumer)

    cluster.run(work)


def test_what_needs_a_group_or_a_partition_says_so(cluster: FakeCluster) -> None:

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer() as consumer:
            with pytest.raises(errors.ConfigError, match="give the consumer a group_id"):
                consumer.subscribe(TOPIC)
            with pytest.raises(errors.IllegalStateError, match="group_id"):
                await consumer.commit()
            with pytest.raises(errors.UnknownTopicError):
                await consumer.assign([(TOPIC, 2)])
            with pytest.raises(errors.ConfigError):
                await consumer.assign(["orders"])

    cluster.run(work)


@pytest.mark.parametrize("how", ["getmany", "getone", "read_arrow"])
def test_reading_starts_a_consumer_that_nobody_started(cluster: FakeCluster, how: str) -> None:
    """Regression: it was an empty list, or it never returned."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            consumer = client.consumer(TOPIC, **EARLIEST)
            assert await getattr(consumer, how)(timeout_ms=1_000)
            assert consumer.assignment() == [P0, P1]

    cluster.run(work)
