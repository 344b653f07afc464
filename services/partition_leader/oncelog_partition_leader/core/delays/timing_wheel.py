"""When waiting records are due: pairs (due time, offset) in three levels of slots, the last of which may lie on disk.

    near    slots of 10 ms, for what is due within 2.56 s
    middle  slots of 2.56 s, for what is due within some 11 minutes
    far     buckets of some 11 minutes; a bucket that grows is written to a file by the shell, and read back before its time

Rule 1: a pair is handed out once, never before its time, and less than 10 ms after it when `due` is called in time.
Rule 2: pairs are kept in packed arrays, 16 bytes each, and handled by columns: adding a batch costs a step for each slot
        that it touches, not for each record.
Rule 3: a far bucket keeps at most `SPILL_PAIRS` pairs in memory; the rest is a spill for the shell to append to the bucket's
        file. Files hold nothing that the log does not say too: a lost one costs a new reading of the log.

The levels are those of a hierarchical timing wheel (Varghese and Lauck, 1987), as dictionaries of the slots in use, with a
heap of their numbers in place of a ring: an empty wheel costs nothing, and the next deadline is known without a scan.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

import numpy as np

from oncelog.types import Buffer

TICK_MS: Final = 10
MIDDLE_MS: Final = 256 * TICK_MS
BUCKET_MS: Final = 256 * MIDDLE_MS
SPILL_PAIRS: Final = 4_096
PAIR_BYTES: Final = 16

Pairs = np.ndarray[tuple[int, int], np.dtype[np.int64]]
"""Rows of (due time in milliseconds since 1970, offset)."""


class LostBucketError(Exception):
    """The file of a far bucket does not hold what was written to it."""


class Spill(NamedTuple):
    """Pairs that the shell appends to the file of a far bucket."""

    bucket: int
    data: bytes


@dataclass(slots=True)
class _Level:
    """Slots of one width, by number, and a heap of the numbers."""

    width_ms: int
    slots: dict[int, array[int]] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)

    def add(self, pairs: Pairs) -> None:
        if not len(pairs):
            return
        slots = pairs[:, 0] // self.width_ms
        order = np.argsort(slots, kind="stable")
        ordered, slots = pairs[order], slots[order]
        begins = np.flatnonzero(np.diff(slots, prepend=slots[0] - 1))
        for begin, part in zip(begins, np.split(ordered, begins[1:]), strict=True):
            self._slot(int(slots[begin])).frombytes(part.tobytes())

    def _slot(self, number: int) -> array[int]:
        found = self.slots.get(number)
        if found is None:
            found = self.slots[number] = array("q")
            heappush(self.numbers, number)
        return found

    def take_before(self, end_ms: int) -> Pairs:
        """Removes the slots that begin before `end_ms`, and returns their pairs."""
        taken = []
        while self.numbers and self.numbers[0] * self.width_ms < end_ms:
            taken.append(pairs_of(self.slots.pop(heappop(self.numbers))))
        return np.concatenate(taken) if taken else _NONE


@dataclass(slots=True)
class _Bucket:
    """A far bucket: pairs in memory, and how many lie in its file."""

    pairs: array[int] = field(default_factory=lambda: array("q"))
    spilled: int = 0


class TimingWheel:
    """Holds what waits. `now_ms` is the wall clock; when it goes back, nothing is due for a while."""

    def __init__(self) -> None:
        self._near = _Level(TICK_MS)
        self._middle = _Level(MIDDLE_MS)
        self._far: dict[int, _Bucket] = {}
        self._far_numbers: list[int] = []
        self._spills: list[Spill] = []
        self._reached_ms = 0
        """Pairs that are due before this are in near slots."""

    def add(self, pairs: Pairs, now_ms: int) -> None:
        """Adds pairs; what is due already is handed out by the next `due`."""
        due, far_begin = pairs[:, 0], _far_begin(now_ms)
        is_near, is_far = due < self._reached_ms, due >= far_begin
        self._near.add(pairs[is_near])
        self._middle.add(pairs[~is_near & ~is_far])
        for number, part in _by_bucket(pairs[~is_near & is_far]):
            self._put_far(number, part)

    def due(self, now_ms: int) -> Pairs:
        """Removes and returns what is due, in the order of times and offsets."""
        self._reached_ms = max(self._reached_ms, (now_ms // MIDDLE_MS + 2) * MIDDLE_MS)
        self._near.add(self._middle.take_before(self._reached_ms))
        found = self._near.take_before(now_ms - TICK_MS + 2)
        return found[np.lexsort((found[:, 1], found[:, 0]))]

    def next_due_ms(self) -> int | None:
        """Returns when to call `due` and `wanted_buckets` again; None = nothing waits."""
        times = []
        if self._near.numbers:
            times.append((self._near.numbers[0] + 1) * TICK_MS - 1)
        if self._middle.numbers:
            times.append((self._middle.numbers[0] - 1) * MIDDLE_MS)
        if self._far_numbers:
            times.append((self._far_numbers[0] - 1) * BUCKET_MS)
        return min(times, default=None)

    # ------------------------------------------------------------ far buckets

    def take_spills(self) -> list[Spill]:
        """Returns what the shell has to append to bucket files, in this order."""
        spills, self._spills = self._spills, []
        return spills

    def wanted_buckets(self, now_ms: int) -> list[int]:
        """Returns the far buckets whose time comes near: the shell reads their files, and calls `load`."""
        end_ms = _far_begin(now_ms)
        return sorted(number for number in self._far_numbers if number * BUCKET_MS < end_ms)

    def load(self, bucket: int, data: Buffer) -> None:
        """Moves a far bucket into the nearer levels. `data` is its file, empty without one. Spills that were not taken need
        not be in it. Raises `LostBucketError`: then the log is read again.
        """
        found = self._far[bucket]
        waiting = b"".join(spill.data for spill in self._spills if spill.bucket == bucket)
        if len(data) + len(waiting) != found.spilled * PAIR_BYTES:
            raise LostBucketError(
                f"bucket {bucket} has {len(data)} of {found.spilled * PAIR_BYTES - len(waiting)} bytes"
            )
        self._spills = [spill for spill in self._spills if spill.bucket != bucket]
        del self._far[bucket]
        self._far_numbers.remove(bucket)
        heapify(self._far_numbers)
        for part in (data, waiting, found.pairs.tobytes()):
            pairs = np.frombuffer(part, np.int64).reshape(-1, 2)
            is_near = pairs[:, 0] < self._reached_ms
            self._near.add(pairs[is_near])
            self._middle.add(pairs[~is_near])

    def spilled(self, bucket: int) -> int:
        """Returns how many pairs of a bucket are in its file, or on their way to it."""
        return self._far[bucket].spilled if bucket in self._far else 0

    def _put_far(self, number: int, pairs: Pairs) -> None:
        bucket = self._far.get(number)
        if bucket is None:
            bucket = self._far[number] = _Bucket()
            heappush(self._far_numbers, number)
        bucket.pairs.frombytes(pairs.tobytes())
        if len(bucket.pairs) >= 2 * SPILL_PAIRS:
            self._spills.append(Spill(number, bucket.pairs.tobytes()))
            bucket.spilled += len(bucket.pairs) // 2
            bucket.pairs = array("q")

    @property
    def in_memory(self) -> int:
        """How many pairs are in memory."""
        levels = (*self._near.slots.values(), *self._middle.slots.values(), *(one.pairs for one in self._far.values()))
        return sum(len(slot) for slot in levels) // 2


def pairs_of(slot: array[int]) -> Pairs:
    """Returns the pairs of a packed slot."""
    return np.frombuffer(slot.tobytes(), np.int64).reshape(-1, 2)


def _far_begin(now_ms: int) -> int:
    """Returns where the far buckets begin: at least one whole bucket from now."""
    return (now_ms // BUCKET_MS + 2) * BUCKET_MS


def _by_bucket(pairs: Pairs) -> list[tuple[int, Pairs]]:
    if not len(pairs):
        return []
    numbers = pairs[:, 0] // BUCKET_MS
    return [(int(number), pairs[numbers == number]) for number in np.unique(numbers)]


_NONE: Final = np.empty((0, 2), np.int64)
