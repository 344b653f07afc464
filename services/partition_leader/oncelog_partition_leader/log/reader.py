"""Finding and reading batches in the segments of a log.

Rule 1: a field is used only after its checksum was checked: a lookup uses the prefix alone (base offset, length); a batch
        that is handed out has its body, its partition and its offset checked (S11-S13, S31).
Rule 2: a reader never gets an empty answer for a batch that cannot be read: that is an error.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from oncelog.core.batch.header import HEADER_BYTES, read_header
from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer
from oncelog_partition_leader.core.log.segment import timestamp_of
from oncelog_partition_leader.log.segment_file import Segment, check_whole

_READ_BYTES: Final = 1 << 16
_PIECE_BYTES: Final = 1 << 20


class NoRoomError(Exception):
    """The next batch is longer than the reader's room; `bytes` is its length."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the next batch has {size} bytes")
        self.bytes = size


def segment_of(segments: Sequence[Segment], offset: int) -> Segment:
    """Returns the segment that holds `offset`, or the last one; `offset` is not below the first."""
    return segments[bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1]


def locate(segment: Segment, offset: int, tag: int) -> tuple[int, int]:
    """Returns base offset and byte position of the batch with `offset`: the last one that begins at or below it."""
    base_offset, position = segment.index.position_below(offset)
    for found in segment.walk(position, segment.index.size, tag, bodies=False):
        if found.header.base_offset > offset:
            break
        base_offset, position = found.header.base_offset, found.position
        if base_offset == offset:
            break  # nearly always: spares reading the next header
    return base_offset, position


def read_batches(
    segment: Segment, offset: int, max_bytes: int, end_offset: int, tag: int, room: int | None = None
) -> Buffer:
    """Returns whole checked batches of one segment, from the one with `offset` on, none that reaches above `end_offset`.

    The first one is returned even when it is longer than `max_bytes`, but not when it is longer than `room`: `NoRoomError`.
    Raises `CorruptMessageError` and `StorageError`.
    """
    base_offset, start = locate(segment, offset, tag)
    present = segment.index.size - start
    data = segment.file.read(start, min(present, max(max_bytes, _READ_BYTES)))
    header = read_header(data, 0, present)
    if not header.base_offset <= offset < header.next_offset:
        raise CorruptMessageError("the batch that was found does not hold the offset", base_offset=header.base_offset)
    length = header.batch_length
    if room is not None and length > room and header.next_offset <= end_offset:
        raise NoRoomError(length)
    if length > len(data):
        data = segment.file.read(start, length)
    taken = _whole_batches(data, base_offset, present, max(max_bytes, length), end_offset, tag)
    if taken == len(data):
        return data
    found = memoryview(data)[:taken]
    return found if 2 * taken > len(data) else bytes(found)  # a small view would keep all that was read


def _whole_batches(data: bytes, offset: int, present: int, max_bytes: int, end_offset: int, tag: int) -> int:
    """Counts the bytes of `data` that are whole batches within the bounds."""
    position, epoch = 0, -1
    while len(data) - position >= HEADER_BYTES:
        header = read_header(data, position, present - position)
        after = position + header.batch_length
        if after > min(len(data), max_bytes):
            break
        check_whole(data, header, position, tag)
        if header.base_offset != offset:
            raise CorruptMessageError("a batch lies at another offset", base_offset=header.base_offset)
        if header.leader_epoch < epoch:
            raise CorruptMessageError("the leader epoch falls", leader_epoch=header.leader_epoch, last_epoch=epoch)
        if header.next_offset > end_offset:
            break
        offset, epoch, position = header.next_offset, header.leader_epoch, after
    return position


def first_at(segments: Sequence[Segment], timestamp_ms: int, log_start_offset: int, tag: int) -> tuple[int, int] | None:
    """Returns (first offset, time) of the first data batch with a record at or after a time; None = none."""
    for segment in segments:
        if segment.index.max_timestamp_ms >= timestamp_ms and segment.next_offset > log_start_offset:
            found = _first_in(segment, timestamp_ms, log_start_offset, tag)
            if found is not None:
                return found
    return None


def _first_in(segment: Segment, timestamp_ms: int, log_start_offset: int, tag: int) -> tuple[int, int] | None:
    position = max(segment.index.position_before_time(timestamp_ms), segment.index.position_below(log_start_offset)[1])
    for batch in segment.walk(position, segment.index.size, tag, bodies=False):
        header = batch.header
        if header.is_control or timestamp_of(header) < timestamp_ms or header.next_offset <= log_start_offset:
            continue
        first, last = header.base_timestamp_ms, timestamp_of(header)
        return max(header.base_offset, log_start_offset), first if timestamp_ms <= first <= last else last
    return None


def scrub_piece(segment: Segment, position: int, size: int, tag: int) -> int:
    """Checks whole batches from `position` on, about 1 MiB of them, none beyond `size`; returns the position after them.

    Raises `CorruptMessageError` (and its likes) or `StorageError`.
    """
    end = position
    for batch in segment.walk(position, size, tag, bodies=True):
        end = batch.position + batch.header.batch_length
        if end - position >= _PIECE_BYTES:
            break
    return end
