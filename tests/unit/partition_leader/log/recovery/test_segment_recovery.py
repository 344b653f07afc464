"""The recovery of one segment: its indexes, what they do not cover, and its tail."""

from __future__ import annotations

import pytest

from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.log.aborted_index import AbortedIndex
from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs
from oncelog_partition_leader.log.recovery.segment_recovery import SegmentScan, load_index, move_tail
from oncelog_partition_leader.log.segment_file import Segment
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import DIRECTORY, TAG, batch, open_log, run, write

INTERVAL_BYTES = 200


async def segment_of(disk: SimDisk, count: int = 3) -> Segment:
    """The one segment of a log of `count` records, each a batch, whose process was killed: no index covers them."""
    log = await open_log(disk)
    for n in range(count):
        write(log, batch(1, n))
    await log.sync()
    await log.close(clean=False)
    for suffix in ("index", "txnindex"):
        disk.remove(f"{DIRECTORY}/{0:020d}.{suffix}")
    return Segment(disk, DIRECTORY, 0)


def scan_of(segment: Segment, synced_end: int) -> SegmentScan:
    return SegmentScan(segment, TAG, INTERVAL_BYTES, synced_end, LeaderEpochs(), None)


def test_without_indexes_a_segment_is_not_trusted() -> None:
    async def test(disk: SimDisk) -> None:
        segment = await segment_of(disk)
        assert not load_index(disk, segment, AbortedIndex())
        assert segment.index.size == 0

    run(test)


@pytest.mark.parametrize("synced_end", range(4))
def test_what_lies_above_the_synced_end_becomes_the_tail(synced_end: int) -> None:
    async def test(disk: SimDisk) -> None:
        segment = await segment_of(disk)
        scan = scan_of(segment, synced_end)
        scan.run(1 << 63)
        assert segment.next_offset == 3
        tails = [] if scan.tail is None else [(scan.tail.index.base_offset, scan.tail.index.next_offset)]
        assert tails == ([(synced_end, 3)] if synced_end < 3 else [])

    run(test)


def test_what_belongs_to_the_next_segment_is_cut_off() -> None:
    async def test(disk: SimDisk) -> None:
        segment = await segment_of(disk)
        scan_of(segment, 3).run(2)
        assert (segment.next_offset, segment.file.size) == (2, segment.index.size)

    run(test)


def test_the_batches_before_a_bad_one_are_taken() -> None:
    async def test(disk: SimDisk) -> None:
        segment = await segment_of(disk)
        size = segment.file.size
        disk.flip_bit(f"{DIRECTORY}/{0:020d}.log", size - 1)
        scan = scan_of(segment, 1)
        with pytest.raises(CorruptMessageError):
            scan.run(1 << 63)
        assert segment.next_offset == 2
        assert scan.tail is not None
        assert scan.tail.index.next_offset == 2

    run(test)


@pytest.mark.parametrize("synced_end", [0, 1, 2])
def test_a_tail_is_durable_in_a_file_of_its_own_before_it_is_cut_off(synced_end: int) -> None:
    async def test(disk: SimDisk) -> None:
        segment = await segment_of(disk)
        held = segment.file.read(0, segment.file.size)
        scan = scan_of(segment, synced_end)
        scan.run(1 << 63)
        assert scan.tail is not None
        position = scan.tail.position
        moved = await move_tail(disk, DIRECTORY, scan, scan.tail)
        assert (moved is None) == (synced_end == 0), "a tail that is all of the segment takes its place"
        assert segment.index.next_offset == (synced_end or 3)
        after = disk.after_power_cut()
        tail = Segment(after, DIRECTORY, synced_end)
        assert tail.file.read(0, tail.file.size) == held[position:]

    run(test)
