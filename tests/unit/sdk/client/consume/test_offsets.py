"""Offsets belong to the topic that they were read from, also when another one has its name by the time they are committed."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.consume.consumer import Consumer
from oncelog.client.consume.offsets import OffsetAndMetadata
from oncelog.types import TopicPartition
from tests.unit.sdk.client.consume.test_following import append, read
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster

P0 = TopicPartition(TOPIC, 0)
AT_ONCE_MS = 1
"""What is known of topics is asked for again whenever it is needed."""


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    append(cluster, 0, b"old", b"old too")
    return cluster


def group_of(client: Client, **options: Any) -> Consumer:
    return client.consumer(TOPIC, group_id="g", auto_offset_reset="earliest", **options)


async def hear(client: Client) -> None:
    """The client asks what topics there are."""
    await client._metadata.refresh(client._context.deadline_ms())


async def first_value(cluster: FakeCluster) -> bytes:
    """What a new consumer of the group begins with."""
    async with cluster.client() as client, group_of(client) as consumer:
        return (await read(consumer, 1))[0]


def test_offsets_know_which_topic_they_were_read_from(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client) as consumer:
            records = await consumer.getmany()
            assert records.offsets == {P0: OffsetAndMetadata(2, 0, topic_id=TOPIC_ID)}
            await consumer.commit(records.offsets)
            assert await consumer.committed(P0) == {P0: OffsetAndMetadata(2, 0, topic_id=TOPIC_ID)}

    cluster.run(work)
    assert cluster.offsets == {(TOPIC_ID, 0): 2}


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


def test_news_that_come_while_positions_are_committed_do_not_make_them_the_new_topics(cluster: FakeCluster) -> None:
    """The position was judged by what memory knew, and sent with the id that was asked for afterwards."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client(metadata_max_age_ms=AT_ONCE_MS) as client, group_of(client) as consumer:
            await read(consumer, 2)
            await asyncio.sleep(0.1)
            new_id = cluster.create_again()
            await consumer.commit()
            assert client._metadata.newer_topic(TOPIC, TOPIC_ID) is not None, "the commit asked"
            assert (new_id, 0) not in cluster.offsets

    cluster.run(work)


def test_an_offset_that_was_written_by_hand_is_one_of_the_topic_of_today(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client) as consumer:
            await consumer.getmany()
            new_id = cluster.create_again()
            await hear(client)
            await consumer.commit({P0: 7, (TOPIC, 1): OffsetAndMetadata(8, metadata="mine")})
            assert cluster.offsets == {(new_id, 0): 7, (new_id, 1): 8}

    cluster.run(work)


def test_a_transaction_refuses_offsets_of_a_topic_that_was_created_again_and_cannot_commit_without_them(
    cluster: FakeCluster,
) -> None:
    async def work(_: FakeCluster) -> None:
        async with (
            cluster.client() as client,
            group_of(client) as consumer,
            client.producer(transactional_id="t") as producer,
        ):
            records = await consumer.getmany()
            cluster.create_again()
            await hear(client)
            txn = await producer.begin_transaction()
            with pytest.raises(errors.UnknownTopicError, match=r"deleted and created again: .*; abort, and go on"):
                await txn.send_offsets(records)
            with pytest.raises(errors.UnknownTopicError, match="created again"):
                await txn.commit()
            await txn.abort()

    cluster.run(work)
    assert cluster.count("SendOffsets") == 0


def test_another_client_that_knows_only_the_old_topic_asks_before_it_refuses_offsets_of_the_new_one(
    cluster: FakeCluster,
) -> None:
    async def work(_: FakeCluster) -> None:
        async with (
            cluster.client() as late,
            cluster.client() as client,
            late.producer(transactional_id="t") as producer,
        ):
            await late._metadata.topic(TOPIC, late._context.deadline_ms())
            cluster.fall_behind(BROKERS[0])  # and one of those whom it asks
            new_id = cluster.create_again()
            append(cluster, 0, b"new")
            cluster.behind, behind = {}, cluster.behind
            async with group_of(client) as consumer:
                records = await consumer.getmany()
            cluster.behind = behind
            async with producer.transaction() as txn:
                await txn.send_offsets(records)
            (sent,) = [request for _, method, request in cluster.calls if method.endswith("SendOffsets")]
            assert [(o.topic_id, o.offset) for o in sent.offsets] == [(new_id, 1)]

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
            assert await consumer.committed() == {P0: OffsetAndMetadata(1, 0, topic_id=new_id)}
            cluster.topic_exists = False
            client._metadata.forget(TOPIC)
            assert set(await consumer.committed()) == {P0}, "of a topic that is gone nobody can be wrong"

    cluster.run(work)


def test_nobody_moves_a_group_to_an_offset_of_an_earlier_topic(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await client.admin.set_group_offsets("g", {P0: OffsetAndMetadata(2, topic_id=TOPIC_ID)})
            cluster.create_again()
            await hear(client)
            with pytest.raises(errors.UnknownTopicError, match="created again"):
                await client.admin.set_group_offsets("g", {P0: OffsetAndMetadata(1, topic_id=TOPIC_ID), (TOPIC, 1): 1})

    cluster.run(work)
    assert cluster.offsets == {(TOPIC_ID, 0): 2}


def test_the_grace_of_a_topic_that_was_created_again_is_spent_once_for_all_its_partitions() -> None:
    wide = FakeCluster(partitions=20)

    async def work(_: FakeCluster) -> None:
        async with wide.client() as client, group_of(client) as consumer:
            old_id = wide.topic_id
            new_id = wide.create_again()
            await hear(client)
            begun = wide.loop.time()
            old = {TopicPartition(TOPIC, i): OffsetAndMetadata(1, topic_id=old_id) for i in range(19)}
            await consumer.commit(old | {TopicPartition(TOPIC, 19): OffsetAndMetadata(1)})
            assert wide.loop.time() - begun < 1.1
            assert wide.offsets == {(new_id, 19): 1}

    wide.run(work)


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
