"""Opening a log: what is trusted, what is scanned, where it ends, and whose log it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog.core.batch.header import read_header, rewritten
from oncelog.errors import StorageError
from oncelog_partition_leader.log.checkpoints import RESETTING, RecoveryPoint
from oncelog_partition_leader.log.partition_log import LogConfig
from oncelog_partition_leader.log.recovery.recovery import recover
from oncelog_partition_leader.log.segment_file import Segment
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import (
    DIRECTORY,
    batch,
    contents,
    fence,
    marker,
    open_log,
    plain,
    run,
    write,
    write_scripted,
)

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=200, tail_cache_bytes=0)


def test_a_clean_start_reads_no_batch() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        write_scripted(log)
        before = log.producers.snapshot()
        await log.close()
        for name in disk.list(DIRECTORY):
            if name.endswith(".log"):
                disk.flip_bit(f"{DIRECTORY}/{name}", 70)
        again = await open_log(disk, SMALL)
        assert again.producers.snapshot() == before

    run(test)


def test_the_clean_mark_is_gone_once_the_log_is_open() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        await log.close()
        assert disk.exists(f"{DIRECTORY}/clean-shutdown")
        await open_log(disk)
        assert not disk.after_power_cut().exists(f"{DIRECTORY}/clean-shutdown")

    run(test)


def small_files(disk: SimDisk) -> set[str]:
    return {name for name in disk.list(DIRECTORY) if not name.endswith(".log")}


async def stopped(disk: SimDisk, count: int = 6, *, clean: bool) -> bytes:
    """A log of several segments that was stopped; what it holds."""
    log = await open_log(disk, SMALL)
    for n in range(count):
        write(log, batch(1, n, payload=b"x" * 150))
    await log.sync()
    held = contents(log)
    await log.close(clean=clean)
    return held


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_says_whether_it_had_to_be_scanned(clean: bool) -> None:
    async def test(disk: SimDisk) -> None:
        await stopped(disk, clean=clean)
        found = await recover(disk, DIRECTORY, SMALL)
        assert (found.scanned, found.lost_tail, found.log_end_offset) == (not clean, False, 6)
        assert found.producers.end_offset == 6

    run(test)


def test_a_torn_tail_is_cut_and_told() -> None:
    async def test(disk: SimDisk) -> None:
        await stopped(disk, clean=False)
        last = max(name for name in disk.list(DIRECTORY) if name.endswith(".log"))
        disk.open(f"{DIRECTORY}/{last}").append([plain()[:-1]])
        found = await recover(disk, DIRECTORY, SMALL)
        assert (found.log_end_offset, found.lost_tail) == (6, True)

    run(test)


def test_rot_below_the_recovery_point_is_refused_and_the_files_stay() -> None:
    async def test(disk: SimDisk) -> None:
        await stopped(disk, clean=False)
        disk.remove(f"{DIRECTORY}/{0:020d}.index")
        disk.flip_bit(f"{DIRECTORY}/{0:020d}.log", 150, 1)
        with pytest.raises(StorageError) as refusal:
            await recover(disk, DIRECTORY, SMALL)
        assert refusal.value.context["reason"] == "rot"
        assert disk.exists(f"{DIRECTORY}/{0:020d}.log")

    run(test)


def test_rot_that_is_met_while_the_tail_moves_to_a_new_file_is_told_as_rot() -> None:
    """Seed 42: the log could not be opened, for a reason that nothing acted on, and was tried again for ever."""

    async def test(disk: SimDisk) -> None:
        few_entries = LogConfig(segment_bytes=10_000, index_interval_bytes=10_000, tail_cache_bytes=0)
        log = await open_log(disk, few_entries)
        for n in range(5):
            write(log, batch(1, n, payload=b"x" * 150))
        await log.close()  # the index covers these: recovery does not read them
        log = await open_log(disk, few_entries)
        write(log, batch(1, 5, payload=b"x" * 150))
        await log.close(clean=False)
        disk.flip_bit(f"{DIRECTORY}/{0:020d}.log", 150, 1)
        with pytest.raises(StorageError) as refusal:
            await recover(disk, DIRECTORY, few_entries)
        assert refusal.value.context["reason"] == "rot"

    run(test)


@pytest.mark.case("S9")
def test_after_an_unclean_stop_nothing_is_appended_to_an_old_file() -> None:
    async def test(disk: SimDisk) -> None:
        held = await stopped(disk, 1, clean=False)
        before = {name for name in disk.list(DIRECTORY) if name.endswith(".log")}
        log = await open_log(disk, SMALL)
        write(log, plain())
        new = {name for name in disk.list(DIRECTORY) if name.endswith(".log")} - before
        assert new == {f"{1:020d}.log"}
        assert contents(log).startswith(held)

    run(test)


def test_a_replacement_that_did_not_come_to_its_end_leaves_an_empty_log_at_0() -> None:
    async def test(disk: SimDisk) -> None:
        await stopped(disk, clean=False)
        await RecoveryPoint(disk, DIRECTORY).store(RESETTING, 0)
        found = await recover(disk, DIRECTORY, SMALL)
        assert (found.log_end_offset, found.lost_tail) == (0, True)
        assert small_files(disk) == {"partition.json", "recovery-point"}

    run(test)


# ---------------------------------------------------------------- what an unclean opening reads


class Reads:
    """Counts the bytes that walks through segments read; none may be on the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes, self._at_work = 0, False
        chunk, work = Segment._chunk, SimDisk.run

        def counted(segment: Segment, position: int, end: int, length: int) -> bytes:
            assert self._at_work, "a walk on the event loop stops everybody else"
            data = chunk(segment, position, end, length)
            self.bytes += len(data)
            return data

        async def at_work(disk: SimDisk, job: Callable[[], object]) -> object:
            def flagged() -> object:
                self._at_work = True
                try:
                    return job()
                finally:
                    self._at_work = False

            return await work(disk, flagged)

        monkeypatch.setattr(Segment, "_chunk", counted)
        monkeypatch.setattr(SimDisk, "run", at_work)


LONG = LogConfig(checkpoint_bytes=2_000, index_interval_bytes=200, tail_cache_bytes=0)


def test_an_unclean_opening_reads_what_no_checkpoint_covers_once_and_the_rest_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, LONG)
        for n in range(100):
            write(log, batch(1, n, payload=b"x" * 400))
            if log.wants_sync:
                await log.sync()
        covered = log.synced_end_offset
        write(log, batch(2, 0), batch(7, 0, txn=(7, 1)), marker((7, 1), commit=False), batch(2, 1))
        before, held, aborted = log.producers.snapshot(), contents(log), log.aborted_between(0, 1 << 40)
        tail = len(contents(log, covered))
        await log.close(clean=False)
        with monkeypatch.context() as patch:
            reads = Reads(patch)
            again = await open_log(disk, LONG)
        assert tail <= reads.bytes < tail + 1_500, "beside the tail, two intervals of the index"
        again.check()
        assert (again.producers.snapshot(), contents(again)) == (before, held)
        assert again.aborted_between(0, 1 << 40) == aborted
        await again.close()
        last = await open_log(disk, LONG)
        assert (last.producers.snapshot(), contents(last)) == (before, held)

    run(test)


def test_a_control_batch_that_nobody_can_read_is_rot_and_no_torn_tail() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, batch(1, 0))
        await log.sync()
        end = log.log_end_offset
        await log.close(clean=False)
        sound = bytearray(fence(1, 5))
        broken = rewritten(read_header(bytes(sound))._replace(base_offset=end, leader_epoch=1), b"not a record")
        name = max(name for name in disk.list(DIRECTORY) if name.endswith(".log"))
        disk.open(f"{DIRECTORY}/{name}").append([broken])
        with pytest.raises(StorageError) as refusal:
            await open_log(disk)
        assert refusal.value.context["reason"] == "rot"

    run(test)


# ---------------------------------------------------------------- what opening costs


def counted(disk: SimDisk, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes each replacement of a small file and each sync of a directory, in order."""
    steps: list[str] = []
    write_atomic, sync_dir = disk.write_atomic, disk.sync_dir

    async def writes(path: str, data: bytes) -> None:
        steps.append(path.rpartition("/")[2])
        await write_atomic(path, data)

    async def syncs(path: str) -> None:
        steps.append(f"sync {path.rpartition('/')[2][:4]}")
        await sync_dir(path)

    monkeypatch.setattr(disk, "write_atomic", writes)
    monkeypatch.setattr(disk, "sync_dir", syncs)
    return steps


def test_a_new_log_writes_its_identity_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand logs are created at once, and each sync of theirs is one of the disk's."""

    async def test(disk: SimDisk) -> None:
        disk.make_dirs("logs")
        steps = counted(disk, monkeypatch)
        await open_log(disk)
        assert [step for step in steps if step != "sync orde"] == ["sync logs", "partition.json"]

    run(test)


def test_an_empty_log_that_was_not_closed_is_opened_without_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(disk: SimDisk) -> None:
        await open_log(disk)
        steps = counted(disk, monkeypatch)
        log = await open_log(disk)
        assert steps == ["sync logs"]
        assert (log.log_end_offset, log.synced_end_offset, log.lost_tail) == (0, 0, False)

    run(test)


def test_the_first_sync_of_a_new_log_makes_the_name_of_its_segment_durable() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, batch())
        await log.sync()
        again = await open_log(disk.after_power_cut())
        assert again.log_end_offset == 1

    run(test)
