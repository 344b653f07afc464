"""Partitions that are added and topics that are created again, under running consumers and producers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pyarrow as pa
import pytest

from oncelog import errors
from oncelog.client.routing.metadata import _UNKNOWN_TOPIC_GRACE_MS
from oncelog.core.batch.batch import encode_batch
from oncelog.types import PartitionId, TopicPartition
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster

AGE_MS = 1_000
SOON: dict[str, Any] = {"metadata_max_age_ms": AGE_MS}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(partitions=1)


def append(cluster: FakeCluster, partition: int, *values: bytes) -> None:
    batch = encode_batch(
        [None] * len(values),
        list(values),
        timestamps_ms=[5] * len(values),
        topic_id=cluster.topic_id,
        partition=partition,
    )
    cluster.logs[PartitionId(cluster.topic_id, partition)].append(batch)


async def read(consumer: Any, count: int) -> list[bytes]:
    """So many values, within ten seconds."""
    found: list[bytes] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            found += [record.value for record in await consumer.getmany(timeout_ms=200)]
    return found


# ---------------------------------------------------------------- consumers and added partitions


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_a_running_consumer_of_a_topic_reads_an_added_partition_from_its_first_record(
    cluster: FakeCluster, reset: str
) -> None:
    """Regression: records of added partitions were not read until the next start, in silence."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.consumer(TOPIC, auto_offset_reset=reset) as consumer:
            consumer.seek((TOPIC, 0), 0)
            append(cluster, 0, b"a")
            assert await read(consumer, 1) == [b"a"]
            append(cluster, cluster.add_partition(), b"b", b"c")
            started = cluster.loop.time()
            assert await read(consumer, 2) == [b"b", b"c"]
            assert cluster.loop.time() - started < 2 * AGE_MS / 1000
            assert consumer.assignment() == [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]

    cluster.run(work)


def test_one_long_wait_is_enough_to_find_an_added_partition(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.consumer(TOPIC) as consumer:
            waiting = asyncio.ensure_future(consumer.getmany())
            await asyncio.sleep(0.1)
            append(cluster, cluster.add_partition(), b"b")
            async with asyncio.timeout(5):
                assert [record.value for record in await waiting] == [b"b"]

    cluster.run(work)


def test_an_added_partition_is_read_as_arrow_too(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.consumer(TOPIC) as consumer:
            waiting = asyncio.ensure_future(consumer.read_arrow())
            await asyncio.sleep(0.1)
            append(cluster, cluster.add_partition(), b"b")
            async with asyncio.timeout(5):
                assert (await waiting).column("value").to_pylist() == [b"b"]

    cluster.run(work)


def test_an_added_partition_begins_where_its_group_stands(cluster: FakeCluster) -> None:
    cluster.offsets[cluster.topic_id, 1] = 1

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.consumer(group_id="g") as consumer:
            await consumer.assign_topics(TOPIC)
            await consumer.getmany(timeout_ms=100)
            append(cluster, cluster.add_partition(), b"done", b"not done")
            assert await read(consumer, 1) == [b"not done"]

    cluster.run(work)


def test_who_assigns_partitions_by_number_gets_no_others(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign([(TOPIC, 0)])
            append(cluster, cluster.add_partition(), b"b")
            assert await consumer.getmany(timeout_ms=5 * AGE_MS) == []

    cluster.run(work)


# ---------------------------------------------------------------- who names a partition that was just added


def test_a_partition_that_another_process_added_can_be_assigned_and_written_at_once(cluster: FakeCluster) -> None:

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer, client.consumer() as consumer:
            await producer.send_and_wait(TOPIC, b"0", partition=0)
            cluster.add_partition()
            assert (await producer.send_and_wait(TOPIC, b"1", partition=1)).partition == 1
            cluster.add_partition()
            await (await producer.send_batch(TOPIC, pa.record_batch({"value": [b"2"]}), partition=2))
            cluster.add_partition()
            rows = pa.record_batch({"value": [b"3"], "partition": pa.array([3], pa.int32())})
            await (await producer.send_batch(TOPIC, rows))
            number = cluster.add_partition()
            await consumer.assign([(TOPIC, number)])
            consumer.seek((TOPIC, number), 0)
            append(cluster, number, b"4")
            assert await read(consumer, 1) == [b"4"]

    cluster.run(work)
    assert [cluster.values(i) for i in range(4)] == [[b"%d" % i] for i in range(4)]


def test_a_partition_that_is_not_there_is_asked_for_and_then_refused(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer, client.consumer() as consumer:
            await producer.send_and_wait(TOPIC, b"0", partition=0)
            for attempt in (producer.send(TOPIC, b"1", partition=7), consumer.assign([(TOPIC, 7)])):
                started, asked = cluster.loop.time(), cluster.count("GetMetadata")
                with pytest.raises(errors.UnknownTopicError, match="has the partitions 0 to 0"):
                    await attempt
                assert cluster.count("GetMetadata") > asked
                assert cluster.loop.time() - started <= _UNKNOWN_TOPIC_GRACE_MS / 1000 + 0.1
            asked = cluster.count("GetMetadata")
            with pytest.raises(errors.UnknownTopicError):
                await producer.send(TOPIC, b"1", partition=-1)
            assert cluster.count("GetMetadata") == asked, "nobody adds a negative one"
            rows = pa.record_batch({"value": [b"3"], "partition": pa.array([3], pa.int32())})
            with pytest.raises(errors.InvalidRecordError, match="does not have"):
                await producer.send_batch(TOPIC, rows)

    cluster.run(work)


def test_keys_use_added_partitions_within_the_age_of_metadata(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.producer() as producer:
            await producer.send_and_wait(TOPIC, b"v", key=b"0")
            cluster.add_partition()
            await asyncio.sleep(AGE_MS / 1000 + 0.1)
            for number in range(20):
                await producer.send_and_wait(TOPIC, b"v", key=b"%d" % number)

    cluster.run(work)
    assert cluster.values(1)


# ---------------------------------------------------------------- topics that are created again


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("is_whole", [True, False], ids=["topic", "partition"])
def test_a_topic_that_was_created_again_is_read_from_its_first_record(
    cluster: FakeCluster, reset: str, is_whole: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: it said "does not exist; create it with ..." for as long as it ran."""

    async def work(_: FakeCluster) -> None:
        async with (
            cluster.client(default_api_timeout_ms=2_000) as client,
            client.consumer(auto_offset_reset=reset) as consumer,
        ):
            await (consumer.assign_topics(TOPIC) if is_whole else consumer.assign([(TOPIC, 0)]))
            consumer.seek((TOPIC, 0), 0)
            append(cluster, 0, b"old", b"old too")
            assert await read(consumer, 2) == [b"old", b"old too"]
            cluster.create_again()
            append(cluster, 0, b"new")
            with caplog.at_level(logging.WARNING):
                assert await read(consumer, 1) == [b"new"]
            assert await consumer.position((TOPIC, 0)) == 1

    cluster.run(work)
    assert "was deleted and created again" in caplog.text


def test_a_topic_that_is_away_for_a_while_is_found_again(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(default_api_timeout_ms=2_000) as client, client.consumer(TOPIC) as consumer:
            await consumer.getmany(timeout_ms=100)
            cluster.topic_exists = False
            with pytest.raises(errors.UnknownTopicError, match="does not exist"):
                await consumer.getmany(timeout_ms=5_000)
            cluster.topic_exists = True
            cluster.create_again()
            append(cluster, 0, b"new")
            found: list[bytes] = []
            async with asyncio.timeout(10):
                while not found:
                    with contextlib.suppress(errors.UnknownTopicError):  # it may be told once more
                        found += await read(consumer, 1)
            assert found == [b"new"]

    cluster.run(work)


def test_what_was_fetched_of_the_old_topic_is_not_committed_for_the_new_one(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "group_id": "g", "max_poll_records": 1}
        async with cluster.client(**SOON) as client, client.consumer(**options) as consumer:
            await consumer.assign_topics(TOPIC)
            append(cluster, 0, b"0", b"1", b"2")
            assert await read(consumer, 1) == [b"0"]
            cluster.create_again()
            await client._metadata.refresh(client._context.deadline_ms())
            await consumer.commit()
            assert cluster.offsets == {}, "the position is the old topic's"
            append(cluster, 0, b"new")
            assert await read(consumer, 1) == [b"new"]
            await consumer.commit()

    cluster.run(work)
    assert cluster.offsets == {(cluster.topic_id, 0): 1}


def test_a_paused_partition_stays_paused_when_its_topic_is_created_again(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
            await consumer.getmany(timeout_ms=100)
            consumer.pause((TOPIC, 0))
            cluster.create_again()
            append(cluster, 0, b"new")
            assert await consumer.getmany(timeout_ms=5 * AGE_MS) == []
            consumer.resume((TOPIC, 0))
            assert await read(consumer, 1) == [b"new"]

    cluster.run(work)


def test_who_may_not_be_reset_is_told_that_the_topic_was_created_again(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.consumer(TOPIC, auto_offset_reset="none") as consumer:
            consumer.seek((TOPIC, 0), 0)
            append(cluster, 0, b"old")
            assert await read(consumer, 1) == [b"old"]
            cluster.create_again()
            append(cluster, 0, b"new")
            with pytest.raises(errors.UnknownTopicError, match="created again"):
                await consumer.getmany(timeout_ms=5_000)
            with pytest.raises(errors.OffsetOutOfRangeError, match="seek first"):
                await consumer.getmany(timeout_ms=5_000)
            consumer.seek((TOPIC, 0), 0)
            assert await read(consumer, 1) == [b"new"]

    cluster.run(work)


def test_a_range_of_the_old_topic_is_not_filled_from_the_new_one(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.consumer(auto_offset_reset="earliest") as consumer:
            append(cluster, 0, b"old")
            rows = consumer.read_range((TOPIC, 0), 0, 3)
            assert (await anext(rows)).column("value").to_pylist() == [b"old"]
            cluster.create_again()
            append(cluster, 0, b"new", b"new", b"new")
            with pytest.raises(errors.UnknownTopicError, match="created again"):
                await anext(rows)

    cluster.run(work)


def test_a_range_is_read_from_the_topic_that_was_meant_or_not_at_all(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer() as consumer:
            append(cluster, 0, b"old")
            old_id = cluster.topic_id
            rows = consumer.read_range((TOPIC, 0), 0, 1, topic_id=old_id)
            assert (await anext(rows)).column("value").to_pylist() == [b"old"]
            new_id = cluster.create_again()
            append(cluster, 0, b"new")
            rows = consumer.read_range((TOPIC, 0), 0, 1, topic_id=new_id)  # of which this client has not heard
            assert (await anext(rows)).column("value").to_pylist() == [b"new"]
            with pytest.raises(errors.UnknownTopicError, match="created again"):
                await anext(consumer.read_range((TOPIC, 0), 0, 1, topic_id=old_id))

    cluster.run(work)


def test_a_partition_that_the_new_topic_lacks_is_named(cluster: FakeCluster) -> None:
    cluster.add_partition()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign([(TOPIC, 0), (TOPIC, 1)])
            await consumer.getmany(timeout_ms=100)
            cluster.create_again()
            del cluster.leaders[1]
            with pytest.raises(errors.UnknownTopicError, match="has the partitions 0 to 0"):
                await consumer.getmany(timeout_ms=5_000)
            append(cluster, 0, b"new")
            assert await read(consumer, 1) == [b"new"]

    cluster.run(work)


def created_again_with_one_partition(cluster: FakeCluster) -> None:
    cluster.create_again()
    del cluster.leaders[1]


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_a_partition_that_was_assigned_by_number_comes_back_when_the_topic_has_it_again(
    cluster: FakeCluster, reset: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add_partition()

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.consumer(auto_offset_reset=reset) as consumer:
            await consumer.assign([(TOPIC, 1)])
            consumer.seek((TOPIC, 1), 0)
            append(cluster, 1, b"old")
            assert await read(consumer, 1) == [b"old"]
            created_again_with_one_partition(cluster)
            with pytest.raises(errors.UnknownTopicError, match="has the partitions 0 to 0"):
                await consumer.getmany(timeout_ms=5 * AGE_MS)
            assert await consumer.getmany(timeout_ms=5 * AGE_MS) == [], "told once"
            append(cluster, cluster.add_partition(), b"new", b"new too")
            started = cluster.loop.time()
            assert await read(consumer, 2) == [b"new", b"new too"]
            assert cluster.loop.time() - started < 2 * AGE_MS / 1000
            assert consumer.assignment() == [TopicPartition(TOPIC, 1)]

    with caplog.at_level(logging.WARNING):
        cluster.run(work)
    told = [record.message for record in caplog.records if "is read again when" in record.message]
    assert told == [
        "topic orders has only the partitions 0 to 0 now: partition 1 is read again when the topic has it again"
    ]


@pytest.mark.parametrize("is_whole", [True, False], ids=["topic", "partitions"])
def test_a_missing_partition_that_was_paused_comes_back_paused(cluster: FakeCluster, is_whole: bool) -> None:
    cluster.add_partition()

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.consumer(auto_offset_reset="earliest") as consumer:
            await (consumer.assign_topics(TOPIC) if is_whole else consumer.assign([(TOPIC, 0), (TOPIC, 1)]))
            await consumer.getmany(timeout_ms=100)
            consumer.pause((TOPIC, 1))
            created_again_with_one_partition(cluster)
            with contextlib.nullcontext() if is_whole else pytest.raises(errors.UnknownTopicError):
                await consumer.getmany(timeout_ms=3 * AGE_MS)
            append(cluster, cluster.add_partition(), b"new")
            assert await consumer.getmany(timeout_ms=3 * AGE_MS) == []
            consumer.resume((TOPIC, 1))
            assert await read(consumer, 1) == [b"new"]

    cluster.run(work)


def test_a_new_assignment_forgets_what_is_missing(cluster: FakeCluster) -> None:
    cluster.add_partition()

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**SOON) as client, client.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign([(TOPIC, 0), (TOPIC, 1)])
            await consumer.getmany(timeout_ms=100)
            created_again_with_one_partition(cluster)
            with pytest.raises(errors.UnknownTopicError):
                await consumer.getmany(timeout_ms=5 * AGE_MS)
            await consumer.assign([(TOPIC, 0)])
            append(cluster, cluster.add_partition(), b"new")
            assert await consumer.getmany(timeout_ms=5 * AGE_MS) == []
            assert consumer.assignment() == [TopicPartition(TOPIC, 0)]

    cluster.run(work)
