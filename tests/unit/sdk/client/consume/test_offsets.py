"""Offsets belong to the topic that they were read from, also when another one has its name by the time they are committed."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.client.consume.offsets import OffsetAndMetadata
from oncelog.types import TopicPartition
from tests.unit.sdk.client.consume.grouped import group_of, hear
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


def test_offsets_know_which_topic_they_were_read_from(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client) as consumer:
            records = await consumer.getmany()
            assert records.offsets == {P0: OffsetAndMetadata(2, 0, topic_id=TOPIC_ID)}
            await consumer.commit(records.offsets)
            assert await consumer.committed(P0) == {P0: OffsetAndMetadata(2, 0, topic_id=TOPIC_ID)}

    cluster.run(work)
    assert cluster.offsets == {(TOPIC_ID, 0): 2}


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
