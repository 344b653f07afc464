"""Due records come as one batch in the order in which they were asked for, as many as one transaction takes."""

from __future__ import annotations

import pytest

from oncelog.core.batch.batch import decode_batch
from oncelog.core.batch.header import BatchIdentity
from oncelog_partition_leader.partition.delays import due_records
from oncelog_partition_leader.partition.delays.due_records import collect
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import NOW_MS, TAG, open_log, run
from tests.unit.partition_leader.partition.delays.waiting_partition import WaitingPartition, values


def test_rows_of_several_batches_come_in_the_order_asked_for_with_all_they_have() -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        partition.put((3, b"a"), (1, b"b"), (9, b"c"))
        partition.put((2, b"d"), headers=True)
        found = await collect(partition.as_local(), disk, (1, 3, 0))
        assert found is not None
        assert found.asked == 3
        assert values(found.rows) == [b"b", b"d", b"a"]
        records = decode_batch(found.encode(BatchIdentity(TAG), 0, NOW_MS))
        assert [(r.key, r.value, r.timestamp_ms - NOW_MS) for r in records] == [
            (b"kb", b"b", 1),
            (b"kd", b"d", 2),
            (b"ka", b"a", 3),
        ]
        assert [r.headers for r in records] == [(), (("h", b"d"),), ()]

    run(test)


@pytest.mark.parametrize("per_batch", [1, 5])
def test_only_as_many_are_taken_as_fit_one_transaction(monkeypatch: pytest.MonkeyPatch, per_batch: int) -> None:
    monkeypatch.setattr(due_records, "MOVE_BYTES_MAX", 5_000)

    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        for begin in range(0, 20, per_batch):
            partition.put(*[(n, b"%04d" % n * 250) for n in range(begin, begin + per_batch)])
        offsets, got = tuple(range(20)), []
        while offsets:
            found = await collect(partition.as_local(), disk, offsets)
            assert found is not None
            assert 1 <= found.asked <= 5
            assert found.rows.num_rows == found.asked
            got += values(found.rows)
            offsets = offsets[found.asked :]
        assert got == [b"%04d" % n * 250 for n in range(20)]

    run(test)


def test_a_single_record_beyond_the_bound_is_taken_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_records, "MOVE_BYTES_MAX", 10)

    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        partition.put((0, b"x" * 1_000))
        partition.put((0, b"y"))
        found = await collect(partition.as_local(), disk, (0, 1))
        assert found is not None
        assert (found.asked, values(found.rows)) == (1, [b"x" * 1_000])

    run(test)


def test_records_that_were_deleted_are_passed_over() -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        partition.put((0, b"a"))
        partition.put((0, b"b"))
        await partition.log.sync()
        await partition.delete_before(1)
        found = await collect(partition.as_local(), disk, (0, 1))
        assert found is not None
        assert (found.asked, values(found.rows)) == (2, [b"b"])
        assert await collect(partition.as_local(), disk, (0,)) is None

    run(test)
