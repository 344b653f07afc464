"""A group keeps the offsets that one consumer commits, each of the topic that it was read from."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from oncelog.client.consume.offsets import OffsetAndMetadata
from oncelog.types import TopicPartition
from tests.unit.sdk.client.consume.grouped import first_value, group_of, hear
from tests.unit.sdk.client.consume.test_following import append
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, values


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    append(cluster, 0, b"old", b"old too")
    return cluster


def test_a_group_goes_on_where_it_committed() -> None:
    cluster = FakeCluster()
    append(cluster, 0, b"0", b"1", b"2", b"3", b"4")

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


def test_offsets_of_a_topic_that_was_created_again_are_left_out_with_a_warning(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client) as consumer:
            records = await consumer.getmany()
            new_id = cluster.create_again()
            append(cluster, 0, b"new", b"new too", b"the third")
            await hear(client)
            await consumer.commit(records.offsets | {TopicPartition(TOPIC, 1): OffsetAndMetadata(0)})
            assert cluster.offsets == {(new_id, 1): 0}
        assert await first_value(cluster) == b"new"

    with caplog.at_level(logging.WARNING):
        cluster.run(work)
    assert "the offset that was read of partition 0 of the old one is not committed" in caplog.text


def test_a_commit_of_nothing_but_such_offsets_asks_nobody(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client) as consumer:
            records = await consumer.getmany()
            cluster.create_again()
            await hear(client)
            await consumer.commit(records.offsets)

    cluster.run(work)
    assert cluster.count("CommitOffsets") == 0


def test_a_client_that_has_not_heard_of_the_new_topic_commits_for_the_old_one(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client) as consumer:
            records = await consumer.getmany()
            cluster.create_again()
            append(cluster, 0, b"new", b"new too", b"the third")
            await consumer.commit(records.offsets)
            assert cluster.offsets == {(TOPIC_ID, 0): 2}
        assert await first_value(cluster) == b"new"

    cluster.run(work)


def test_all_that_a_group_has_committed_leaves_out_what_it_had_of_an_earlier_topic(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client) as consumer:
            await consumer.commit((await consumer.getmany()).offsets)
            assert await consumer.committed() == {P0: OffsetAndMetadata(2, 0, topic_id=TOPIC_ID)}
            new_id = cluster.create_again()
            await hear(client)
            assert await consumer.committed() == {}
            cluster.offsets[new_id, 0] = 1
            assert await consumer.committed() == {P0: OffsetAndMetadata(1, topic_id=new_id)}
            cluster.topic_exists = False
            client._metadata.forget(TOPIC)
            assert set(await consumer.committed()) == {P0}, "of a topic that is gone nobody can be wrong"

    cluster.run(work)


def test_committed_offsets_of_many_deleted_topics_cost_one_grace(cluster: FakeCluster) -> None:
    def many(request: Any, reply: Any, payload: bytes) -> tuple[Any, bytes]:
        for i in range(20):
            reply.offsets.add(topic_id=f"{i:032x}", topic=f"gone-{i}", partition=0, offset=i)
        return reply, payload

    async def work(_: FakeCluster) -> None:
        cluster.lies["FetchOffsets"] = many
        async with cluster.client() as client, client.consumer(group_id="g") as consumer:
            begun = cluster.loop.time()
            found = await consumer.committed()
            assert len(found) == 20
            assert cluster.loop.time() - begun < 1.3

    cluster.run(work)
