"""Rows as Arrow, and ranges of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from oncelog import errors
from oncelog.client.consume.consumer import Consumer
from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


@pytest.mark.parametrize(("start", "end"), [(0, 5), (1, 4), (2, 3), (3, 5), (5, 5)])
def test_a_range_is_read_exactly(cluster: FakeCluster, start: int, end: int) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            parts = [rows async for rows in consumer.read_range(P0, start, end, include_headers=True)]
            offsets = [offset for rows in parts for offset in rows.column("offset").to_pylist()]
            assert offsets == list(range(start, end))

    cluster.run(work)


def test_a_range_in_which_nothing_comes_says_where_it_stands(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            with pytest.raises(errors.RequestTimedOutError, match="no records for 500 ms"):
                async for _rows in consumer.read_range(P0, 3, 9, timeout_ms=500):
                    pass
            assert await consumer.position(P0) == 5

    cluster.run(work)


def test_rows_come_batch_by_batch_and_then_none(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            found = [offset async for offset in offsets(consumer)]
            assert found == list(range(5))

    cluster.run(work)


async def offsets(consumer: Consumer) -> AsyncIterator[int]:
    """Of all rows that are there."""
    while (rows := await consumer.read_arrow(200)) is not None:
        for offset in rows.column("offset").to_pylist():
            yield offset
