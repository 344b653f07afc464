"""A group keeps the offsets that one consumer commits, each of the topic that it was read from."""

from __future__ import annotations

import pytest

from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


def test_a_group_goes_on_where_it_committed(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            async with client.consumer(group_id="g", **EARLIEST) as consumer:
                await consumer.assign([P0])
                await consumer.getmany(max_records=3)
                assert await consumer.committed(P0) == {P0: None}
                await consumer.commit()
                await consumer.getmany()
            async with client.consumer(group_id="g", **EARLIEST) as again:
                await again.assign([P0])
                batch = await again.getmany()
                assert values(batch) == [b"3", b"4"]
                assert batch.group is not None
                await again.commit({P0: 1})
                assert (await again.committed(P0))[P0].offset == 1  # type: ignore[union-attr]

    cluster.run(work)
