"""Where a consumer stands."""

from __future__ import annotations

import pytest

from oncelog import errors
from tests.unit.sdk.client.consume.grouped import group_of
from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, P1, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


def test_without_a_rule_for_a_start_the_reader_is_told(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(auto_offset_reset="none") as consumer:
            await consumer.assign([P0])
            with pytest.raises(errors.OffsetOutOfRangeError, match="seek first"):
                await consumer.position(P0)
            consumer.seek(P0, 2)
            assert await consumer.position(P0) == 2

    cluster.run(work)


@pytest.mark.parametrize(("reset", "position"), [("earliest", 0), ("latest", 5)])
def test_a_partition_without_a_position_begins_where_the_option_says(
    cluster: FakeCluster, reset: str, position: int
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(auto_offset_reset=reset) as consumer:
            await consumer.assign([P0])
            assert await consumer.position(P0) == position

    cluster.run(work)


def test_a_committed_offset_goes_before_the_option_until_it_is_out_of_range(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            async with group_of(client) as consumer:
                await consumer.commit({P0: 3, P1: 77})
            async with group_of(client) as consumer:
                assert await consumer.position(P0) == 3
                assert await consumer.position(P1) == 77
                assert await consumer.getone() is not None
                consumer.pause(P0)
                assert values(await consumer.getmany()) == [b"x"]

    cluster.run(work)


def test_a_commit_takes_known_positions_alone(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(group_id="g", **EARLIEST) as consumer:
            await consumer.assign([P0, P1])
            consumer.seek(P1, 1)
            await consumer.commit()
            at = await consumer.committed()
            assert {partition: found.offset for partition, found in at.items() if found is not None} == {P1: 1}

    cluster.run(work)
