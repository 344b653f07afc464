"""Fetched bytes become records or Arrow rows: only what may be seen, unpacked when it is wanted, and a fault in its turn."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.batch.batch import encode_batch
from oncelog.types import PartitionId
from oncelog.v1 import types_pb2
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, P1, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


def test_read_committed_filters_by_name_and_winners(cluster: FakeCluster) -> None:
    for producer_id, txn_no, value in [(1, 5, b"aborted"), (1, 6, b"next"), (7, 8, b"winner"), (9, 8, b"loser")]:
        name = {"txn_producer_id": 1, "txn_no": txn_no, "txn_shard": 0}
        append(cluster, [value], 1, producer_id=producer_id, producer_epoch=0, base_sequence=0, **name)
    cluster.aborted = [
        types_pb2.AbortedTransaction(txn_producer_id=1, txn_no=5, all=True),
        types_pb2.AbortedTransaction(txn_producer_id=1, txn_no=8, winners=[7]),
    ]

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            async with client.consumer(**EARLIEST) as consumer:
                await consumer.assign([P1])
                assert values(await consumer.getmany()) == [b"x", b"next", b"winner"]
                assert await consumer.position(P1) == 5, "the position passes what is hidden"
                append(
                    cluster, [b"gone"], 1, producer_id=1, producer_epoch=1, base_sequence=0, txn_producer_id=1, txn_no=5
                )
                assert await consumer.getmany(timeout_ms=300) == []
                assert await consumer.position(P1) == 6
            async with client.consumer(isolation_level="read_uncommitted", **EARLIEST) as dirty:
                await dirty.assign([P1])
                assert len(await dirty.getmany()) == 6

    cluster.run(work)


def test_a_rotten_batch_is_an_error_of_its_partition_alone(cluster: FakeCluster) -> None:
    log = cluster.logs[PartitionId(TOPIC_ID, 0)]
    log.batches[1] = log.batches[1][:-1] + b"\xff"

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(TOPIC, **EARLIEST) as consumer:
            seen: list[bytes] = []
            raised = 0
            for _i in range(4):
                try:
                    seen += values(await consumer.getmany(timeout_ms=300))
                except errors.CorruptMessageError:
                    raised += 1
            assert sorted(seen) == [b"0", b"1", b"2", b"x"], "what lies before it, and the other partition"
            assert raised >= 2, "it is raised again, never passed over"
            consumer.seek(P0, 5)
            assert await consumer.getmany(timeout_ms=100) == []

    cluster.run(work)


def test_arrow_rows_carry_where_they_were(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            rows = await consumer.read_arrow(timeout_ms=1_000)
            assert rows.schema.names == ["key", "value", "timestamp", "partition", "offset", "topic"]
            assert rows.column("value").to_pylist() == [b"0", b"1", b"2", b"3", b"4"]
            assert rows.column("offset").to_pylist() == list(range(5))
            assert rows.column("topic").to_pylist() == [TOPIC] * 5
            assert rows.column("timestamp").cast("int64").to_pylist() == [5_000] * 5
            assert await consumer.read_arrow(timeout_ms=100) is None

    cluster.run(work)


ZEROS = bytes(4 << 20)


def append_bombs(cluster: FakeCluster, count: int) -> None:
    """Small on the way, 4 MiB each when they are unpacked."""
    bomb = encode_batch([None], [ZEROS], timestamps_ms=[5], topic_id=TOPIC_ID, partition=0, codec=2)
    assert len(bomb) < 4_096
    for _ in range(count):
        cluster.logs[PartitionId(TOPIC_ID, 0)].append(bomb)


def traced_peak(work: Any) -> Any:
    async def traced(cluster: FakeCluster) -> None:
        tracemalloc.start()
        try:
            await work(cluster)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 40 << 20, "not all 64 batches at once"

    return traced


def test_one_record_unpacks_one_batch_and_not_all_that_were_fetched() -> None:
    cluster = FakeCluster()
    append_bombs(cluster, 64)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            for offset in range(3):
                record = await consumer.getone()
                assert record is not None
                assert (record.offset, record.value) == (offset, ZEROS)
                assert await consumer.position(P0) == offset + 1
                del record

    cluster.run(traced_peak(work))


def test_a_list_of_records_ends_where_it_has_unpacked_enough() -> None:
    cluster = FakeCluster()
    append_bombs(cluster, 64)

    async def work(_: FakeCluster) -> None:
        small: dict[str, Any] = {**EARLIEST, "max_buffered_bytes": 10 << 20}
        async with cluster.client() as client, client.consumer(**small) as consumer:
            await consumer.assign([P0])
            assert len(await consumer.getmany()) == 3
            assert len(await consumer.getmany()) == 3
            rows = await consumer.read_arrow()
            assert (rows.num_rows, await consumer.position(P0)) == (3, 9)

    cluster.run(traced_peak(work))


def test_a_batch_that_unpacks_to_more_than_allowed_says_where_it_lies_and_can_be_passed() -> None:
    cluster = FakeCluster()
    append(cluster, [b"before"])
    append_bombs(cluster, 1)
    append(cluster, [b"after"])

    async def work(_: FakeCluster) -> None:
        small: dict[str, Any] = {**EARLIEST, "max_uncompressed_batch_bytes": 1 << 20}
        async with cluster.client() as client, client.consumer(**small) as consumer:
            await consumer.assign([P0])
            assert values(await consumer.getmany()) == [b"before"]
            with pytest.raises(errors.InvalidRecordError) as refusal:
                await consumer.getmany()
            assert (refusal.value.context["offset"], refusal.value.context["next_offset"]) == ("1", "2")
            with pytest.raises(errors.InvalidRecordError):
                await consumer.read_arrow()
            consumer.seek(P0, int(refusal.value.context["next_offset"]))
            assert values(await consumer.getmany()) == [b"after"]

    cluster.run(work)
