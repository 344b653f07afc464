"""Fetched batches are kept ready: faults that pass are not seen, and what does not pass is told once."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.consume.fetcher import Fetcher
from oncelog.core.consume.consumer import Cursor
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, P1, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


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


def test_a_new_leader_is_followed(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert len(await consumer.getmany()) == 5
            cluster.leaders[0], cluster.epochs[0] = BROKERS[1], 1
            append(cluster, [b"after"])
            assert values(await consumer.getmany(timeout_ms=2_000)) == [b"after"]

    cluster.run(work)


def test_a_defect_that_one_partition_meets_as_it_is_asked_for_is_that_ones_alone(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Fetcher._source
    append(cluster, [b"other"], partition=1)

    def breaks_for_one(fetcher: Fetcher, cursor: Cursor, now: int) -> tuple[str, bool]:
        if cursor.partition == P0:
            raise ZeroDivisionError("a defect")
        return source(fetcher, cursor, now)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            monkeypatch.setattr(Fetcher, "_source", breaks_for_one)
            await consumer.assign([P0, P1])
            told: list[object] = []
            reads = 0
            while len(told) < 3 and reads < 10:  # a defect that is not told would be waited for without end
                reads += 1
                try:
                    told += values(await consumer.getmany(timeout_ms=60_000))
                except errors.IllegalStateError as error:
                    told.append(error.context["partition"])
            assert told in (["0", b"x", b"other"], [b"x", b"other", "0"])

    cluster.run(work)


@pytest.mark.parametrize("place", ["Fetcher._source", "Fetcher._request", "Fetcher._take", "check_extent"])
def test_a_defect_of_ours_is_told_to_the_reader_and_then_tried_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Else nothing asks for this partition any more, and the reader waits in vain."""

    def breaks(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            with monkeypatch.context() as patched:
                patched.setattr(f"oncelog.client.consume.fetcher.{place}", breaks)
                with pytest.raises(errors.IllegalStateError, match=r"report this.*ZeroDivisionError") as told:
                    await consumer.getmany(timeout_ms=60_000)
                assert told.value.context["partition"] == "0"
                assert isinstance(told.value.__cause__, ZeroDivisionError), "its traceback is what is reported"
                before = cluster.loop.time()
                with pytest.raises(errors.IllegalStateError):
                    await consumer.getmany(timeout_ms=60_000)
                assert cluster.loop.time() > before, "it is not tried again at once"
            assert len(await consumer.getmany(timeout_ms=60_000)) == 5

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


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_reader_goes_on_where_a_loss_begins(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, reset: str
) -> None:
    """The log has lost what was read from offset 3 on, and has other records there by now."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(auto_offset_reset=reset) as consumer:
            await consumer.assign([P0])
            consumer.seek(P0, 0)
            assert len(await consumer.getmany(timeout_ms=100)) == 5
            cluster.loses_from(3)
            assert values(await consumer.getmany(timeout_ms=2_000)) == [b"3", b"4"]
            append(cluster, [b"new"])
            assert values(await consumer.getmany(timeout_ms=2_000)) == [b"new"]
            assert await consumer.position(P0) == 6

    cluster.run(work)
    assert caplog.text.count("this reader does so now") == 1


def test_what_was_fetched_and_not_read_yet_is_fetched_again_after_a_loss(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert values(await consumer.getmany(100, 1)) == [b"0"]
            cluster.loses_from(3)
            await asyncio.sleep(2)
            found: list[bytes | None] = []
            for _ in range(4):
                found += values(await consumer.getmany(timeout_ms=500))
            assert found == [b"1", b"2", b"3", b"4"], "nothing is left out, and nothing comes twice"

    cluster.run(work)


def test_a_loss_is_an_error_for_a_reader_without_a_reset(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(auto_offset_reset="none") as consumer:
            await consumer.assign([P0])
            consumer.seek(P0, 0)
            await consumer.getmany(timeout_ms=100)
            cluster.loses_from(3)
            with pytest.raises(errors.OffsetOutOfRangeError) as lost:
                await consumer.getmany(timeout_ms=2_000)
            consumer.seek(P0, int(lost.value.context["lost_from"]))
            assert values(await consumer.getmany(timeout_ms=2_000)) == [b"3", b"4"]

    cluster.run(work)


def test_a_position_that_the_caller_gave_says_nothing_of_what_was_read(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            await consumer.getmany(100, 1)
            cluster.loses_from(3)
            consumer.seek(P0, 4)
            assert values(await consumer.getmany(timeout_ms=2_000)) == [b"4"]


def test_a_position_before_what_was_read_is_taken_as_it_is_too(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(auto_offset_reset="none") as consumer:
            await consumer.assign([P0])
            consumer.seek(P0, 0)
            await consumer.getmany(timeout_ms=100)
            cluster.loses_from(2)
            consumer.seek(P0, 4)
            assert values(await consumer.getmany(timeout_ms=2_000)) == [b"4"]

    cluster.run(work)


def test_a_range_that_loses_what_was_given_is_an_error(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            found: list[int] = []

            async def read() -> None:
                async for rows in consumer.read_range(P0, 0, 8, timeout_ms=3_000):
                    found.extend(rows.column("offset").to_pylist())

            reading = asyncio.ensure_future(read())
            await asyncio.sleep(0.5)
            cluster.loses_from(3)
            with pytest.raises(errors.OffsetOutOfRangeError) as lost:
                await reading
            assert lost.value.context["lost_from"] == "3"
            assert found == [0, 1, 2, 3, 4]

    cluster.run(work)


def test_a_reader_that_has_read_nothing_yet_goes_on_where_a_loss_begins(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer() as consumer:
            await consumer.assign([P0])
            assert await consumer.position(P0) == 5, "latest is the default"
            cluster.loses_from(3)
            assert values(await consumer.getmany(timeout_ms=2_000)) == [b"3", b"4"]

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


def fetches(cluster: FakeCluster) -> list[tuple[str, list[tuple[int, int]]]]:
    """(address, (partition, offset) of each that was asked for) of every call."""
    return [
        (address, [(item.partition, item.fetch_offset) for item in request.partitions])
        for address, method, request in cluster.calls
        if method.endswith(".Fetch")
    ]


def test_everything_of_a_leader_travels_in_one_call() -> None:
    cluster = FakeCluster(partitions=4)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(TOPIC, **EARLIEST) as consumer:
            await consumer.getmany(timeout_ms=10)

    cluster.run(work)
    assert sorted(fetches(cluster)[:2]) == [(BROKERS[0], [(0, 0), (2, 0)]), (BROKERS[1], [(1, 0), (3, 0)])]


def test_a_partition_has_one_fetch_on_its_way_and_the_next_begins_where_it_ended(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {**EARLIEST, "fetch_max_wait_ms": 10_000}
        async with cluster.client() as client, client.consumer(**options) as consumer:
            await consumer.assign([P0])
            for _ in range(5):
                await consumer.getmany(timeout_ms=100)

    cluster.run(work)
    assert [asked for _, asked in fetches(cluster)] == [[(0, 0)], [(0, 5)]]


def test_a_pause_keeps_the_order_of_what_is_buffered(cluster: FakeCluster) -> None:
    """Several answers of one partition, another partition's between them, and that one is read first."""

    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {**EARLIEST, "fetch_max_wait_ms": 10_000}
        async with cluster.client() as client, client.consumer(**options) as consumer:
            await consumer.assign([P0, P1])
            for partition in (P0, P1):
                consumer.seek(partition, 0)
                await asyncio.sleep(0.2)
            append(cluster, [b"5"])
            await asyncio.sleep(0.5)
            assert [one.cursor.partition for one in consumer._fetcher._buffer] == [P0, P1, P0]
            consumer.pause(P0)
            assert values(await consumer.getmany(timeout_ms=200)) == [b"x"]
            consumer.resume(P0)
            found: list[bytes] = []
            while more := values(await consumer.getmany(timeout_ms=200)):
                found += more
            assert found == [b"0", b"1", b"2", b"3", b"4", b"5"]

    cluster.run(work)


def test_what_no_longer_counts_is_dropped_also_behind_a_paused_partition(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {**EARLIEST, "fetch_max_wait_ms": 10_000}
        async with cluster.client() as client, client.consumer(**options) as consumer:
            await consumer.assign([P0, P1])
            consumer.pause(P0)
            for _ in range(3):
                consumer.seek(P1, 0)
                await asyncio.sleep(0.5)
            assert values(await consumer.getmany(timeout_ms=200)) == [b"x"]
            assert all(one.is_current for one in consumer._fetcher._buffer)

    cluster.run(work)


def test_what_is_buffered_of_many_partitions_is_bounded_by_what_they_share() -> None:
    cluster = FakeCluster(partitions=20)
    for partition in range(20):
        for _ in range(20):
            append(cluster, [b"v" * 1_000], partition=partition)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(max_buffered_bytes=100_000, **EARLIEST) as consumer:
            await consumer.assign_topics(TOPIC)
            found = len(await consumer.getmany(max_records=1))
            await asyncio.sleep(5)
            buffered = sum(cursor.buffered_bytes for cursor in consumer._fetcher.cursors.values())
            assert 50_000 < buffered < 200_000, "of some 500,000"
            while records := await consumer.getmany(timeout_ms=300):
                found += len(records)
            assert found == 400

    cluster.run(work)


def test_what_is_buffered_is_bounded_and_goes_on_when_it_was_read(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {**EARLIEST, "max_buffered_bytes": 1 << 20, "fetch_max_wait_ms": 10_000}
        async with cluster.client() as client, client.consumer(**options) as consumer:
            append(cluster, [Random(1).randbytes(2 << 20)])
            await consumer.assign([P0])
            assert await consumer.position(P0) == 0
            consumer._fetcher.kick()
            await asyncio.sleep(5)
            assert [asked for _, asked in fetches(cluster)] == [[(0, 0)], [(0, 5)]]
            assert len(await consumer.getmany(timeout_ms=1_000)) == 6
            await asyncio.sleep(1)
            assert [asked for _, asked in fetches(cluster)] == [[(0, 0)], [(0, 5)], [(0, 6)]]

    cluster.run(work)


def test_an_answer_for_a_position_that_was_left_counts_no_more(cluster: FakeCluster) -> None:
    arrived = asyncio.Event()
    cluster.fail("Fetch", lambda *_: arrived.set())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            reading = asyncio.ensure_future(consumer.getmany(timeout_ms=1_000))
            await arrived.wait()
            consumer.seek(P0, 4)
            assert values(await reading) == [b"4"]
            assert await consumer.getmany(timeout_ms=100) == [], "neither records nor a complaint about them"

    cluster.run(work)


def test_a_deposed_leader_is_not_believed(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            cluster.epochs[0] = 3
            await consumer.assign([P0])
            assert len(await consumer.getmany(timeout_ms=1_000)) == 5
            cluster.lies["Fetch"] = of_an_older_epoch
            append(cluster, [b"of a deposed leader"])
            assert await consumer.getmany(timeout_ms=300) == []
            del cluster.lies["Fetch"]
            assert values(await consumer.getmany(timeout_ms=5_000)) == [b"of a deposed leader"]

    cluster.run(work)


def of_an_older_epoch(_: Any, reply: Any, payload: bytes) -> tuple[Any, bytes]:
    for item in reply.partitions:
        item.leader_epoch = 2
    return reply, payload
