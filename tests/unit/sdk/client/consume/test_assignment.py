"""Which partitions a consumer reads."""

from __future__ import annotations

import pytest

from oncelog import errors
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, P1, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


def test_a_consumer_with_nothing_to_read_says_so_instead_of_waiting(cluster: FakeCluster) -> None:
    """Regression: `getmany()` without an assignment never returned."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer() as consumer:
            with pytest.raises(errors.IllegalStateError, match="nothing is assigned: give topics"):
                await consumer.getmany()
            await consumer.assign([P0])
            assert await consumer.getmany(timeout_ms=10) == []

    cluster.run(work)


def test_a_start_that_failed_is_made_again(cluster: FakeCluster) -> None:
    """Regression: after a first failure the consumer counted as started, and never read anything."""
    cluster.topic_exists = False

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            consumer = client.consumer(TOPIC, **EARLIEST)
            with pytest.raises(errors.UnknownTopicError):
                await consumer.getmany(timeout_ms=10)
            cluster.topic_exists = True
            assert await consumer.getmany(timeout_ms=1_000)

    cluster.run(work)


def test_a_partition_that_stays_assigned_keeps_its_position(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert values(await consumer.getmany(max_records=2)) == [b"0", b"1"]
            await consumer.assign([P1, P0])
            assert consumer.assignment() == [P1, P0]
            assert await consumer.position(P0) == 2
            assert await consumer.position(P1) == 0

    cluster.run(work)


def test_an_assignment_that_is_refused_leaves_the_old_one(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            with pytest.raises(errors.UnknownTopicError):
                await consumer.assign([P1, (TOPIC, 99)])
            assert consumer.assignment() == [P0]
            assert len(await consumer.getmany(timeout_ms=1_000)) == 5

    cluster.run(work)


def test_what_is_not_assigned_has_no_position(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            with pytest.raises(errors.IllegalStateError, match="not assigned"):
                await consumer.position(P1)

    cluster.run(work)
