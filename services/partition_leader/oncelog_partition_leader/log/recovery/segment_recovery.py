"""The recovery of one segment: its indexes are loaded, what they do not cover is scanned, and its tail is written again.

Rule 1: offset index and aborted index count together, or neither does (S14, S15).
Rule 2: a batch that was scanned is checked by its checksum, body too, and begins where the one before it ended.
Rule 3: a tail is copied into a file of its own, which is durable before the tail is cut off the old one (S9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from oncelog.errors import CorruptMessageError, StorageError
from oncelog_partition_leader.core.log.aborted_index import AbortedIndex, load_entries
from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs
from oncelog_partition_leader.core.log.segment import SegmentIndex
from oncelog_partition_leader.log.segment_file import INDEX_SUFFIX, LOG_SUFFIX, TXN_INDEX_SUFFIX, Located, Segment
from oncelog_partition_leader.log.state_replay import ScannedStates
from oncelog_runtime.ports import Disk

_COPY_BYTES: Final = 1 << 20


def load_index(disk: Disk, segment: Segment, aborted: AbortedIndex) -> bool:
    """Loads a segment's indexes, and adds its aborted transactions to those of the log; False when they cannot be trusted."""
    try:
        data = disk.read_file(segment.path + INDEX_SUFFIX)
        index = SegmentIndex.load(data, segment.base_offset, segment.file.size)
        data = disk.read_file(segment.path + TXN_INDEX_SUFFIX)
        entries = load_entries(data, index.base_offset, index.next_offset)
    except (CorruptMessageError, StorageError):
        return False
    for entry in entries:
        aborted.add(entry)
    segment.index, segment.indexed_bytes = index, index.size
    return True


@dataclass(slots=True)
class Tail:
    """The part of a segment that may not be on disk: where it begins in the file, and its index as a segment of its own."""

    position: int
    index: SegmentIndex


@dataclass(slots=True)
class SegmentScan:
    """Scans one segment. `synced_end`: what lies below it is on disk; what lies above becomes `tail`.

    `states`: the producer state to which the batches are applied, too; None = it is replayed later.
    """

    segment: Segment
    tag: int
    interval_bytes: int
    synced_end: int
    epochs: LeaderEpochs
    states: ScannedStates | None
    tail: Tail | None = None

    def run(self, limit: int) -> None:
        """Takes every good batch that the index does not cover. Raises like `Segment.walk`; the batches before it are taken.

        Batches at or above `limit`, the next segment's base, were moved there by an earlier recovery, and are cut off here.
        """
        segment = self.segment
        for batch in segment.walk(segment.index.size, segment.file.size, self.tag, bodies=True):
            if batch.header.base_offset >= limit:
                segment.file.truncate(batch.position)
                return
            self._take(batch)

    def _take(self, batch: Located) -> None:
        header = batch.header
        if header.base_offset != self.segment.next_offset:
            raise CorruptMessageError("a batch has another offset than follows", base_offset=header.base_offset)
        self.epochs.assign(header.leader_epoch, header.base_offset, header.next_offset)
        self.segment.index.add(header, self.interval_bytes)
        if header.next_offset > self.synced_end:
            if self.tail is None:
                self.tail = Tail(batch.position, SegmentIndex(header.base_offset))
            self.tail.index.add(header, self.interval_bytes)
        if self.states is not None:
            self.states.apply(batch)


async def move_tail(disk: Disk, directory: str, scan: SegmentScan, tail: Tail) -> Segment | None:
    """Copies the tail of a segment into a file of its own, and only then cuts it off; returns the segment of the new file.

    None when the tail is all of the segment: then the new file has taken the place of the old one.
    """
    segment, position = scan.segment, tail.position
    moved = Segment(disk, directory, tail.index.base_offset)
    swap = f"{moved.path}{LOG_SUFFIX}.swap"
    await disk.run(lambda: _copy(disk, segment, position, swap))
    rest = await disk.run(lambda: segment.index_until(position, scan.tag, scan.interval_bytes))
    file = disk.open(swap)
    await file.sync()
    file.close()
    if position == 0:
        segment.remove((INDEX_SUFFIX, TXN_INDEX_SUFFIX))
        segment.close()
    disk.rename(swap, f"{moved.path}{LOG_SUFFIX}")
    await disk.sync_dir(directory)
    if position == 0:
        return None
    segment.file.truncate(position)
    segment.index, moved.index = rest, tail.index
    return moved


def _copy(disk: Disk, segment: Segment, position: int, path: str) -> None:
    """Appends a segment's bytes from `position` on to a new file."""
    disk.remove(path)
    target = disk.open(path, create=True)
    while data := segment.file.read(position, _COPY_BYTES):
        target.append([data])
        position += len(data)
    target.close()
