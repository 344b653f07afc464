"""Lists of records, and what is kept for the next one."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.client.consume.record_reader import RecordReader
from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append, values


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
