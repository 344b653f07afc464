"""The log of one partition: appends, reads, rolls, cuts, retention, and that all its parts move together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.core.batch.control import Control
from oncelog.core.batch.header import BatchHeader, read_header
from oncelog.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    MisdirectedBatchError,
    OffsetOutOfRangeError,
    OncelogError,
    PolicyViolationError,
    StorageError,
)
from oncelog_partition_leader.log.partition_log import LogConfig, PartitionLog
from oncelog_partition_leader.log.tail_cache import TailCache
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import (
    DIRECTORY,
    NOW_MS,
    TAG,
    batch,
    contents,
    marker,
    open_log,
    plain,
    run,
    state_of,
    write,
    write_scripted,
)

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=200, tail_cache_bytes=0)


def _refused(log: PartitionLog, error: type[OncelogError], data: bytes, epoch: int = 1) -> None:
    before = state_of(log)
    with pytest.raises(error):
        log.append_as_follower(data, epoch)
    log.check()
    assert state_of(log) == before, "a refused chunk leaves no trace"


# ---------------------------------------------------------------- appends


def test_the_leader_gives_offsets_and_stamps_its_fields() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        assert (log.log_start_offset, log.log_end_offset, log.last_epoch) == (0, 0, -1)
        first, second = write(log, batch(1, 0, 3), batch(2, 0, 2), epoch=4, now_ms=NOW_MS + 5)
        assert (first.base_offset, first.next_offset, second.base_offset, second.next_offset) == (0, 3, 3, 5)
        header = read_header(second.data)
        assert header == second.header
        assert (header.base_offset, header.leader_epoch, header.append_timestamp_ms) == (3, 4, NOW_MS + 5)
        assert second.data[36:] == batch(2, 0, 2)[36:]
        assert (log.log_end_offset, log.last_epoch, log.synced_end_offset) == (5, 4, 0)
        assert await log.sync() == 5
        log.check()

    run(test)


def test_nothing_to_append_is_nothing() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        assert write(log) == []
        log.append_as_follower(b"", 1)
        assert log.log_end_offset == 0

    run(test)


def test_a_follower_holds_the_leaders_bytes_and_state() -> None:
    async def test(disk: SimDisk) -> None:
        leader = await open_log(disk)
        follower = await open_log(disk, directory=DIRECTORY.replace("logs/", "logs/copy/"))
        write(leader, batch(1, 0, 2), batch(11, 0, 2, txn=(5, 1)), batch(12, 0, txn=(5, 1)))
        write(leader, marker((5, 1), winners=(11,)), epoch=2, now_ms=NOW_MS + 9)
        follower.append_as_follower(memoryview(contents(leader)), 2)
        assert state_of(follower) == state_of(leader)
        follower.check()

    run(test)


def test_a_follower_refuses_what_does_not_fit() -> None:
    async def test(disk: SimDisk) -> None:
        leader, follower = (
            await open_log(disk),
            await open_log(disk, directory=DIRECTORY.replace("logs/", "logs/copy/")),
        )
        a, b, c = (appended.data for appended in write(leader, plain(), plain(), plain(), epoch=3))
        follower.append_as_follower(a, 3)
        flipped = bytearray(b)
        flipped[-1] ^= 1
        _refused(follower, OffsetOutOfRangeError, c, 3)
        _refused(follower, OffsetOutOfRangeError, a, 3)
        _refused(follower, FencedLeaderEpochError, b, 2)
        _refused(follower, CorruptMessageError, b + c[:-1], 3)
        _refused(follower, CorruptMessageError, bytes(flipped), 3)
        _refused(follower, OffsetOutOfRangeError, b + b, 3)
        follower.append_as_follower(b + c, 3)
        assert contents(follower) == a + b + c

    run(test)


def test_a_follower_refuses_another_partitions_batch_and_falling_epochs() -> None:
    async def test(disk: SimDisk) -> None:
        other = await open_log(disk, directory=DIRECTORY[:-1] + "4")
        (stray,) = write(other, plain(tag=other.tag))
        log = await open_log(disk)
        with pytest.raises(MisdirectedBatchError):
            write(log, plain(tag=other.tag))
        _refused(log, CorruptMessageError, stray.data)
        write(log, plain(), epoch=5)
        second = await open_log(disk, directory=DIRECTORY.replace("logs/", "logs/copy/"))
        write(second, plain(), epoch=1)
        (late,) = write(second, plain(), epoch=4)
        _refused(log, FencedLeaderEpochError, late.data, 9)

    run(test)


def test_a_deposed_leader_cannot_append() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, plain(), epoch=5)
        with pytest.raises(FencedLeaderEpochError):
            write(log, plain(), epoch=4)
        assert log.log_end_offset == 1

    run(test)


def test_offsets_do_not_wrap() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        await log.reset_to((1 << 63) - 3, None)
        write(log, plain(count=2))
        with pytest.raises(PolicyViolationError):
            write(log, plain())
        assert log.log_end_offset == (1 << 63) - 1

    run(test)


# ---------------------------------------------------------------- assertions at the boundaries


def test_an_append_to_a_log_whose_parts_disagree_writes_nothing() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, batch(1, 0, 3))
        last = log._segments[-1]
        before = last.file.size
        last.index.size -= 1
        with pytest.raises(AssertionError, match="at the end of the file"):
            write(log, batch(1, 3, 2))
        last.index.size += 1
        assert last.file.size == before, "nothing was written"
        write(log, batch(1, 3, 2))
        log.check()

    run(test)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"base_offset": 7}, "at the log end"),
        ({"leader_epoch": 3}, "epochs never fall"),
        ({"partition_tag": TAG + 1}, "its own partition"),
        ({"batch_length": 300}, "exactly the bytes"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_batch_that_a_read_would_refuse_is_not_written(wrong: dict[str, int], why: str) -> None:
    """The reads' half of each pair is in `test_log_reads.py`."""

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        (first,) = write(log, batch(1, 0), epoch=4)
        size = log.size_bytes
        headers = [first.header._replace(base_offset=1), first.header._replace(base_offset=2)]
        for number in range(2):
            broken = list(headers)
            broken[number] = broken[number]._replace(**wrong)
            with pytest.raises(AssertionError, match=why):
                log._write([first.data, first.data], broken, [None, None])
        assert (log.size_bytes, log._segments[-1].file.size, log.failed) == (size, size, None)
        write(log, batch(1, 1), epoch=4)
        log.check()

    run(test)


def test_a_checkpoint_is_of_the_state_at_the_log_end() -> None:
    """The other half is `test_recovery.py`: a snapshot that ends elsewhere than its name says is passed over."""

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, batch(1, 0))
        log.producers.end_offset += 1
        with pytest.raises(AssertionError, match="the offset that names it"):
            log._checkpoint()

    run(test)


def test_a_log_whose_parts_disagree_after_a_write_fails() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        apply = log._apply

        def forgets(header: BatchHeader, control: Control | None) -> None:
            apply(header, control)
            log.producers.end_offset -= 1

        log._apply = forgets  # type: ignore[method-assign]
        with pytest.raises(StorageError, match="could not be applied"):
            write(log, batch(1, 0, 3))
        assert log.failed is not None
        assert log.failed.context["reason"] == "bug"

    run(test)


def test_the_tail_cache_holds_one_run_of_offsets() -> None:
    cache = TailCache(1 << 20)
    cache.push(0, 3, b"abc")
    with pytest.raises(AssertionError, match="contiguous"):
        cache.push(4, 5, b"d")
    assert cache.read(1, 10, 3) == b"abc"
    with pytest.raises(AssertionError, match="contains the offset"):
        cache.read(3, 10, 3)


# ---------------------------------------------------------------- stability


# ---------------------------------------------------------------- opening


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("config", [SMALL, LogConfig()], ids=["small", "default"])
def test_everything_is_there_after_a_restart(clean: bool, config: LogConfig) -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, config)
        write_scripted(log)
        await log.advance_log_start(3)
        before = state_of(log)
        await log.close(clean)
        again = await open_log(disk, config)
        assert state_of(again) == before
        again.check()
        assert again.synced_end_offset == again.log_end_offset
        write(again, plain(), epoch=9)
        again.check()

    run(test)


def test_a_closed_log_refuses_everything() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        await log.close()
        with pytest.raises(StorageError):
            write(log, plain())
        with pytest.raises(StorageError):
            log.read(0, 1, 1)
        with pytest.raises(StorageError):
            await log.sync()

    run(test)


# ---------------------------------------------------------------- cuts


# ---------------------------------------------------------------- retention


@pytest.mark.parametrize("clean", [True, False])
def test_producers_outlive_their_segments(clean: bool) -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(SMALL, retention_bytes=0))
        write(log, batch(1, 0, 5), batch(7, 0, txn=(7, 3)), marker((7, 3)))
        for _ in range(10):
            write(log, plain(b"r" * 100))
        await log.apply_retention(NOW_MS, high_watermark=log.log_end_offset)
        assert log.log_start_offset > 5
        before = state_of(log)
        await log.close(clean)
        again = await open_log(disk, SMALL)
        assert state_of(again) == before
        entry = again.producers.producer(1)
        assert entry is not None
        assert entry.window.last_sequence == 4

    run(test)
