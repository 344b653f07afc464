"""Positions that are committed before the records are returned, and what happens when that commit fails."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.client.client import Client
from tests.unit.sdk.client.consume.group.test_group_reading import in_group
from tests.unit.sdk.client.consume.grouped import group_of
from tests.unit.sdk.client.consume.scripted_group import ScriptedGroup
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster, Lost
from tests.unit.sdk.client.reading import EARLIEST, P0, append, values

ON = {**EARLIEST, "group_id": "g", "delivery": "at_most_once"}


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster(partitions=1)
    append(made, [b"0", b"1", b"2"])
    return made


def test_what_a_read_returns_is_committed_and_nothing_beyond_it(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, **ON) as consumer:
            assert values(await consumer.getmany(max_records=2)) == [b"0", b"1"]
            assert cluster.offsets == {(TOPIC_ID, 0): 2}
            assert (await anext(consumer)).value == b"2"
            assert cluster.offsets == {(TOPIC_ID, 0): 3}
            assert not await consumer.getmany(timeout_ms=100)
        assert cluster.count("CommitOffsets") == 2, "an empty read and a close commit nothing"

    cluster.run(work)


def test_each_record_of_a_loop_is_committed_before_it_comes(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, **ON) as consumer:
            async for record in consumer:
                assert cluster.offsets == {(TOPIC_ID, 0): record.offset + 1}
                if record.offset == 2:
                    break

    cluster.run(work)


def test_arrow_rows_are_committed_before_they_come(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, **ON) as consumer:
            rows = await consumer.read_arrow()
            assert rows is not None
            assert cluster.offsets == {(TOPIC_ID, 0): rows.num_rows}

    cluster.run(work)


def test_a_read_whose_commit_is_refused_returns_nothing_and_the_next_one_everything(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        cluster.fail("CommitOffsets", errors.GroupAuthorizationError("no READ on the group"))
        async with cluster.client() as client, group_of(client, **ON) as consumer:
            with pytest.raises(errors.GroupAuthorizationError):
                await consumer.getmany(max_records=2)
            assert (await consumer.position(P0), cluster.offsets) == (0, {})
            assert values(await consumer.getmany(5_000, max_records=2)) == [b"0", b"1"]
            assert cluster.offsets == {(TOPIC_ID, 0): 2}

    cluster.run(work)


def test_a_read_that_is_cancelled_under_its_commit_is_read_again_once(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        cluster.fail("CommitOffsets", Lost())
        async with cluster.client() as client, group_of(client, **ON) as consumer:
            reading = asyncio.ensure_future(consumer.getmany())
            while not cluster.count("CommitOffsets"):
                await cluster.pause()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert values(await consumer.getmany(timeout_ms=5_000)) == [b"0", b"1", b"2"]

    cluster.run(work)


def test_a_seek_during_the_commit_counts_and_is_not_undone(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, **ON) as consumer:

            def seek_and_refuse(*_: object) -> errors.OncelogError:
                consumer.seek(P0, 2)
                return errors.GroupAuthorizationError("no READ on the group")

            cluster.fail("CommitOffsets", seek_and_refuse)
            with pytest.raises(errors.GroupAuthorizationError):
                await consumer.getmany()
            assert values(await consumer.getmany(timeout_ms=5_000)) == [b"2"]

    cluster.run(work)


def test_two_reads_at_once_never_return_a_record_twice(cluster: FakeCluster) -> None:
    """The first commit is refused while the second read waits for its turn."""

    async def work(_: FakeCluster) -> None:
        cluster.fail("CommitOffsets", errors.GroupAuthorizationError("no READ on the group"))
        async with cluster.client() as client, group_of(client, **ON) as consumer:
            await consumer.start()
            reads = [asyncio.ensure_future(consumer.getmany(2_000, 2)) for _ in range(2)]
            ended = await asyncio.gather(*reads, return_exceptions=True)
            returned = [values(records) for records in ended if not isinstance(records, BaseException)]
            assert returned == [[b"0", b"1"]]
            assert values(await consumer.getmany(timeout_ms=5_000)) == [b"2"]

    cluster.run(work)


def test_a_partition_that_is_lost_during_the_commit_is_not_taken_back(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with client.consumer(**ON) as consumer:
            consumer.subscribe(TOPIC)
            cluster.fail("CommitOffsets", Lost())
            reading = asyncio.ensure_future(consumer.getmany(max_records=1))
            while not cluster.count("CommitOffsets"):
                await cluster.pause()
            group.assigned = ()
            await group.fence()
            while consumer.assignment():
                await cluster.pause()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert not await consumer.getmany(timeout_ms=500)


def test_without_the_preset_a_read_commits_nothing(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, **{**ON, "delivery": ""}) as consumer:
            await consumer.getmany()
        assert cluster.offsets == {}

    cluster.run(work)
