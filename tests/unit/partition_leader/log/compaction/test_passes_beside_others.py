"""Passes beside everything else: few keys in memory, retention, readers, cuts, deletions, rot and a full disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from oncelog.errors import StorageError
from oncelog_partition_leader.core.compaction.plan import Progress
from oncelog_partition_leader.core.compaction.rewriting import Tally
from oncelog_partition_leader.log.compaction import pass_work
from oncelog_partition_leader.log.compaction.pass_job import Limits
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.compaction_helpers import (
    COMPACT,
    DAY_MS,
    LIMITS,
    compact,
    filled,
    headers_of,
    keyed,
    records_of,
    roll,
    table_of,
)
from tests.unit.partition_leader.log_helpers import NOW_MS, batch, contents, open_log, run, write

LATER_MS = NOW_MS + 2 * DAY_MS


def test_with_few_keys_in_memory_it_takes_more_passes_and_the_result_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pass_work, "_PIECE_BYTES", 1)

    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        roll(log)
        await log.sync()
        table, passes = table_of(records_of(log)), 0
        while await log.compact(NOW_MS, log.log_end_offset, Limits(1, 1 << 20, 0)):
            passes += 1
            assert table_of(records_of(log)) == table
            assert passes < 100
        assert passes > 10
        assert len(records_of(log)) == 10

    run(test)


def test_time_and_size_delete_from_a_log_that_is_compacted_too() -> None:
    async def test(disk: SimDisk) -> None:
        config = replace(COMPACT, cleanup_policy="compact,delete", retention_ms=DAY_MS, segment_bytes=700)
        log = await filled(disk, config=config)
        await compact(log)
        for number in range(40, 60):
            write(log, keyed((b"n%d" % number, b"v"), timestamp_ms=LATER_MS, producer=(7, 0, number * 3)))
        await log.sync()
        await log.apply_retention(LATER_MS, log.log_end_offset)
        assert log.log_start_offset > 0
        await compact(log)
        log.check()
        await log.close()
        again = await open_log(disk, config)
        again.check()
        assert len(records_of(again)) >= 20

    run(test)


class Beside:
    """A disk that does something at each step of a pass."""

    def __init__(self, disk: SimDisk, act: Callable[[], None]) -> None:
        self._disk = disk
        self._act = act

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)

    async def run(self, work: Callable[[], object]) -> object:
        self._act()
        result = await self._disk.run(work)
        self._act()
        return result

    async def sync_dir(self, path: str) -> None:
        self._act()
        await self._disk.sync_dir(path)
        self._act()


def test_readers_beside_a_pass_find_every_offset_and_never_an_error() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        table, looks = table_of(records_of(log)), 0

        def look() -> None:
            nonlocal looks
            looks += 1
            assert table_of(records_of(log)) == table
            headers_of(log)

        log._disk = Beside(disk, look)  # type: ignore[assignment]
        assert await compact(log)
        assert looks > 10

    run(test)


def test_a_pass_beside_a_cut_or_a_deletion_ends_and_leaves_nothing() -> None:
    async def test(disk: SimDisk) -> None:
        for step in range(1, 20):
            directory = f"{step}/{(await open_log(disk)).directory}"
            log = await open_log(disk, COMPACT, directory=directory)
            for number in range(40):
                write(log, keyed((b"k%d" % (number % 5), b"v" * 50), producer=(7, 0, number)))
            await log.sync()
            steps, cuts = 0, []

            def cut(log: PartitionLog = log, step: int = step, cuts: list[asyncio.Task[None]] = cuts) -> None:
                nonlocal steps
                steps += 1
                if steps == step:
                    work = log.truncate_to(25) if step % 2 else log.advance_log_start(20)
                    cuts.append(asyncio.ensure_future(work))

            lock = asyncio.Lock()
            log._disk = Beside(disk, cut)  # type: ignore[assignment]
            await log.compact(NOW_MS, 30, LIMITS, lock)
            await asyncio.gather(*cuts)
            log._disk = disk
            log.check()
            assert not [name for name in disk.list(directory) if name.endswith((".cleaned", ".compacted"))]
            await log.close(clean=False)
            again = await open_log(disk, COMPACT, directory=directory)
            again.check()
            assert set(table_of(records_of(again))) == {b"k%d" % n for n in range(5)}

    run(test)


def test_a_pass_that_is_cancelled_leaves_a_whole_log_or_one_that_recovery_makes_whole() -> None:
    async def test(disk: SimDisk) -> None:
        failed = 0
        for step in range(1, 220, 3):
            directory = f"{step}/{(await open_log(disk)).directory}"
            log = await open_log(disk, COMPACT, directory=directory)
            for number in range(40):
                write(log, keyed((b"k%d" % (number % 5), b"%d" % number * 20), producer=(7, 0, number)))
            await log.sync()
            table, steps = table_of(records_of(log)), 0
            working: list[asyncio.Task[Tally | None]] = []

            def cancel(step: int = step, working: list[asyncio.Task[Tally | None]] = working) -> None:
                nonlocal steps
                steps += 1
                if steps == step:
                    working[0].cancel()

            log._disk = Beside(disk, cancel)  # type: ignore[assignment]
            working.append(asyncio.ensure_future(log.compact(NOW_MS, 40, LIMITS)))
            await asyncio.wait(working)
            log._disk = disk
            failed += log.failed is not None
            if log.failed is None:
                log.check()
                assert table_of(records_of(log)) == table
            await log.close()
            again = await open_log(disk, COMPACT, directory=directory)
            again.check()
            assert table_of(records_of(again)) == table
        assert failed > 2

    run(test)


def test_rot_that_a_pass_meets_fails_the_log() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        data = disk._files[log._segments[1].path + ".log"].data
        data[len(data) // 2] ^= 1
        with pytest.raises(StorageError) as caught:
            await compact(log)
        assert caught.value.context["reason"] == "rot"
        assert log.failed is not None

    run(test)


def test_a_full_disk_ends_the_pass_and_the_log_goes_on() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        before = contents(log)
        disk.capacity = disk.used() + 100
        with pytest.raises(StorageError):
            await compact(log)
        assert log.failed is None
        assert contents(log) == before
        disk.capacity = None
        assert await compact(log)

    run(test)


def test_a_cut_below_what_was_compacted_makes_it_dirty_again() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        await compact(log)
        await log.truncate_to(50)
        assert log._progress == Progress()
        assert log.producers.end_offset == log.log_end_offset <= 50
        await log.reset_to(500, None)
        assert not disk.exists(f"{log.directory}/compaction-point")
        write(log, batch(1, 0))
        log.check()

    run(test)
