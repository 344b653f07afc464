"""A deserializer that raises loses no record and ends nothing: what it refuses is asked for again."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.client.consume.consumer import Consumer
from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, P1, append, values


def test_a_deserializer_that_fails_loses_no_record() -> None:
    cluster = FakeCluster()
    append(cluster, [b"1", b"2"])
    calls: list[bytes] = []

    def once(value: bytes | None) -> bytes | None:
        calls.append(value or b"")
        if len(calls) == 1:
            raise ValueError("not yet")
        return value

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST, value_deserializer=once) as consumer:
            await consumer.assign([P0])
            with pytest.raises(ValueError, match="not yet"):
                await consumer.getmany()
            assert values(await consumer.getmany()) == [b"1", b"2"]

    cluster.run(work)


@pytest.mark.parametrize("what", ["key_deserializer", "value_deserializer"])
def test_a_deserializer_that_ends_an_iterator_ends_no_batch(what: str) -> None:
    cluster = FakeCluster()
    append(cluster, [b"a", b"", b"c"], keys=[b"a", b"", b"c"])
    is_mended = False

    def first_letter(value: bytes) -> str:
        letters = iter(value.decode())
        return next(letters, "none") if is_mended else next(letters)

    async def work(_: FakeCluster) -> None:
        nonlocal is_mended
        options = EARLIEST | {what: first_letter}
        async with cluster.client() as client, client.consumer(**options) as consumer:
            await consumer.assign([P0])
            for _ in range(2):
                with pytest.raises(RuntimeError, match="StopIteration"):
                    await consumer.getmany()
                assert await consumer.position(P0) == 0
            is_mended = True
            assert [record.offset for record in await consumer.getmany()] == [0, 1, 2]

    cluster.run(work)


async def from_the_start(consumer: Consumer) -> None:
    """Both partitions are fetched, the first one first."""
    await consumer.assign([P0, P1])
    for partition in (P0, P1):
        consumer.seek(partition, 0)
        await asyncio.sleep(0.2)


class Stopping:
    """A deserializer that raises at its first sights of b"!", so many `times`."""

    def __init__(self, error: BaseException, times: int = 1) -> None:
        self._error = error
        self._left = times

    def __call__(self, value: bytes) -> bytes:
        if value == b"!" and self._left:
            self._left -= 1
            raise self._error
        return value


@pytest.mark.parametrize("second", [0, 1])
@pytest.mark.parametrize("times", [1, 2])
def test_records_before_one_that_a_deserializer_refuses_come_first(second: int, times: int) -> None:
    cluster = FakeCluster()
    append(cluster, [b"1", b"2"])
    append(cluster, [b"3", b"!"], partition=second)

    async def work(_: FakeCluster) -> None:
        options = EARLIEST | {"value_deserializer": Stopping(ValueError("not yet"), times)}
        async with cluster.client() as client, client.consumer(**options) as consumer:
            await from_the_start(consumer)
            await asyncio.sleep(1)
            assert values(await consumer.getmany()) == [b"1", b"2"]
            assert await consumer.position(P0) == 2
            if times == 2:
                with pytest.raises(ValueError, match="not yet"):
                    await consumer.getmany()
            assert values(await consumer.getmany()) == [b"3", b"!"]

    cluster.run(work)


@pytest.mark.parametrize("second", [0, 1])
def test_an_interrupt_in_a_deserializer_loses_no_record(second: int) -> None:
    cluster = FakeCluster()
    append(cluster, [b"1", b"2"])
    append(cluster, [b"3", b"!"], partition=second)

    async def work(_: FakeCluster) -> None:
        options = EARLIEST | {"value_deserializer": Stopping(asyncio.CancelledError())}
        async with cluster.client() as client, client.consumer(**options) as consumer:
            await from_the_start(consumer)
            assert values(await consumer.getmany(max_records=1)) == [b"1"]
            await asyncio.sleep(1)
            with pytest.raises(asyncio.CancelledError):
                await consumer.getmany()
            assert await consumer.position(P0) == 1
            found = [value for _ in range(3) for value in values(await consumer.getmany(timeout_ms=1_000))]
            assert sorted(found) == [b"!", b"2", b"3"]

    cluster.run(work)
