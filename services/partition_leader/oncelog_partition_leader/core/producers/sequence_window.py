"""The sequences that one producer has written in one epoch, or in one transaction, and the one that it may write next.

Rule 1: `judge` tests for the *next* sequence first, then for an exact repeat of a kept batch, then for the distance in
        the ring (hole 21).
Rule 2: content is compared by the body's checksum (hole 25). Only the compactor rewrites that; of a batch from which it took
        records no content is kept (`pass_over`).
Rule 3: an older repeat is a duplicate only if this producer really wrote that many records: contiguous sequences prove
        it, and `written` bounds it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog.core.batch.sequence import DUPLICATE_WINDOW, SEQUENCES, distance, last_sequence, successor
from oncelog.errors import DuplicateSequenceError, OutOfOrderSequenceError

KEPT_BATCHES: Final = 16
"""As many batches as a producer may have in flight per partition (`max_in_flight_requests_per_connection`)."""

NOTHING_WRITTEN: Final = -1


class KeptBatch(NamedTuple):
    """One of the newest batches: the values that a retry must match, and those with which it is acknowledged."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    body_crc: int
    append_timestamp_ms: int


class Older(NamedTuple):
    """The answer for a repeat of a batch that was certainly written, but whose offset is no longer known."""


OLDER: Final = Older()


class SequenceWindow:
    """The newest sequence, the number of records written, and the last `KEPT_BATCHES` batches."""

    __slots__ = ("end_offset", "kept", "last_sequence", "written")

    def __init__(self, last: int = NOTHING_WRITTEN, written: int = 0, end_offset: int = 0) -> None:
        self.last_sequence = last
        self.written = written
        self.end_offset = end_offset
        self.kept: list[KeptBatch] = []

    def copied(self) -> SequenceWindow:
        """Returns a copy."""
        copy = SequenceWindow(self.last_sequence, self.written, self.end_offset)
        copy.kept = self.kept.copy()
        return copy

    def judge(self, base_sequence: int, record_count: int, body_crc: int) -> KeptBatch | Older | None:
        """Returns None for the next batch, and the kept batch or `OLDER` for a repeat.

        Raises `DuplicateSequenceError` (same sequences, other content) or `OutOfOrderSequenceError` (gap or overlap).
        """
        if base_sequence == successor(self.last_sequence):
            return None
        last = last_sequence(base_sequence, record_count)
        for batch in self.kept:
            if batch.base_sequence == base_sequence and batch.last_sequence == last:
                if batch.body_crc != body_crc:
                    raise DuplicateSequenceError("the same sequence with other content", base_sequence=base_sequence)
                return batch
        if self._was_written(base_sequence, last):
            return OLDER
        raise OutOfOrderSequenceError(
            "a gap or a partial overlap in the producer's sequence",
            base_sequence=base_sequence,
            expected_sequence=successor(self.last_sequence),
        )

    def find(self, base_sequence: int, last: int) -> KeptBatch | Older | None:
        """Returns the batch with exactly these sequences if it was written, else None; its content is not compared."""
        for batch in self.kept:
            if batch.base_sequence == base_sequence and batch.last_sequence == last:
                return batch
        return OLDER if self._was_written(base_sequence, last) else None

    def _was_written(self, base_sequence: int, last: int) -> bool:
        """Returns True for a batch that lies wholly before the kept ones, and within the records that were written."""
        newest = self.last_sequence
        if newest == NOTHING_WRITTEN:
            return False
        oldest_back = distance(self.kept[0].base_sequence, newest) if self.kept else -1
        base_back, last_back = distance(base_sequence, newest), distance(last, newest)
        return oldest_back < last_back <= base_back < self.written and last_back < DUPLICATE_WINDOW

    def push(self, base_sequence: int, record_count: int, base_offset: int, body_crc: int, timestamp_ms: int) -> None:
        """Takes a batch that is in the log without judging it, since a leader has done so; a gap counts as written."""
        last = last_sequence(base_sequence, record_count)
        if self.last_sequence == NOTHING_WRITTEN:
            self.written = base_sequence + record_count
        else:
            self.written += distance(self.last_sequence, last)
        if base_sequence != successor(self.last_sequence):
            self.kept.clear()
        elif len(self.kept) == KEPT_BATCHES:
            del self.kept[0]
        self.kept.append(KeptBatch(base_sequence, last, base_offset, body_crc, timestamp_ms))
        self.last_sequence = last
        self.end_offset = base_offset + record_count

    def pass_over(self, base_sequence: int, offset_count: int, base_offset: int) -> None:
        """Takes a batch from which the compactor took records: it has as many sequences as offsets.

        Its content is no longer what the producer sent, so a repeat of it is known by its sequences alone (`Older`).
        """
        self.push(base_sequence, offset_count, base_offset, 0, 0)
        self.kept.clear()

    def check(self) -> None:
        """Asserts the invariants."""
        assert len(self.kept) <= KEPT_BATCHES
        assert -1 <= self.last_sequence < SEQUENCES
        for older, newer in zip(self.kept, self.kept[1:], strict=False):
            assert newer.base_sequence == successor(older.last_sequence), "kept batches are contiguous"
            assert newer.base_offset > older.base_offset, "and in the order of the log"
        if self.kept:
            assert self.kept[-1].last_sequence == self.last_sequence
