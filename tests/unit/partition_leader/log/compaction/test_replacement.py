"""A compaction that is stopped at any write, sync, rename or removal loses no record and doubles none (G155)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from oncelog.errors import StorageError
from oncelog_partition_leader.core.compaction.plan import NEVER_MS, Progress
from oncelog_partition_leader.log.checkpoints import snapshot_offsets
from oncelog_partition_leader.log.compaction.replacement import (
    COMPACTION_POINT,
    Replacement,
    encode_progress,
    read_progress,
)
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.loop import SimLoop
from tests.unit.partition_leader.compaction_helpers import (
    COMPACT,
    DAY_MS,
    LIMITS,
    headers_of,
    keyed,
    seen,
    table_of,
)
from tests.unit.partition_leader.log_helpers import DIRECTORY, NOW_MS, marker, open_log, run, write

CONFIG = replace(COMPACT, segment_bytes=2_000, delete_retention_ms=1_000)


class StoppingDisk(SimDisk):
    """Counts every step that changes the disk; at a given one it stops for ever, or fails once."""

    def __init__(self, loop: SimLoop, seed: int) -> None:
        super().__init__(loop, Random(seed))
        self.steps = 0
        self.stops_at = -1
        self.fails_at = -1

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.stops_at:
            self.dead = True
            raise asyncio.CancelledError
        if self.steps == self.fails_at:
            raise StorageError("the disk did not do it", reason="io")

    def before_append(self, path: str, length: int) -> None:
        self._step()
        super().before_append(path, length)

    async def sync_time(self, path: str) -> bool:
        self._step()
        return await super().sync_time(path)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)

    def rename(self, old: str, new: str) -> None:
        self._step()
        super().rename(old, new)


async def filled(disk: SimDisk) -> PartitionLog:
    """Values, deletions, an aborted and a committed transaction, and one that is open, over some segments."""
    log = await open_log(disk, CONFIG)
    for number in range(9):
        write(log, keyed((b"a%d" % (number % 4), b"%d" % number * 20), (b"b", None), producer=(1, 0, number * 2)))
        if number % 3 == 1:
            txn = (50, number)
            write(log, keyed((b"t", b"%d" % number), (b"a1", b"in %d" % number), producer=(50, 0, 0), txn=txn))
            write(log, marker(txn, commit=number % 2 == 0))
    write(log, keyed((b"a2", b"open"), producer=(51, 0, 0), txn=(51, 1)))
    for number in range(9, 13):
        write(log, keyed((b"a3", b"late"), (b"b", b"x"), producer=(1, 0, number * 2)))
    await log.sync()
    return log


async def compacted(log: PartitionLog) -> None:
    """Two passes, of which the second removes what the first one kept for its time."""
    for now_ms in (NOW_MS, NOW_MS + DAY_MS):
        await log.compact(now_ms, log.log_end_offset, LIMITS, held_everywhere=log.log_end_offset)


def steps_of_a_compaction() -> int:
    async def test(disk: SimDisk) -> int:
        log = await filled(disk)
        before = disk.steps  # type: ignore[attr-defined]
        await compacted(log)
        return int(disk.steps) - before  # type: ignore[attr-defined]

    with SimLoop(1) as loop:
        return loop.run(test(StoppingDisk(loop, 1)))


STEPS = steps_of_a_compaction()


def check(log: PartitionLog, before: list[object], table: dict[bytes, bytes], end: int) -> None:
    found = seen(log)
    assert table_of(found) == table
    assert [record.offset for record in found] == sorted({record.offset for record in found})
    assert set(found) <= set(before)
    assert log.log_end_offset == end
    headers_of(log)
    log.check()


@pytest.mark.case("G155")
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_crash_at_any_step_leaves_every_record_once(step: int, power: bool) -> None:
    async def test(disk: StoppingDisk) -> None:
        log = await filled(disk)
        before, end, state = seen(log), log.log_end_offset, log.producers.snapshot()
        table = table_of(before)
        disk.stops_at = disk.steps + step
        with pytest.raises(asyncio.CancelledError):
            await compacted(log)
        heir = disk.after_power_cut() if power else disk.after_kill()
        again = await open_log(heir, CONFIG)
        check(again, [*before], table, end)
        assert again.producers.snapshot() == state
        leftovers = [name for name in heir.list(DIRECTORY) if name.endswith((".cleaned", ".compacted"))]
        assert not leftovers
        await compacted(again)
        check(again, [*before], table, end)
        await again.close()
        check(await open_log(heir, CONFIG), [*before], table, end)

    with SimLoop(step) as loop:
        loop.run(test(StoppingDisk(loop, step)))


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_an_error_at_any_step_leaves_the_log_whole_or_fails_it(step: int) -> None:
    async def test(disk: StoppingDisk) -> None:
        log = await filled(disk)
        before, end = seen(log), log.log_end_offset
        disk.fails_at = disk.steps + step
        try:
            await compacted(log)
        except StorageError:
            pass
        if log.failed is None:
            check(log, [*before], table_of(before), end)
        await log.close(clean=log.failed is None)
        again = await open_log(disk, CONFIG)
        await compacted(again)
        check(again, [*before], table_of(before), end)

    with SimLoop(step) as loop:
        loop.run(test(StoppingDisk(loop, step)))


def test_the_old_segments_are_there_until_the_new_one_counts() -> None:
    class Watched(StoppingDisk):
        old: frozenset[str] = frozenset()

        def _step(self) -> None:
            names = set(self.list(DIRECTORY))
            if any(name.endswith(".compacted") for name in names):
                self.old = frozenset()
            assert self.old <= names
            super()._step()

    async def test(disk: Watched) -> None:
        log = await filled(disk)
        disk.old = frozenset(name for name in disk.list(DIRECTORY) if name.endswith(".log"))
        await compacted(log)
        assert not disk.old

    with SimLoop(1) as loop:
        loop.run(test(Watched(loop, 1)))


def test_snapshots_within_a_compacted_segment_are_gone_and_the_others_stay() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        await compacted(log)
        bases = {segment.base_offset for segment in log._segments}
        inner = [offset for offset in snapshot_offsets(disk, DIRECTORY) if offset not in bases]
        first_open = log.first_unstable_offset(log.log_end_offset)
        assert first_open is not None
        assert all(offset >= log._segments[1].base_offset for offset in inner)

    run(test)


def test_how_far_a_log_is_compacted_is_forgotten_when_it_cannot_be_so() -> None:
    async def test(disk: SimDisk) -> None:
        disk.make_dirs(DIRECTORY)
        path = f"{DIRECTORY}/{COMPACTION_POINT}"
        assert read_progress(disk, DIRECTORY, 100) == Progress(0, NEVER_MS)
        await disk.write_atomic(path, encode_progress(Progress(50, 7)))
        assert read_progress(disk, DIRECTORY, 50) == Progress(50, 7)
        assert read_progress(disk, DIRECTORY, 49) == Progress(), "the log was cut"
        assert not disk.exists(path)
        await disk.write_atomic(path, b"x" + encode_progress(Progress(50, 7))[1:])
        assert read_progress(disk, DIRECTORY, 100) == Progress(), "damaged"

    run(test)


def test_the_names_of_a_replacement_cannot_be_taken_for_a_segment() -> None:
    replacement = Replacement("d", 5, 90)
    assert replacement.log_path == "d/00000000000000000005.log"
    assert replacement.cleaned_path == "d/00000000000000000005.log.cleaned"
    assert replacement.compacted_path == "d/00000000000000000005-00000000000000000090.compacted"
