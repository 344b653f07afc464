"""Rows and records of one consumer, and ranges of a topic that may be another one by now."""

from __future__ import annotations

import pytest

from oncelog import errors
from tests.unit.sdk.client.fake_cluster import TOPIC_ID, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    return made


def test_rows_go_on_where_records_ended(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert values(await consumer.getmany(max_records=2)) == [b"0", b"1"]
            rows = await consumer.read_arrow(timeout_ms=1_000)
            assert rows is not None
            assert rows.column("value").to_pylist()[0] == b"2"
            assert await consumer.position(P0) == 2 + rows.num_rows

    cluster.run(work)


def test_rows_come_without_an_end_until_the_consumer_is_closed(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            consumer = client.consumer(**EARLIEST)
            await consumer.assign([P0])
            found: list[int] = []
            async for rows in consumer.arrow_batches():
                found += rows.column("offset").to_pylist()
                if len(found) == 5:
                    await consumer.close()
            assert found == [0, 1, 2, 3, 4]

    cluster.run(work)


def test_a_range_is_of_the_topic_that_the_caller_knows(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            known = [rows async for rows in consumer.read_range(P0, 1, 3, topic_id=TOPIC_ID)]
            assert [offset for rows in known for offset in rows.column("offset").to_pylist()] == [1, 2]
            with pytest.raises(errors.UnknownTopicError):
                await anext(consumer.read_range(P0, 1, 3, topic_id="0b" * 16))

    cluster.run(work)
