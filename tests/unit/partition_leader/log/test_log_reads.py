"""Reads of a log: stable ends, and bytes that do not belong where they were found."""

from __future__ import annotations

import pytest

from oncelog.core.batch.header import read_header, stamp_prefix
from oncelog.errors import CorruptMessageError, LeaderNotAvailableError, StorageError
from oncelog_partition_leader.log import log_reads, reader
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.segment_file import Segment
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import (
    DIRECTORY,
    TAG,
    batch,
    marker,
    open_log,
    plain,
    run,
    write,
)


def test_the_last_stable_offset_waits_for_the_marker_to_be_committed() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, plain(), batch(1, 0, 2, txn=(1, 1)), plain())
        assert [log.last_stable_offset(hw) for hw in (0, 1, 4)] == [0, 1, 1]
        write(log, marker((1, 1), commit=False))
        assert (log.last_stable_offset(4), log.last_stable_offset(5)) == (1, 5)
        (entry,) = log.aborted_between(0, 5)
        assert (entry.first_offset, entry.marker_offset) == (1, 4)
        assert log.aborted_between(0, 1) == []
        assert log.aborted_between(5, 9) == []

    run(test)


# ---------------------------------------------------------------- assertions at the boundaries


def restamped(data: bytes, **changes: int) -> bytes:
    """A stored batch with other leader's fields, and a checksum that fits them."""
    header = read_header(data)._replace(**changes)
    prefix = stamp_prefix(header.base_offset, len(data), header.leader_epoch, header.append_timestamp_ms)
    return prefix + data[len(prefix) :]


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({"base_offset": 2}, {}, "does not hold the offset"),
        ({}, {"base_offset": 5}, "at another offset"),
        ({"leader_epoch": 5}, {"leader_epoch": 4}, "epoch falls"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_batches_that_no_log_writes_are_rot_when_they_are_read(
    first: dict[str, int], second: dict[str, int], why: str
) -> None:
    """Their checksums are right: what a write asserts is checked again after a read (`test_partition_log.py`)."""

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, LogConfig(tail_cache_bytes=0))
        stored = [one.data for one in write(log, batch(1, 0), batch(1, 1), epoch=4)]
        file = log._segments[-1].file
        file.truncate(0)
        file.append([restamped(stored[0], **first), restamped(stored[1], **second)])
        with pytest.raises(StorageError) as failure:
            log.read(0, 1 << 20, 2)
        assert failure.value.context["reason"] == "rot"
        assert why in failure.value.context["cause"]
        assert log.failed is not None

    run(test)


def test_a_batch_of_another_partition_is_rot_when_it_is_read() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, LogConfig(tail_cache_bytes=0))
        (stored,) = write(log, batch(1, 0))
        alien = batch(1, 0, tag=TAG + 1)
        file = log._segments[-1].file
        file.truncate(0)
        file.append([stored.data[:36] + alien[36:]])
        with pytest.raises(StorageError) as failure:
            log.read(0, 1 << 20, 1)
        assert "another partition" in failure.value.context["cause"]

    run(test)


# ---------------------------------------------------------------- segments that are replaced beside a read


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_snapshot_that_fails_is_rot_only_where_the_segments_are_still_the_logs(
    is_replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction may have put a gap where the snapshot was to end: that says nothing about the disk."""

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, plain(), plain())
        before = log._segments[0]

        def replay(*_: object) -> None:
            if is_replaced:
                log._segments[0] = Segment(disk, DIRECTORY, 0)
            raise CorruptMessageError("the replay ends elsewhere")

        monkeypatch.setattr(log_reads, "replay_states", replay)
        with pytest.raises(LeaderNotAvailableError if is_replaced else StorageError):
            await log.producer_snapshot_at(1)
        assert (log.failed is None) is is_replaced
        assert is_open(before) is not is_replaced

    run(test)


def test_a_segment_that_is_replaced_while_it_is_scrubbed_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, plain(), plain())
        before = log._segments[0]

        def scrub_piece(segment: Segment, position: int, size: int, tag: int) -> int:
            log._segments[0] = Segment(disk, DIRECTORY, 0)
            before.close()  # as the replacement does; the read opens the file again
            return reader.scrub_piece(segment, position, size, tag)

        monkeypatch.setattr(log_reads, "scrub_piece", scrub_piece)
        async for _ in log.scrub():
            assert not is_open(before)
            break

    run(test)


def is_open(segment: Segment) -> bool:
    """Whether it holds a file."""
    return segment._file is not None
