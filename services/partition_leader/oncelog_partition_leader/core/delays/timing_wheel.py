"""When waiting records are due: pairs (due time, offset) in four levels of slots, the last two of which may lie on disk.

    late    in no slot: what was due when it was added
    near    slots of 2 ms, for what is due within 2.56 s
    middle  slots of 2.56 s, for what is due within some 11 minutes
    far     buckets of some 11 minutes, for what is due within some two days
    remote  buckets of some two days

A bucket that grows is written to a file by the shell, and read back before its time.

Rule 1: a pair is handed out once, never before its time, and less than 2 ms after it when `due` is called in time.
Rule 2: pairs are kept in packed arrays, 16 bytes each, and handled by columns: adding a batch costs a step for each slot
        that it touches, not for each record.
Rule 3: a bucket keeps at most `SPILL_PAIRS` pairs in memory, and there are some 700 buckets in a year; the rest is a spill for
        the shell to append to the bucket's file. Files hold nothing that the log does not say too: one that is lost, or is not
        what was written, costs a new reading of the log.
Rule 4: a new leader reads again what was moved long ago, and learns only later in the log that it was. So such pairs cost 16
        bytes, in one array for all times, and `keep_late` lets go of those that do not wait any more.

The levels are those of a hierarchical timing wheel (Varghese and Lauck, 1987), as dictionaries of the slots in use, with a
heap of their numbers in place of a ring: an empty wheel costs nothing, and the next deadline is known without a scan.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from crc32c import crc32c

from oncelog.types import Buffer
from oncelog_partition_leader.core.delays.waiting_offsets import Mask, Offsets

TICK_MS: Final = 2
MIDDLE_MS: Final = 1_280 * TICK_MS
FAR_MS: Final = 256 * MIDDLE_MS
REMOTE_MS: Final = 256 * FAR_MS
SPILL_PAIRS: Final = 1_024
PAIR_BYTES: Final = 16
_KEEP_PAIRS: Final = 5_000
"""Late pairs that are looked up at once: each may cost a kibibyte meanwhile."""

Pairs = np.ndarray[tuple[int, int], np.dtype[np.int64]]
"""Rows of (due time in milliseconds since 1970, offset)."""


class LostBucketError(Exception):
    """The file of a bucket does not hold what was written to it."""


class Bucket(NamedTuple):
    """The name of a bucket: the pairs that are due within `width_ms` from `number * width_ms` on."""

    width_ms: int
    number: int

    @property
    def begin_ms(self) -> int:
        """The time at which the first of its pairs may be due."""
        return self.number * self.width_ms


class Spill(NamedTuple):
    """Pairs that the shell appends to the file of a bucket."""

    bucket: Bucket
    data: bytes


@dataclass(slots=True)
class _Level:
    """Slots of one width, by number, and a heap of the numbers."""

    width_ms: int
    slots: dict[int, array[int]] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)

    def add(self, pairs: Pairs) -> None:
        for number, part in by_slot(pairs, self.width_ms):
            self._slot(number).frombytes(part.tobytes())

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
class _Held:
    """A bucket: its pairs in memory, how many pairs lie in its file, and their checksum."""

    pairs: array[int] = field(default_factory=lambda: array("q"))
    spilled: int = 0
    crc: int = 0

    def spill(self) -> bytes:
        """Takes the pairs out of memory; they are in the file from now on."""
        data = self.pairs.tobytes()
        self.spilled += len(self.pairs) // 2
        self.crc = crc32c(data, self.crc)
        self.pairs = array("q")
        return data


@dataclass(slots=True)
class _Buckets:
    """Buckets of one width, by number, and a heap of the numbers."""

    width_ms: int
    held: dict[int, _Held] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)

    def begin_ms(self, now_ms: int) -> int:
        """Returns where these buckets begin: at least one whole bucket from now."""
        return (now_ms // self.width_ms + 2) * self.width_ms

    def add(self, pairs: Pairs) -> Iterator[Spill]:
        """Adds pairs; yields what became too much for the memory."""
        for number, part in by_slot(pairs, self.width_ms):
            held = self.held.get(number)
            if held is None:
                held = self.held[number] = _Held()
                heappush(self.numbers, number)
            held.pairs.frombytes(part.tobytes())
            if len(held.pairs) >= 2 * SPILL_PAIRS:
                yield Spill(Bucket(self.width_ms, number), held.spill())

    def wanted(self, now_ms: int) -> list[Bucket]:
        """Returns those whose time comes near; without a look at all of them when there are none."""
        end_ms = self.begin_ms(now_ms)
        if not self.numbers or self.numbers[0] * self.width_ms >= end_ms:
            return []
        near = sorted(number for number in self.numbers if number * self.width_ms < end_ms)
        return [Bucket(self.width_ms, number) for number in near]

    def next_ms(self) -> int | None:
        """Returns when the first one is wanted."""
        return (self.numbers[0] - 1) * self.width_ms if self.numbers else None

    def remove(self, number: int) -> None:
        """Removes a bucket."""
        del self.held[number]
        self.numbers.remove(number)
        heapify(self.numbers)


class TimingWheel:
    """Holds what waits. `now_ms` is the wall clock; when it goes back, nothing is due for a while."""

    def __init__(self) -> None:
        self._late = array("q")
        self._near = _Level(TICK_MS)
        self._middle = _Level(MIDDLE_MS)
        self._far = _Buckets(FAR_MS)
        self._remote = _Buckets(REMOTE_MS)
        self._spills: list[Spill] = []
        self._reached_ms = 0
        """Pairs that are due before this are in near slots, or late."""

    def add(self, pairs: Pairs, now_ms: int) -> None:
        """Adds pairs; what is due already is handed out by the next `due`."""
        if not len(pairs):
            return
        due, far_ms, remote_ms = pairs[:, 0], self._far.begin_ms(now_ms), self._remote.begin_ms(now_ms)
        is_late = due <= now_ms
        is_near = ~is_late & (due < self._reached_ms)
        is_later = ~(is_late | is_near)
        self._late.frombytes(pairs[is_late].tobytes())
        self._near.add(pairs[is_near])
        self._middle.add(pairs[is_later & (due < far_ms)])
        self._spills += self._far.add(pairs[is_later & (due >= far_ms) & (due < remote_ms)])
        self._spills += self._remote.add(pairs[is_later & (due >= remote_ms)])

    def due(self, now_ms: int) -> Pairs:
        """Removes and returns what is due, in the order of times and offsets."""
        self._reached_ms = max(self._reached_ms, (now_ms // MIDDLE_MS + 2) * MIDDLE_MS)
        self._near.add(self._middle.take_before(self._reached_ms))
        late, self._late = pairs_of(self._late), array("q")
        self.add(late[late[:, 0] > now_ms], now_ms)  # the clock has gone back
        found = np.concatenate((late[late[:, 0] <= now_ms], self._near.take_before(now_ms - TICK_MS + 2)))
        return found[np.lexsort((found[:, 1], found[:, 0]))]

    def next_due_ms(self) -> int | None:
        """Returns when to call `due` and `wanted_buckets` again; None = nothing waits."""
        times = [level.next_ms() for level in (self._far, self._remote)]
        if self._late:
            times.append(int(pairs_of(self._late)[:, 0].min()))
        if self._near.numbers:
            times.append((self._near.numbers[0] + 1) * TICK_MS - 1)
        if self._middle.numbers:
            times.append((self._middle.numbers[0] - 1) * MIDDLE_MS)
        return min((time for time in times if time is not None), default=None)

    def keep_late(self, are_waiting: Callable[[Offsets], Mask]) -> None:
        """Lets go of late pairs whose records do not wait any more."""
        late = pairs_of(self._late)
        self._late = array("q")
        for first in range(0, len(late), _KEEP_PAIRS):
            piece = late[first : first + _KEEP_PAIRS]
            self._late.frombytes(piece[are_waiting(piece[:, 1])].tobytes())

    @property
    def late(self) -> int:
        """How many pairs were due when they were added, and were not handed out."""
        return len(self._late) // 2

    # ------------------------------------------------------------ buckets

    def take_spills(self) -> list[Spill]:
        """Returns what the shell has to append to bucket files, in this order."""
        spills, self._spills = self._spills, []
        return spills

    def wanted_buckets(self, now_ms: int) -> list[Bucket]:
        """Returns the buckets whose time comes near: the shell reads their files, and calls `load`."""
        return self._remote.wanted(now_ms) + self._far.wanted(now_ms)

    def load(self, bucket: Bucket, data: Buffer, now_ms: int) -> None:
        """Moves a bucket into the nearer levels. `data` is its file, empty without one. Spills that were not taken need not be
        in it. Raises `LostBucketError`: then the log is read again.
        """
        level = self._remote if bucket.width_ms == REMOTE_MS else self._far
        held = level.held[bucket.number]
        waiting = b"".join(spill.data for spill in self._spills if spill.bucket == bucket)
        if len(data) + len(waiting) != held.spilled * PAIR_BYTES or crc32c(waiting, crc32c(bytes(data))) != held.crc:
            raise LostBucketError(f"the file of {bucket} has {len(data)} bytes, and not those that were written to it")
        self._spills = [spill for spill in self._spills if spill.bucket != bucket]
        level.remove(bucket.number)
        for part in (data, waiting, held.pairs.tobytes()):
            self.add(np.frombuffer(part, np.int64).reshape(-1, 2), now_ms)

    def spilled(self, bucket: Bucket) -> int:
        """Returns how many pairs of a bucket are in its file, or on their way to it."""
        level = self._remote if bucket.width_ms == REMOTE_MS else self._far
        return level.held[bucket.number].spilled if bucket.number in level.held else 0

    @property
    def in_memory(self) -> int:
        """How many pairs are in memory."""
        slots = [*self._near.slots.values(), *self._middle.slots.values()]
        slots += [held.pairs for level in (self._far, self._remote) for held in level.held.values()]
        return sum(len(slot) for slot in slots) // 2 + self.late


def pairs_of(slot: array[int]) -> Pairs:
    """Returns the pairs of a packed slot."""
    return np.frombuffer(slot.tobytes(), np.int64).reshape(-1, 2)


def by_slot(pairs: Pairs, width_ms: int) -> Iterator[tuple[int, Pairs]]:
    """Yields the pairs of each slot of this width, with its number."""
    if not len(pairs):
        return
    slots = pairs[:, 0] // width_ms
    order = np.argsort(slots, kind="stable")
    ordered, slots = pairs[order], slots[order]
    begins = np.flatnonzero(np.diff(slots, prepend=slots[0] - 1))
    for begin, part in zip(begins.tolist(), np.split(ordered, begins[1:]), strict=True):
        yield int(slots[begin]), part


_NONE: Final = np.empty((0, 2), np.int64)
