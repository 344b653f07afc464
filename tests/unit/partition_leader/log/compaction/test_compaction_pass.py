"""A pass leaves alone what has nothing to go, goes on above what retention deletes, and takes only what was written whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from oncelog.errors import StorageError
from oncelog_partition_leader.log.compaction.pass_job import Beat, Job, Limits, Written
from oncelog_partition_leader.log.compaction.pass_work import PassWork
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.compaction_helpers import COMPACT, LIMITS, keyed, records_of, seen, table_of
from tests.unit.partition_leader.log_helpers import NOW_MS, marker, open_log, run, write


def test_segments_from_which_nothing_goes_are_left_alone() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(COMPACT, segment_bytes=900))
        for number in range(30):
            write(log, keyed((b"k%d" % number, b"v")))
        await log.sync()
        inodes = [disk._files[segment.path + ".log"] for segment in log._segments]
        before = records_of(log)
        assert await log.compact(NOW_MS, log.log_end_offset, Limits(100, 1 << 20, 0))
        assert [disk._files[segment.path + ".log"] for segment in log._segments] == inodes
        assert records_of(log) == before

    run(test)


class Disturbed(PassWork):
    """A worker beside which something happens, once, when it is at a segment."""

    def __init__(self, disk: SimDisk, at: int, act: Callable[[], Awaitable[object]], *, rewriting: bool) -> None:
        super().__init__(disk, "disturbed")
        self._at = at
        self._act = act
        self._rewriting = rewriting
        self.happened = False

    def _with(self, beat: Beat) -> Beat:
        async def disturbed(at: int) -> None:
            if at == self._at and not self.happened:
                self.happened = True
                await self._act()
            await beat(at)

        return disturbed

    async def look(self, job: Job, beat: Beat) -> int:
        return await super().look(job, beat if self._rewriting else self._with(beat))

    async def rewrite(self, first: int, end: int, beat: Beat) -> Written:
        return await super().rewrite(first, end, self._with(beat) if self._rewriting else beat)


async def with_retention(disk: SimDisk) -> PartitionLog:
    """A log of a compacted topic from which time and size delete too; transactions are spread over its segments."""
    config = replace(COMPACT, cleanup_policy="compact,delete", segment_bytes=900, retention_bytes=100_000)
    log = await open_log(disk, config)
    for number in range(60):
        txn = (50, 1 + number // 10)
        write(log, keyed((b"t%d" % (number % 3), b"%d" % number), producer=(50, 0, 0), txn=txn))
        write(log, keyed((b"k%d" % (number % 5), b"v%d" % number), producer=(7, 0, number)))
        if number % 10 == 9:
            write(log, marker(txn, commit=number % 20 == 9))
    await log.sync()
    return log


@pytest.mark.parametrize("rewriting", [False, True])
@pytest.mark.parametrize("gone", range(1, 6))
def test_what_retention_deletes_behind_the_worker_does_not_end_the_pass(gone: int, rewriting: bool) -> None:
    async def test(disk: SimDisk) -> None:
        log = await with_retention(disk)
        start = log._segments[gone].base_offset

        async def delete() -> None:
            await log.advance_log_start(start)
            await log.apply_retention(NOW_MS, log.log_end_offset)
            assert log._segments[0].base_offset == start

        worker = Disturbed(disk, gone, delete, rewriting=rewriting)
        expected = table_of([record for record in seen(log) if record.offset >= start])
        tally = await log.compact(NOW_MS, log.log_end_offset, LIMITS, worker=worker)
        assert tally is not None, "it came to its end"
        assert worker.happened
        log.check()
        assert table_of(seen(log)) == expected
        assert len(seen(log)) < 30
        assert not log.wants_compaction(NOW_MS, log.log_end_offset)
        again = await open_log(disk.after_kill(), log.config)
        assert table_of(seen(again)) == expected

    run(test)


def test_a_deletion_where_the_worker_is_ends_the_pass_and_the_next_one_is_whole() -> None:
    async def test(disk: SimDisk) -> None:
        log = await with_retention(disk)
        start = log._segments[4].base_offset

        async def delete() -> None:
            await log.advance_log_start(start)
            await log.apply_retention(NOW_MS, log.log_end_offset)

        worker = Disturbed(disk, 2, delete, rewriting=False)
        expected = table_of([record for record in seen(log) if record.offset >= start])
        assert await log.compact(NOW_MS, log.log_end_offset, LIMITS, worker=worker) is None
        assert log.failed is None
        assert await log.compact(NOW_MS, log.log_end_offset, LIMITS, worker=worker)
        assert table_of(seen(log)) == expected

    run(test)


@pytest.mark.parametrize("damage", ["short", "index", "absent"])
def test_a_segment_that_is_not_what_the_worker_says_is_not_taken(damage: str) -> None:
    class Liar(PassWork):
        async def rewrite(self, first: int, end: int, beat: Beat) -> Written:
            written = await super().rewrite(first, end, beat)
            path = written.replacement.cleaned_path
            if damage == "index":
                return written._replace(index_dump=written.index_dump[:-1] + b"?")
            file = self._disk.open(path)
            file.truncate(file.size - 1)
            if damage == "absent":
                self._disk.remove(path)
            return written

    async def test(disk: SimDisk) -> None:
        log = await with_retention(disk)
        before = records_of(log)
        with pytest.raises(StorageError):
            await log.compact(NOW_MS, log.log_end_offset, LIMITS, worker=Liar(disk, "liar"))
        assert log.failed is None, "the old segments are all there"
        assert records_of(log) == before
        assert not [name for name in disk.list(log.directory) if name.endswith(".cleaned")]
        assert await log.compact(NOW_MS, log.log_end_offset, LIMITS)

    run(test)


def test_what_a_dead_pass_has_left_is_removed_by_the_next_one() -> None:
    async def test(disk: SimDisk) -> None:
        log = await with_retention(disk)
        left = f"{log.directory}/{0:020d}.log.of-the-dead.cleaned"
        disk.open(left, create=True).append([b"half"])
        assert await log.compact(NOW_MS, log.log_end_offset, LIMITS)
        assert not disk.exists(left)

    run(test)
