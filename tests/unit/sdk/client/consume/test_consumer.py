"""The consumer against a scripted cluster: positions, isolation, errors, Arrow, committed offsets."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.consume.consumer import Consumer
from oncelog.core.batch.batch import encode_batch
from oncelog.types import PartitionId
from oncelog.v1 import types_pb2
from tests.unit.sdk.client.fake_cluster import BROKERS, LATENCY_S, TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, P1, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


def test_all_partitions_of_a_topic_are_read_from_the_beginning(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(TOPIC, **EARLIEST) as consumer:
            assert consumer.assignment() == [P0, P1]
            found = []
            while len(found) < 6:
                found += await consumer.getmany(timeout_ms=1_000)
            assert [(r.offset, r.value) for r in found if r.partition == 0] == [(i, b"%d" % i) for i in range(5)]
            assert await consumer.position(P0) == 5
            assert await consumer.getmany(timeout_ms=100) == []

    cluster.run(work)


def test_a_list_is_bounded_and_the_position_is_what_was_returned(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            first = await consumer.getmany(max_records=2)
            assert values(first) == [b"0", b"1"]
            assert first.offsets[P0].offset == 2
            assert await consumer.position(P0) == 2
            assert values(await consumer.getmany(max_records=2)) == [b"2", b"3"]
            record = await consumer.getone()
            assert record is not None
            assert (record.offset, record.timestamp_ms) == (4, 5)

    cluster.run(work)


def test_a_long_poll_ends_when_something_arrives(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(fetch_max_wait_ms=60_000) as consumer:
            await consumer.assign([P0])
            assert await consumer.position(P0) == 5, "latest is the default"
            waiting = asyncio.get_running_loop().create_task(consumer.getmany())
            await asyncio.sleep(0.5)
            append(cluster, [b"new"])
            assert values(await waiting) == [b"new"]
            assert cluster.loop.time() < 1.0

    cluster.run(work)


def test_seek_drops_what_was_fetched(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            await consumer.getmany(max_records=1)
            consumer.seek(P0, 4)
            assert values(await consumer.getmany()) == [b"4"]
            consumer.seek((TOPIC, 0), 1)
            assert values(await consumer.getmany(max_records=1)) == [b"1"], "in the middle of a batch"
            await consumer.seek_to_end()
            assert await consumer.position(P0) == 5
            await consumer.seek_to_beginning(P0)
            assert values(await consumer.getmany(max_records=1)) == [b"0"]
            with pytest.raises(errors.OffsetOutOfRangeError):
                consumer.seek(P0, -5)
            with pytest.raises(errors.IllegalStateError):
                consumer.seek(P1, 0)

    cluster.run(work)


def test_pause_and_resume(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(TOPIC, **EARLIEST) as consumer:
            consumer.pause(P0)
            assert values(await consumer.getmany(timeout_ms=200)) == [b"x"]
            assert await consumer.getmany(timeout_ms=200) == []
            consumer.resume(P0)
            assert len(await consumer.getmany(timeout_ms=1_000)) == 5

    cluster.run(work)


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


def test_a_new_leader_is_followed(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert len(await consumer.getmany()) == 5
            cluster.leaders[0], cluster.epochs[0] = BROKERS[1], 1
            append(cluster, [b"after"])
            assert values(await consumer.getmany(timeout_ms=2_000)) == [b"after"]

    cluster.run(work)


@pytest.mark.parametrize("fault", [errors.NetworkError(), errors.NetworkError(refused="true"), errors.StorageError()])
def test_passing_faults_are_not_seen(cluster: FakeCluster, fault: errors.OncelogError) -> None:
    cluster.fail("Fetch", fault, fault)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert len(await consumer.getmany(timeout_ms=2_000)) == 5

    cluster.run(work)


def test_an_offset_out_of_range_follows_the_rule(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            async with client.consumer(**EARLIEST) as consumer:
                await consumer.assign([P0])
                consumer.seek(P0, 1_000)
                assert len(await consumer.getmany(timeout_ms=2_000)) == 5
            async with client.consumer(auto_offset_reset="none") as strict:
                await strict.assign([P0])
                with pytest.raises(errors.OffsetOutOfRangeError):
                    await strict.getmany(timeout_ms=100)
                strict.seek(P0, 1_000)
                with pytest.raises(errors.OffsetOutOfRangeError):
                    await strict.getmany(timeout_ms=1_000)

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


@pytest.mark.parametrize(("start", "end"), [(0, 5), (1, 4), (2, 3), (3, 5), (5, 5)])
def test_a_range_is_read_exactly(cluster: FakeCluster, start: int, end: int) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            parts = [rows async for rows in consumer.read_range(P0, start, end, include_headers=True)]
            offsets = [offset for rows in parts for offset in rows.column("offset").to_pylist()]
            assert offsets == list(range(start, end))

    cluster.run(work)


def test_iteration_and_deserializers(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            found = []
            async for record in client.consumer(TOPIC, value_deserializer=lambda v: v.decode(), **EARLIEST):
                found.append(record.value)
                if len(found) == 6:
                    break
            assert sorted(found) == ["0", "1", "2", "3", "4", "x"]

    cluster.run(work)


async def read_on(consumer: Consumer, count: int) -> list[int]:
    """The offsets of the next `count` records of `async for`."""
    return [(await anext(consumer)).offset for _ in range(count)]


def test_iteration_keeps_the_position_behind_each_record(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            for offset in range(5):
                assert await read_on(consumer, 1) == [offset]
                assert await consumer.position(P0) == offset + 1
            append(cluster, [b"5", b"6", b"7"])
            assert await read_on(consumer, 1) == [5]
            assert values(await consumer.getmany(max_records=1)) == [b"6"]
            assert await read_on(consumer, 1) == [7]

    cluster.run(work)


def test_iteration_follows_a_seek_a_pause_and_the_end(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert await read_on(consumer, 1) == [0]
            consumer.seek(P0, 4)
            assert await read_on(consumer, 1) == [4]
            consumer.seek(P0, 0)
            assert await read_on(consumer, 1) == [0]
            consumer.pause(P0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(consumer), 1)
            consumer.resume(P0)
            assert await read_on(consumer, 1) == [1]
            await consumer.close()
            with pytest.raises(StopAsyncIteration):
                await anext(consumer)

    cluster.run(work)


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


def test_what_is_not_there_yet_says_so(cluster: FakeCluster) -> None:

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer() as consumer:
            with pytest.raises(errors.IllegalStateError, match="use assign"):
                consumer.subscribe(TOPIC)
            with pytest.raises(errors.IllegalStateError, match="group_id"):
                await consumer.commit()
            with pytest.raises(errors.UnknownTopicError):
                await consumer.assign([(TOPIC, 2)])
            with pytest.raises(errors.ConfigError):
                await consumer.assign(["orders"])

    cluster.run(work)


def test_a_deleted_topic_is_an_error(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            await consumer.getmany()
            cluster.topic_exists = False
            cluster.fail("Fetch", *(errors.UnknownTopicError() for _ in range(20)))
            with pytest.raises(errors.UnknownTopicError):
                await consumer.getmany(timeout_ms=5_000)

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


@pytest.mark.parametrize("how", ["getmany", "getone", "read_arrow"])
def test_reading_starts_a_consumer_that_nobody_started(cluster: FakeCluster, how: str) -> None:
    """Regression: it was an empty list, or it never returned."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            consumer = client.consumer(TOPIC, **EARLIEST)
            assert await getattr(consumer, how)(timeout_ms=1_000)
            assert consumer.assignment() == [P0, P1]

    cluster.run(work)


def test_a_consumer_with_nothing_to_read_says_so_instead_of_waiting(cluster: FakeCluster) -> None:
    """Regression: `getmany()` without an assignment never returned."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer() as consumer:
            with pytest.raises(errors.IllegalStateError, match="nothing is assigned: give topics"):
                await consumer.getmany()
            await consumer.assign([P0])
            assert await consumer.getmany(timeout_ms=10) == []

    cluster.run(work)


def test_a_start_that_failed_is_made_again(cluster: FakeCluster) -> None:
    """Regression: after a first failure the consumer counted as started, and never read anything."""
    cluster.topic_exists = False

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            consumer = client.consumer(TOPIC, **EARLIEST)
            with pytest.raises(errors.UnknownTopicError):
                await consumer.getmany(timeout_ms=10)
            cluster.topic_exists = True
            assert await consumer.getmany(timeout_ms=1_000)

    cluster.run(work)


@pytest.mark.parametrize("how", ["getmany", "getone", "read_arrow"])
def test_a_wait_for_ever_does_not_turn_round_after_an_hour(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    waits: list[int] = []

    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {"fetch_max_wait_ms": 3_000_000}
        async with cluster.client(metadata_max_age_ms=3_000_000) as client, client.consumer(**options) as consumer:
            await consumer.assign([P0])
            assert await consumer.position(P0) == 0
            wait = consumer._fetcher.wait

            async def counted(timeout_ms: int) -> None:
                waits.append(timeout_ms)
                if len(waits) > 50:
                    await consumer.close()  # or this would never end
                await wait(timeout_ms)

            monkeypatch.setattr(consumer._fetcher, "wait", counted)
            monkeypatch.setattr("oncelog.client.consume.consumer._FOREVER_MS", 1_000)
            waiting = asyncio.get_running_loop().create_task(getattr(consumer, how)())
            await asyncio.sleep(10.5)
            append(cluster, [b"at last"])
            assert await waiting
            assert min(waits) > 0
            assert len(waits) < 15

    cluster.run(work)


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
