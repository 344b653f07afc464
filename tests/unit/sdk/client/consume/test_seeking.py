"""A consumer that is sent to another offset, and offsets that are asked for."""

from __future__ import annotations

from typing import Any

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


def test_seek_drops_what_was_fetched(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            await consumer.getmany(max_records=1)
            consumer.seek(P0, 4)
            assert values(await consumer.getmany()) == [b"4"]
            consumer.seek((TOPIC, 0), 1)
            assert values(await consumer.getmany(max_records=1)) == [b"1"], "in the middle of a batch"
            await consumer.seek_to_end()
            assert await consumer.position(P0) == 5
            await consumer.seek_to_beginning(P0)
            assert values(await consumer.getmany(max_records=1)) == [b"0"]
            with pytest.raises(errors.OffsetOutOfRangeError):
                consumer.seek(P0, -5)
            with pytest.raises(errors.IllegalStateError):
                consumer.seek(P1, 0)

    cluster.run(work)


def test_offsets_are_told_of_partitions_that_are_not_read(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            assert await consumer.beginning_offsets([P0, P1]) == {P0: 0, P1: 0}
            assert await consumer.end_offsets([P0, P1]) == {P0: 5, P1: 1}
            assert consumer.assignment() == []

    cluster.run(work)


@pytest.mark.parametrize("time", [-1, -2, -3, 1 << 63, 1.5, "7", None, True])
def test_a_time_that_is_none_is_refused_and_asks_for_no_end_of_the_log(cluster: FakeCluster, time: Any) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer() as consumer:
            with pytest.raises(errors.ConfigError, match="`time` is a whole number from 0"):
                await consumer.offsets_for_times({P0: time})

    cluster.run(work)
