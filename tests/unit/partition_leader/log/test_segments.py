"""The files of a log: when a segment begins, what of it is durable, when the oldest go."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest

from oncelog.core.batch.header import read_header
from oncelog.errors import (
    OffsetOutOfRangeError,
    StorageError,
)
from oncelog_partition_leader.log import segments
from oncelog_partition_leader.log.partition_log import LogConfig, PartitionLog
from oncelog_partition_leader.log.recovery.recovery import recover
from oncelog_partition_leader.log.segment_file import Segment
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import (
    DIRECTORY,
    NOW_MS,
    batch,
    contents,
    marker,
    open_log,
    plain,
    run,
    state_of,
    write,
)

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=200, tail_cache_bytes=0)


def test_a_batch_longer_than_a_segment_gets_its_own() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        write(log, plain())
        (long,) = write(log, plain(b"x" * 900))
        write(log, plain())
        assert log.read(1, 1, 3) == long.data
        assert len([name for name in disk.list(DIRECTORY) if name.endswith(".log")]) == 3
        log.check()

    run(test)


def test_segments_roll_by_size_and_reads_cross_them() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        data = [write(log, plain(bytes([n]) * 60, count=2))[0].data for n in range(20)]
        assert len([name for name in disk.list(DIRECTORY) if name.endswith(".log")]) > 5
        assert contents(log) == b"".join(data)
        for n in range(40):
            assert log.read(n, 1, 40) == data[n // 2]
        log.check()

    run(test)


@pytest.mark.parametrize("change", ["age", "index", "delta"])
def test_segments_roll_by_age_index_and_offset_distance(change: str) -> None:
    async def test(disk: SimDisk) -> None:
        config = LogConfig(segment_ms=1000, segment_index_bytes=48, index_interval_bytes=0)
        if change != "index":
            config = replace(config, segment_index_bytes=1 << 20)
        log = await open_log(disk, config)
        for n in range(3):
            step = 999 if change == "age" else 0
            count = (1 << 30) if change == "delta" else 1
            write(log, plain(count=count), now_ms=NOW_MS + n * step)
        expected = {"age": 2, "index": 1, "delta": 2}[change]
        assert len([name for name in disk.list(DIRECTORY) if name.endswith(".log")]) == expected
        if change == "index":
            write(log, plain())
            assert len([name for name in disk.list(DIRECTORY) if name.endswith(".log")]) == 2
        log.check()

    run(test)


def test_retention_with_nothing_to_delete_asks_nothing_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs for thousands of logs, one after the other."""

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(SMALL, retention_ms=1000))
        for n in range(12):
            write(log, plain(b"r" * 80, timestamp_ms=NOW_MS + n * 100))
        await log.sync()
        listed: list[str] = []
        monkeypatch.setattr(disk, "list", lambda path: listed.append(path) or [])
        await log.apply_retention(NOW_MS, high_watermark=12)
        assert listed == []

    run(test)


def test_whole_segments_go_by_time_size_and_start() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(SMALL, retention_ms=1000, retention_bytes=-1))
        for n in range(12):
            write(log, plain(b"r" * 80, timestamp_ms=NOW_MS + n * 100))
        await log.sync()
        await log.apply_retention(NOW_MS + 1500, high_watermark=0)
        assert log.log_start_offset == 0, "never at or above the high watermark"
        await log.apply_retention(NOW_MS + 1500, high_watermark=12)
        assert log.log_start_offset == 3, "three batches of 200 bytes make a segment"
        before = state_of(log)
        await log.apply_retention(NOW_MS + 1500, high_watermark=12)
        assert state_of(log) == before, "a second run removes nothing"
        with pytest.raises(OffsetOutOfRangeError):
            log.read(2, 1, 12)
        log.reconfigure(replace(SMALL, retention_ms=-1, retention_bytes=900))
        await log.apply_retention(NOW_MS + 1500, high_watermark=12)
        assert log.log_start_offset == 6
        await log.advance_log_start(10)
        await log.apply_retention(NOW_MS + 1500, high_watermark=12)
        assert (log.log_start_offset, log.size_bytes) == (10, 600)
        log.check()

    run(test)


@pytest.mark.parametrize("clean", [True, False])
def test_an_idle_log_is_emptied_by_time(clean: bool) -> None:

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(SMALL, retention_ms=1000, retention_bytes=-1))
        write(log, batch(1, 0, 5), batch(7, 0, txn=(7, 3)), marker((7, 3)))
        write(log, plain(b"last"))
        end, later_ms = log.log_end_offset, NOW_MS + 100_000
        await log.apply_retention(later_ms, high_watermark=end - 1)
        assert (log.log_start_offset, log.size_bytes > 0) == (0, True), "never what is not committed"
        await log.apply_retention(later_ms, high_watermark=end)
        assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (end, end, 0)
        before = state_of(log)
        await log.apply_retention(later_ms, high_watermark=end)
        assert state_of(log) == before, "an empty segment is not rolled"
        await log.close(clean)
        again = await open_log(disk, SMALL)
        assert state_of(again) == before, "also the epoch of the last record: an election may ask for it"
        assert again.epochs.last_epoch == 1
        entry = again.producers.producer(1)
        assert entry is not None
        assert entry.window.last_sequence == 4, "producers outlive their records"
        write(again, plain(b"next"))
        assert read_header(again.read(end, 1, end + 1)).base_offset == end
        again.check()

    run(test)


def test_an_open_transaction_keeps_its_records() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(SMALL, retention_ms=1000, retention_bytes=0))
        write(log, plain(b"r"), batch(7, 0, txn=(7, 3)))
        for _ in range(10):
            write(log, plain(b"r" * 100))
        await log.apply_retention(NOW_MS + 100_000, high_watermark=log.log_end_offset)
        assert log.log_start_offset == 0
        write(log, marker((7, 3)))
        await log.apply_retention(NOW_MS + 100_000, high_watermark=log.log_end_offset - 1)
        assert log.log_start_offset == 0, "its marker is not committed"
        await log.apply_retention(NOW_MS + 100_000, high_watermark=log.log_end_offset)
        assert log.log_start_offset == log.log_end_offset
        log.check()

    run(test)


def test_delete_records_is_durable_and_bounded() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, *[plain(count=2) for _ in range(4)])
        await log.advance_log_start(5)
        await log.advance_log_start(3)
        assert log.log_start_offset == 5
        with pytest.raises(OffsetOutOfRangeError):
            await log.advance_log_start(9)
        assert read_header(log.read(5, 1, 8)).base_offset == 4
        heir = disk.after_power_cut()
        again = await open_log(heir)
        assert (again.log_start_offset, again.log_end_offset) == (5, 8)

    run(test)


# ---------------------------------------------------------------- syncs and checkpoints


@pytest.mark.case("S9")
def test_a_failed_sync_is_final_and_nothing_more_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, plain())
        await log.sync()
        write(log, plain())

        async def broken(*_: object) -> None:
            raise StorageError("broken", reason="io")

        with monkeypatch.context() as patch:
            patch.setattr(type(log._segments[-1].file), "sync", broken)
            with pytest.raises(StorageError):
                await log.sync()
        assert log.synced_end_offset == 1
        for call in (log.sync(), log.advance_log_start(1), log.apply_retention(NOW_MS, 2)):
            with pytest.raises(StorageError, match="has failed"):
                await call

    run(test)


@pytest.mark.case("S7")
def test_a_checkpoint_that_cannot_be_stored_harms_nothing_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(SMALL, checkpoint_bytes=1))
        write(log, plain())

        async def full(*_: object) -> None:
            raise StorageError("full", reason="full")

        with monkeypatch.context() as patch:
            patch.setattr(disk, "write_atomic", full)
            assert await log.sync() == 1
        assert log.wants_sync, "it stays due"
        await log.sync()
        assert not log.wants_sync
        assert disk.exists(f"{DIRECTORY}/{1:020d}.snapshot")

    run(test)


def test_a_segment_ends_with_a_checkpoint_at_the_next_sync() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        while len(log._segments) == 1:
            write(log, plain(b"x" * 90))
        assert log.wants_sync
        await log.sync()
        names = disk.list(DIRECTORY)
        assert {f"{0:020d}.index", f"{0:020d}.txnindex"} <= set(names)
        assert f"{log._segments[1].base_offset:020d}.snapshot" in names

    run(test)


@pytest.mark.case("S20")
def test_what_is_below_the_synced_end_outlives_a_power_cut_with_its_directory_entry() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        for _ in range(9):
            write(log, plain(b"x" * 90))
        end = await log.sync()
        again = await open_log(disk.after_power_cut(), SMALL)
        assert again.log_end_offset == end == 9

    run(test)


# ---------------------------------------------------------------- checkpoints

ROOMY = LogConfig(index_interval_bytes=200, tail_cache_bytes=0)


async def after_a_crash(disk: SimDisk) -> PartitionLog:
    """A log whose unsynced tail was moved to a second segment when it was opened."""
    log = await open_log(disk, ROOMY)
    for n in range(20):
        write(log, batch(1, n))
    await log.sync()
    write(log, batch(1, 20))
    await log.close(clean=False)
    log = await open_log(disk, ROOMY)
    assert len([name for name in disk.list(DIRECTORY) if name.endswith(".log")]) == 2
    return log


async def after_a_truncation(disk: SimDisk) -> PartitionLog:
    """A log that was cut in the middle of its segment."""
    log = await open_log(disk, ROOMY)
    for n in range(20):
        write(log, batch(1, n))
    await log.sync()
    await log.truncate_to(11)
    write(log, batch(1, 11))
    return log


@pytest.mark.parametrize("cut", [after_a_crash, after_a_truncation])
def test_a_segment_that_was_cut_gets_its_index_again_so_that_a_clean_start_scans_nothing(
    cut: Callable[[SimDisk], Coroutine[None, None, PartitionLog]],
) -> None:
    async def test(disk: SimDisk) -> None:
        log = await cut(disk)
        held = contents(log)
        await log.close()
        found = await recover(disk, DIRECTORY, ROOMY)
        assert not found.scanned
        assert [segment.indexed_bytes for segment in found.segments] == [one.index.size for one in found.segments]
        assert contents(await open_log(disk, ROOMY)) == held

    run(test)


def test_what_was_appended_minutes_ago_gets_a_checkpoint_although_it_is_little() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        for n in range(3):
            write(log, batch(1, n, payload=bytes(1 << 19)))
        for now_ms, due in ((0, False), (1_000, False), (299_999, False), (300_000, True)):
            await log.apply_retention(NOW_MS + now_ms, 0)
            assert log.wants_sync is due
        await log.sync()
        assert not log.wants_sync
        assert disk.exists(f"{DIRECTORY}/{3:020d}.snapshot")
        write(log, batch(1, 3))
        for now_ms in (300_001, 3_000_000):
            await log.apply_retention(NOW_MS + now_ms, 0)
            assert not log.wants_sync, "a recovery reads so little at once"

    run(test)


def test_a_large_state_is_stored_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_LARGE_BYTES", 1_000)

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(ROOMY, checkpoint_bytes=100))
        for producer_id in range(100):
            write(log, batch(producer_id, 0))
        await log.sync()
        size, appended = len(disk.read_file(f"{DIRECTORY}/{100:020d}.snapshot")), 0
        assert size > 1_000
        while not log.wants_sync:
            appended += len(write(log, batch(7, 1 + appended))[0].data)
        assert 4 * size <= appended < 4 * size + 500

    run(test)


def test_an_index_that_waited_for_the_disk_is_not_written_over_that_of_another_segment() -> None:
    async def test(disk: SimDisk) -> None:
        log = await after_a_truncation(disk)
        checkpoint = log._checkpoint()
        assert len(checkpoint.indexed) == 2
        log._checkpoints.append(checkpoint)
        old, *rest = log._segments
        compacted = Segment(disk, DIRECTORY, old.base_offset)
        compacted.index, compacted.indexed_bytes = old.index, old.index.size
        log._segments[:] = [compacted, *rest]
        await log.sync()
        assert not disk.exists(old.path + ".index")
        assert disk.exists(rest[-1].path + ".index")

    run(test)


def test_each_index_is_in_one_of_the_checkpoints_that_wait_for_a_sync() -> None:
    """While a sync lasts many segments may be rolled: with all of them in each checkpoint the next sync would not end."""

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        for _ in range(120):
            write(log, plain(b"r" * 80))
        waiting = list(log._checkpoints)
        assert len(waiting) > 30
        assert sum(len(checkpoint.indexed) for checkpoint in waiting) <= 2 * len(waiting)
        await log.sync()
        assert not log._checkpoints
        assert all(segment.indexed_bytes == segment.index.size for segment in log._segments[:-1])
        before = state_of(log)
        assert state_of(await open_log(disk.after_kill(), SMALL)) == before

    run(test)


def test_a_log_tells_whenever_a_sync_may_have_become_due() -> None:
    """Those that tell nothing are not looked at: there are thousands of idle ones."""

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, LogConfig(segment_bytes=600, checkpoint_bytes=300))
        told: list[bool] = []
        log.tell_changes(lambda: told.append(log.failed is not None))
        assert told == [False], "what it found when it was opened may be due"
        for sequence in range(8):
            before, due = len(told), log.wants_sync
            write(log, batch(1, sequence))
            assert len(told) > before or log.wants_sync == due
        assert log.wants_sync
        await log.sync()
        told.clear()
        await log.truncate_to(log.log_end_offset - 1)
        assert told, "other bytes are covered by an index now"
        told.clear()
        log.reconfigure(LogConfig(segment_bytes=600, checkpoint_bytes=1))
        assert told
        log._fail(StorageError("found by a read"))
        assert told[-1]

    run(test)
