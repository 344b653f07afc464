"""Due records come as one batch in the order in which they were asked for, as many as one transaction takes."""

from __future__ import annotations

import pytest

from oncelog.core.batch.batch import decode_batch, encode_rows
from oncelog.core.batch.header import CODEC_ZSTD, BatchIdentity
from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.partition.delays import due_records
from oncelog_partition_leader.partition.delays.due_records import collect
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import NOW_MS, TAG, open_log, run, write
from tests.unit.partition_leader.partition.delays.waiting_partition import WaitingPartition, values


def test_rows_of_several_batches_come_in_the_order_asked_for_with_all_they_have() -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        partition.put((3, b"a"), (1, b"b"), (9, b"c"))
        partition.put((2, b"d"), headers=True)
        found = await collect(partition.as_local(), disk, (1, 3, 0), 1 << 20)
        assert found.asked == 3
        assert values(found.rows) == [b"b", b"d", b"a"]
        records = decode_batch(found.encode(BatchIdentity(TAG), NOW_MS))
        assert [(r.key, r.value, r.timestamp_ms - NOW_MS) for r in records] == [
            (b"kb", b"b", 1),
            (b"kd", b"d", 2),
            (b"ka", b"a", 3),
        ]
        assert [r.headers for r in records] == [(), (("h", b"d"),), ()]

    run(test)


@pytest.mark.parametrize("per_batch", [1, 5])
def test_only_as_many_are_taken_as_fit_one_transaction(per_batch: int) -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        for begin in range(0, 20, per_batch):
            partition.put(*[(n, b"%04d" % n * 250) for n in range(begin, begin + per_batch)])
        offsets, got = tuple(range(20)), []
        while offsets:
            found = await collect(partition.as_local(), disk, offsets, 5_000)
            assert 1 <= found.asked <= 5
            assert found.row_count == found.asked
            got += values(found.rows)
            offsets = offsets[found.asked :]
        assert got == [b"%04d" % n * 250 for n in range(20)]

    run(test)


def test_a_single_record_beyond_the_bound_is_taken_alone() -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        partition.put((0, b"x" * 1_000))
        partition.put((0, b"y"))
        found = await collect(partition.as_local(), disk, (0, 1), 10)
        assert (found.asked, values(found.rows)) == (1, [b"x" * 1_000])

    run(test)


def test_records_that_were_deleted_are_passed_over() -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        partition.put((0, b"a"))
        partition.put((0, b"b"))
        await partition.log.sync()
        await partition.delete_before(1)
        found = await collect(partition.as_local(), disk, (0, 1), 1 << 20)
        assert (found.asked, values(found.rows)) == (2, [b"b"])
        assert await collect(partition.as_local(), disk, (0,), 1 << 20) == (None, 1, 0)

    run(test)


def test_a_large_record_behind_deleted_ones_is_not_taken_for_deleted() -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        partition.put((0, b"a"))
        partition.put((0, b"x" * 1_000))
        await partition.log.sync()
        await partition.delete_before(1)
        got, offsets = [], (0, 1)
        while offsets:
            found = await collect(partition.as_local(), disk, offsets, 10)
            got += values(found.rows) if found.rows is not None else []
            offsets = offsets[found.asked :]
        assert got == [b"x" * 1_000]

    run(test)


def test_the_bytes_are_those_of_the_records_and_not_of_the_average_of_their_batch() -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        partition.put((0, b"x" * 900), *[(n, b"s") for n in range(20)], (0, b"y" * 900))
        found = await collect(partition.as_local(), disk, (0, 21), 1_500)
        assert (found.asked, values(found.rows)) == (1, [b"x" * 900])

    run(test)


def test_of_large_batches_only_the_wanted_rows_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_records, "_RAW_BYTES_MAX", 10_000)
    most = 0

    async def test(disk: SimDisk) -> None:
        nonlocal most
        partition = WaitingPartition(await open_log(disk))
        for _ in range(20):
            partition.put(*[(n, b"%04d" % n * 250) for n in range(5)])
        unpack = due_records._Gathering.unpack

        def watched(self: due_records._Gathering) -> None:
            nonlocal most
            most = max(most, self.raw_bytes)
            unpack(self)

        monkeypatch.setattr(due_records._Gathering, "unpack", watched)
        found = await collect(partition.as_local(), disk, tuple(range(2, 100, 5)), 1 << 20)
        assert (found.asked, found.row_count) == (20, 20)

    run(test)
    assert most < 17_000


def test_records_that_were_compressed_are_moved_compressed() -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        value = b"again and " * 1_000
        write(partition.log, encode_rows([None], [value], BatchIdentity(TAG), timestamps_ms=[NOW_MS], codec=CODEC_ZSTD))
        found = await collect(partition.as_local(), disk, (0,), 1 << 20)
        data = found.encode(BatchIdentity(TAG), NOW_MS)
        assert len(data) < 1_000
        assert [record.value for record in decode_batch(data)] == [value]

    run(test)


def test_a_record_that_is_not_what_was_written_is_not_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        partition.put((0, b"a"))
        found = due_records.read_one(partition.as_local(), 0)
        assert found is not None
        rotten = bytearray(found[1])
        rotten[-1] ^= 1
        monkeypatch.setattr(due_records, "read_one", lambda *_: (found[0], memoryview(rotten)))
        with pytest.raises(CorruptMessageError):
            await collect(partition.as_local(), disk, (0,), 1 << 20)

    run(test)
