"""The index of one segment: where batches lie in it, how old it is, and when it must be rolled.

Rule 1: an index entry is made about every `index_interval_bytes`; from the entry at or below a point one scans forward,
        so an index can be lost and made again from the log, never the other way round (S14).
Rule 2: an entry's time is the largest timestamp of all batches before it: monotone, so time is found by bisection.
Rule 3: control batches have no time: a lookup by time finds data.
Rule 4: an index cannot overflow. An append asks `run_that_fits` first; a batch that lies too far from the segment's base is
        refused before anything is changed.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from crc32c import crc32c

from oncelog.core.batch.header import LOG_APPEND_TIME, BatchHeader
from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer

NO_TIMESTAMP: Final = -1
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
ENTRY_BYTES: Final = 16

_HEAD: Final = struct.Struct("<IIqqqqqqqI")
_MAGIC: Final = 0x4F4C4931
_POSITION_MAX: Final = (1 << 32) - 1


def timestamp_of(header: BatchHeader) -> int:
    """Returns a batch's largest timestamp in ms, as readers see it."""
    return header.append_timestamp_ms if header.attributes & LOG_APPEND_TIME else header.max_timestamp_ms


class SegmentIndex:
    """Finds offsets and times in a segment. `base_offset` <= every offset < `next_offset`; it covers `size` bytes."""

    __slots__ = (
        "_before",
        "_offsets",
        "_positions",
        "_since_entry",
        "base_offset",
        "first_append_ms",
        "last_append_ms",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "next_offset",
        "size",
    )

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.first_append_ms = NO_TIMESTAMP
        self.last_append_ms = NO_TIMESTAMP
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = -1
        self._offsets = array("I")
        self._positions = array("I")
        self._before = array("q")
        self._since_entry = _POSITION_MAX

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, header: BatchHeader, interval_bytes: int) -> None:
        """Adds the next batch of the segment. Raises `CorruptMessageError`, and changes nothing, for one that lies too far from
        the segment's base: no sound log has such a batch.
        """
        if header.base_offset - self.base_offset > RELATIVE_OFFSET_MAX or self.size > _POSITION_MAX:
            raise CorruptMessageError("a batch lies too far from its segment's base", base_offset=header.base_offset)
        if self._since_entry >= interval_bytes:
            self._offsets.append(header.base_offset - self.base_offset)
            self._positions.append(self.size)
            self._before.append(self.max_timestamp_ms)
            self._since_entry = 0
        if not self.size:
            self.first_append_ms = header.append_timestamp_ms
        self.last_append_ms = header.append_timestamp_ms
        if not header.is_control and (timestamp_ms := timestamp_of(header)) > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
            self.max_timestamp_offset = header.last_offset
        self._since_entry += header.batch_length
        self.size += header.batch_length
        self.next_offset = header.next_offset

    def position_below(self, offset: int) -> tuple[int, int]:
        """Returns an indexed offset at or below `offset`, and the byte position of its batch."""
        index = bisect_right(self._offsets, offset - self.base_offset) - 1
        if index < 0:
            return self.base_offset, 0
        return self.base_offset + self._offsets[index], self._positions[index]

    def position_before_time(self, timestamp_ms: int) -> int:
        """Returns a byte position before which every batch is older than `timestamp_ms`."""
        index = bisect_left(self._before, timestamp_ms) - 1
        return self._positions[index] if index >= 0 else 0

    def cut_below(self, position: int) -> SegmentIndex:
        """Returns the index of the batches before the last entry below a byte position; add those from there on to it.

        Its `max_timestamp_offset` is -1 when that batch lies in `span_of_maximum`, where it has to be looked up.
        """
        cut, last = SegmentIndex(self.base_offset), bisect_left(self._positions, position) - 1
        if last <= 0:
            return cut
        cut._offsets, cut._positions = self._offsets[:last], self._positions[:last]
        cut._before = self._before[:last]
        cut.next_offset, cut.size = self.base_offset + self._offsets[last], self._positions[last]
        cut.first_append_ms = cut.last_append_ms = self.first_append_ms
        cut.max_timestamp_ms = self._before[last]
        if cut.max_timestamp_ms == self.max_timestamp_ms:
            cut.max_timestamp_offset = self.max_timestamp_offset
        return cut

    def span_of_maximum(self) -> tuple[int, int]:
        """Returns the byte positions between which the first batch with the largest timestamp begins."""
        after = bisect_left(self._before, self.max_timestamp_ms)
        end = self._positions[after] if after < len(self._positions) else self.size
        return (self._positions[after - 1] if after else 0), end

    @property
    def retention_timestamp_ms(self) -> int:
        """The time from which the age of the segment counts: its largest timestamp; without data its last append."""
        return self.max_timestamp_ms if self.max_timestamp_ms != NO_TIMESTAMP else self.last_append_ms

    def dump(self) -> bytes:
        """Encodes the index with its checksum."""
        body = self._offsets.tobytes() + self._positions.tobytes() + self._before.tobytes()
        fixed = (
            self.base_offset,
            self.next_offset,
            self.size,
            self.first_append_ms,
            self.last_append_ms,
            self.max_timestamp_ms,
            self.max_timestamp_offset,
        )
        head = _HEAD.pack(_MAGIC, len(self._offsets), *fixed, 0)
        return _HEAD.pack(_MAGIC, len(self._offsets), *fixed, crc32c(body, crc32c(head))) + body

    @classmethod
    def load(cls, data: Buffer, base_offset: int, file_size: int) -> SegmentIndex:
        """Decodes a `dump`. Raises `CorruptMessageError` unless it belongs to this segment and lies within its file."""
        if len(data) < _HEAD.size:
            raise CorruptMessageError("the index is too short", bytes_present=len(data))
        magic, count, *fixed, crc = _HEAD.unpack_from(data)
        body = memoryview(data)[_HEAD.size :]
        head = _HEAD.pack(magic, count, *fixed, 0)
        if magic != _MAGIC or len(body) != count * ENTRY_BYTES or crc32c(body, crc32c(head)) != crc:
            raise CorruptMessageError("the index does not match its checksum")
        index = cls(fixed[0])
        index.next_offset, index.size, index.first_append_ms, index.last_append_ms = fixed[1:5]
        index.max_timestamp_ms, index.max_timestamp_offset = fixed[5:]
        if index.base_offset != base_offset or not 0 <= index.size <= file_size:
            raise CorruptMessageError("the index belongs to another segment", base_offset=base_offset)
        index._offsets.frombytes(body[: 4 * count])
        index._positions.frombytes(body[4 * count : 8 * count])
        index._before.frombytes(body[8 * count :])
        try:
            index.check()
        except AssertionError as error:  # right checksum, impossible index
            raise CorruptMessageError("the index contradicts itself", base_offset=base_offset) from error
        return index

    def check(self) -> None:
        """Asserts the invariants."""
        assert self.base_offset <= self.next_offset
        if len(self._offsets) > 1:
            for values in (np.frombuffer(self._offsets, np.uint32), np.frombuffer(self._positions, np.uint32)):
                assert (values[:-1] < values[1:]).all(), "entries grow"
            before = np.frombuffer(self._before, np.int64)
            assert (before[:-1] <= before[1:]).all(), "time is monotone"
        assert not self._positions or self._positions[-1] < self.size, "entries lie within the segment"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLimits:
    """The limits at which a segment is rolled."""

    segment_bytes: int
    segment_ms: int
    index_bytes: int


def run_that_fits(index: SegmentIndex, batches: Sequence[BatchHeader], limits: SegmentLimits) -> int:
    """Counts the batches, from the first one on, that may be added to this segment; 0 = it must be rolled first.

    Each batch is judged as if those before it were added: batches of one append may belong in several segments. Every
    batch is taken to need an index entry, which is at most a few entries too many.
    """
    if index.size and batches[0].append_timestamp_ms - index.first_append_ms >= limits.segment_ms:
        return 0
    size, entries = index.size, len(index)
    for number, batch in enumerate(batches):
        entries += 1
        if size and (
            size + batch.batch_length > limits.segment_bytes
            or entries * ENTRY_BYTES > limits.index_bytes
            or batch.last_offset - index.base_offset > RELATIVE_OFFSET_MAX
        ):
            return number
        size += batch.batch_length
    return len(batches)
