"""Where a preset promises that no record is passed over, two tasks may not read from one consumer at once."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.types import TopicPartition
from tests.unit.sdk.client.consume.group.test_group_reading import in_group
from tests.unit.sdk.client.consume.grouped import group_of
from tests.unit.sdk.client.consume.scripted_group import ScriptedGroup
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("how", ["getmany", "getone", "__anext__", "read_arrow"])
def test_a_second_read_is_refused_and_the_first_one_goes_on(cluster: FakeCluster, delivery: str, how: str) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, delivery=delivery) as consumer:
            first = asyncio.ensure_future(consumer.getmany())
            await asyncio.sleep(1)
            with pytest.raises(errors.IllegalStateError, match="Give each task a consumer of its own"):
                await getattr(consumer, how)()
            append(cluster, [b"0", b"1"])
            assert values(await first) == [b"0", b"1"]
            append(cluster, [b"2"])
            assert values(await consumer.getmany()) == [b"2"]

    cluster.run(work)


def test_a_read_that_was_cancelled_is_over(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, delivery="at_least_once") as consumer:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.getmany(), 1)
            append(cluster, [b"0"])
            assert values(await consumer.getmany()) == [b"0"]

    cluster.run(work)


@pytest.mark.parametrize("delivery", ["", "at_most_once"])
def test_where_a_read_says_nothing_of_other_records_two_tasks_may_read(cluster: FakeCluster, delivery: str) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, delivery=delivery) as consumer:
            reads = [asyncio.ensure_future(consumer.getmany(max_records=1)) for _ in range(2)]
            await asyncio.sleep(1)
            append(cluster, [b"0", b"1"])
            found = [value for records in await asyncio.gather(*reads) for value in values(records)]
            assert sorted(found) == [b"0", b"1"]

    cluster.run(work)


def test_a_callback_that_reads_is_told_that_it_is_a_callback(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with client.consumer(group_id="g", delivery="at_least_once", **EARLIEST) as consumer:

            async def on_assigned(given: list[TopicPartition]) -> None:
                await consumer.getmany()

            consumer.subscribe(TOPIC, on_assigned=on_assigned)
            with pytest.raises(errors.IllegalStateError, match="a callback of subscribe may commit and seek"):
                await consumer.getmany()
