"""Records that a thread takes by itself: each one once, and none after the end."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.sdk.client.fake_cluster import LATENCY_S, TOPIC, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


def test_a_batch_that_is_handed_out_during_an_assign_ends_with_it(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            await consumer.getmany(max_records=1)
            number = cluster.add_partition()
            assigning = asyncio.get_running_loop().create_task(consumer.assign([P0, (TOPIC, number)]))
            await asyncio.sleep(LATENCY_S / 2)
            record, handout = await consumer.hand_out(1_000)
            assert record is not None
            assert handout is not None
            assert record.offset == 1
            assert not assigning.done()
            await assigning
            assert handout.next() is None
            assert await consumer.position(P0) == 2
            assert values(await consumer.getmany()) == [b"2", b"3", b"4"]

    cluster.run(work)
