"""Fetched batches are kept ready: faults that pass are not seen, and what does not pass is told once."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


def test_a_long_poll_ends_when_something_arrives(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(fetch_max_wait_ms=60_000) as consumer:
            await consumer.assign([P0])
            assert await consumer.position(P0) == 5, "latest is the default"
            waiting = asyncio.get_running_loop().create_task(consumer.getmany())
            await asyncio.sleep(0.5)
            append(cluster, [b"new"])
            assert values(await waiting) == [b"new"]
            assert cluster.loop.time() < 1.0

    cluster.run(work)


def test_a_new_leader_is_followed(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert len(await consumer.getmany()) == 5
            cluster.leaders[0], cluster.epochs[0] = BROKERS[1], 1
            append(cluster, [b"after"])
            assert values(await consumer.getmany(timeout_ms=2_000)) == [b"after"]

    cluster.run(work)


@pytest.mark.parametrize("fault", [errors.NetworkError(), errors.NetworkError(refused="true"), errors.StorageError()])
def test_passing_faults_are_not_seen(cluster: FakeCluster, fault: errors.OncelogError) -> None:
    cluster.fail("Fetch", fault, fault)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert len(await consumer.getmany(timeout_ms=2_000)) == 5

    cluster.run(work)


def test_an_offset_out_of_range_follows_the_rule(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            async with client.consumer(**EARLIEST) as consumer:
                await consumer.assign([P0])
                consumer.seek(P0, 1_000)
                assert len(await consumer.getmany(timeout_ms=2_000)) == 5
            async with client.consumer(auto_offset_reset="none") as strict:
                await strict.assign([P0])
                with pytest.raises(errors.OffsetOutOfRangeError):
                    await strict.getmany(timeout_ms=100)
                strict.seek(P0, 1_000)
                with pytest.raises(errors.OffsetOutOfRangeError):
                    await strict.getmany(timeout_ms=1_000)

    cluster.run(work)


def test_a_deleted_topic_is_an_error(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            await consumer.getmany()
            cluster.topic_exists = False
            cluster.fail("Fetch", *(errors.UnknownTopicError() for _ in range(20)))
            with pytest.raises(errors.UnknownTopicError):
                await consumer.getmany(timeout_ms=5_000)

    cluster.run(work)
