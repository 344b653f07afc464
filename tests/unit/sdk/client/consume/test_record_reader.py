"""Lists of records, and what is kept for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog.client.consume.consumer import Consumer
from oncelog.client.consume.record_reader import RecordReader
from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, P1, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


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


def test_what_was_unpacked_and_not_returned_is_read_as_arrow(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert values(await consumer.getmany(max_records=1)) == [b"0"]
            rows = await consumer.read_arrow()
            assert rows is not None
            assert rows.column("offset").to_pylist()[0] == 1

    cluster.run(work)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, ZeroDivisionError])
def test_records_that_an_interrupt_takes_from_the_caller_are_read_again(
    cluster: FakeCluster, interrupt: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert values(await consumer.getmany(max_records=1)) == [b"0"]
            with monkeypatch.context() as broken:
                broken.setattr(RecordReader, "_gather", interrupted(RecordReader._gather, interrupt))
                with pytest.raises(interrupt):
                    await consumer.getmany()
            assert await consumer.position(P0) == 1
            assert values(await consumer.getmany(max_records=2)) == [b"1", b"2"]

    cluster.run(work)


def interrupted(gather: Any, interrupt: type[BaseException]) -> Any:
    """Gathers, and then is interrupted."""

    def work(self: RecordReader, limit: int, records: Any) -> None:
        gather(self, limit, records)
        if records:
            raise interrupt

    return work


# ---------------------------------------------------------------- one after the other


@pytest.fixture
def long() -> FakeCluster:
    """A batch of eight records, and one of two behind it."""
    made = FakeCluster()
    append(made, [b"%d" % number for number in range(8)])
    append(made, [b"8", b"9"])
    return made


def loop_over(cluster: FakeCluster, work: Callable[[Consumer], Awaitable[None]], **options: Any) -> None:
    """Runs `work` when the loop has been given the records 0 and 1."""

    async def whole(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST, **options) as consumer:
            await consumer.assign([P0])
            assert [(await anext(consumer)).offset for _ in range(2)] == [0, 1]
            await work(consumer)

    cluster.run(whole)


async def rest(consumer: Consumer, count: int) -> list[int]:
    return [(await anext(consumer)).offset for _ in range(count)]


def test_a_loop_goes_on_behind_what_another_read_took(long: FakeCluster) -> None:
    async def work(consumer: Consumer) -> None:
        assert values(await consumer.getmany(max_records=2)) == [b"2", b"3"]
        assert await rest(consumer, 1) == [4]
        record = await consumer.getone()
        assert record is not None
        assert record.offset == 5
        assert await rest(consumer, 4) == [6, 7, 8, 9]
        assert await consumer.position(P0) == 10

    loop_over(long, work)


def test_a_loop_goes_on_in_the_batch_that_another_read_has_unpacked(long: FakeCluster) -> None:
    async def work(consumer: Consumer) -> None:
        assert len(await consumer.getmany(max_records=7)) == 7
        assert await rest(consumer, 1) == [9]

    loop_over(long, work)


def test_the_position_is_behind_each_record_of_a_loop(long: FakeCluster) -> None:
    async def work(consumer: Consumer) -> None:
        for offset in range(2, 8):
            assert await rest(consumer, 1) == [offset]
            assert consumer._assignment.cursor(P0).position == offset + 1

    loop_over(long, work)


@pytest.mark.parametrize("to", [0, 6])
def test_a_loop_goes_on_where_a_seek_went(long: FakeCluster, to: int) -> None:
    async def work(consumer: Consumer) -> None:
        consumer.seek(P0, to)
        assert await rest(consumer, 2) == [to, to + 1]

    loop_over(long, work)


def test_a_loop_waits_in_a_pause(long: FakeCluster) -> None:
    async def work(consumer: Consumer) -> None:
        consumer.pause(P0)
        waiting = asyncio.ensure_future(rest(consumer, 1))
        await asyncio.sleep(1)
        assert not waiting.done()
        consumer.resume(P0)
        assert await waiting == [2]

    loop_over(long, work)


def test_a_loop_ends_with_its_consumer(long: FakeCluster) -> None:
    async def work(consumer: Consumer) -> None:
        await consumer.close()
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)

    loop_over(long, work)


def test_a_loop_ends_what_it_was_given_when_other_partitions_are_read(long: FakeCluster) -> None:
    append(long, [b"x"], partition=1)

    async def work(consumer: Consumer) -> None:
        await consumer.assign([P1])
        assert (await anext(consumer)).value == b"x"

    loop_over(long, work)


@pytest.mark.parametrize(("group", "polls"), [("g", 2), (None, 0)], ids=["a group", "no group"])
def test_a_loop_of_a_group_polls_after_max_poll_records(long: FakeCluster, group: str | None, polls: int) -> None:
    async def work(consumer: Consumer) -> None:
        seen: list[int] = []
        look = consumer._commits.look
        consumer._commits.look = lambda: (seen.append(1), look())[1]  # type: ignore[method-assign, func-returns-value]
        assert await rest(consumer, 5) == [2, 3, 4, 5, 6]
        assert len(seen) == polls

    loop_over(long, work, group_id=group, max_poll_records=3)
