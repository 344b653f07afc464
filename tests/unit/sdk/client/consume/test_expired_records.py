"""Consumers skip records whose time to live has passed; a range that is read again is the same."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.core.batch.record import EXPIRES_HEADER
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    """Five records, of which the second and the fourth have expired, and a batch of which nothing is left."""
    made = FakeCluster()
    late, early = ((EXPIRES_HEADER, b"1"),), ((EXPIRES_HEADER, b"99999999999999"),)
    append(made, [b"0", b"1", b"2", b"3", b"4"], headers=[(), late, early, late, ()])
    append(made, [b"5", b"6"], headers=[late, late])
    append(made, [b"7"])
    return made


def read(cluster: FakeCluster, **options: Any) -> tuple[list[bytes], int, int]:
    """The values that one read returns, how many were skipped, and the position after it."""
    seen: list[Any] = []

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST, **options) as consumer:
            await consumer.assign([P0])
            seen.extend([values(await consumer.getmany(timeout_ms=500)), consumer.expired_count])
            seen.append(await consumer.position(P0))

    cluster.run(work)
    return tuple(seen)  # type: ignore[return-value]


def test_expired_records_are_skipped_and_counted(cluster: FakeCluster) -> None:
    assert read(cluster) == ([b"0", b"2", b"4", b"7"], 4, 8)


def test_they_come_when_they_are_asked_for(cluster: FakeCluster) -> None:
    assert read(cluster, expired="deliver") == ([b"%d" % i for i in range(8)], 0, 8)


def test_one_by_one_the_position_moves_over_them(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            seen = []
            async for record in consumer:
                seen.append((record.offset, record.value))
                if record.value == b"7":
                    break
            assert seen == [(0, b"0"), (2, b"2"), (4, b"4"), (7, b"7")]

    cluster.run(work)


def test_arrow_rows_are_without_them_and_a_range_is_whole(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            rows = await consumer.read_arrow(timeout_ms=500)
            assert rows is not None
            assert rows.column("offset").to_pylist() == [0, 2, 4, 7]
            whole = [n async for part in consumer.read_range(P0, 0, 8) for n in part.column("offset").to_pylist()]
            assert whole == list(range(8))

    cluster.run(work)


def test_what_is_sent_with_a_time_to_live_expires(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            await producer.send_and_wait(TOPIC, b"short", partition=1, ttl_ms=1)
            await producer.send_and_wait(TOPIC, b"long", partition=1, ttl_ms=1_000_000_000, headers={"a": b"b"})
            with pytest.raises(errors.InvalidDelayError):
                await producer.send(TOPIC, b"never", ttl_ms=0)
            async with client.consumer(TOPIC, **EARLIEST) as consumer:
                got = []
                while not any(record.partition == 1 for record in got):
                    got += await consumer.getmany(timeout_ms=1_000)
            (record,) = [record for record in got if record.partition == 1]
            assert record.value == b"long"
            assert [name for name, _ in record.headers] == ["a", EXPIRES_HEADER]

    cluster.run(work)
