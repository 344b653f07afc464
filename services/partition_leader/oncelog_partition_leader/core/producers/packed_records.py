"""Records of different lengths by ascending id, packed into leaves: a million of them are a few thousand objects.

Rule 1: a leaf is never changed, only replaced, so what `leaves` returned stays as it was.
Rule 2: the bytes of the leaves, one after the other, are all records in order of their ids: just what a snapshot holds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_RECORDS_MAX: Final = 128


class Leaf(NamedTuple):
    """Some neighbours. `ends`: the position in `data` after each record."""

    ids: array[int]
    ends: array[int]
    data: bytes

    def record(self, number: int) -> bytes:
        """Returns the bytes of a record."""
        return self.data[self.ends[number - 1] if number else 0 : self.ends[number]]

    def with_record(self, number: int, replaces: bool, one: int, record: bytes) -> Leaf:
        """Returns a leaf that has this record at this place: instead of the one there, or before it."""
        start = self.ends[number - 1] if number else 0
        stop = self.ends[number] if replaces else start
        longer = start + len(record) - stop
        after = number + replaces
        return Leaf(
            self.ids[:number] + array("q", [one]) + self.ids[after:],
            self.ends[:number]
            + array("I", [start + len(record)])
            + array("I", [e + longer for e in self.ends[after:]]),
            self.data[:start] + record + self.data[stop:],
        )

    def halves(self) -> list[Leaf]:
        """Returns this leaf, or its two halves when it is too long."""
        if len(self.ids) <= _RECORDS_MAX:
            return [self]
        middle = len(self.ids) // 2
        cut = self.ends[middle - 1]
        return [
            Leaf(self.ids[:middle], self.ends[:middle], self.data[:cut]),
            Leaf(self.ids[middle:], array("I", [end - cut for end in self.ends[middle:]]), self.data[cut:]),
        ]

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Yields (id, bytes) of each."""
        for number, one in enumerate(self.ids):
            yield one, self.record(number)


def leaf_of(records: Iterable[tuple[int, bytes]]) -> Leaf:
    """Makes a leaf of records that ascend by id."""
    ids, ends, parts, end = array("q"), array("I"), list[bytes](), 0
    for one, record in records:
        end += len(record)
        ids.append(one)
        ends.append(end)
        parts.append(record)
    return Leaf(ids, ends, b"".join(parts))


class PackedRecords:
    """Id -> bytes. Records are replaced or added, never removed."""

    __slots__ = ("_count", "_firsts", "_leaves")

    def __init__(self) -> None:
        self._count = 0
        self._firsts: list[int] = []
        self._leaves: list[Leaf] = []

    def __len__(self) -> int:
        return self._count

    def items(self) -> Iterator[tuple[int, bytes]]:
        """Yields (id, bytes) of all records, by ascending id."""
        for leaf in self._leaves:
            yield from leaf.records()

    def leaves(self) -> list[Leaf]:
        """Returns all records, in order of their ids."""
        return list(self._leaves)

    def get(self, one: int) -> bytes | None:
        """Returns the record of an id, None when there is none."""
        if not self._leaves:
            return None
        leaf = self._leaves[self._leaf_of(one)]
        number = bisect_left(leaf.ids, one)
        return leaf.record(number) if number < len(leaf.ids) and leaf.ids[number] == one else None

    def put(self, one: int, record: bytes) -> None:
        """Replaces the record of an id, or adds it."""
        if not self._leaves:
            self._leaves, self._firsts, self._count = [leaf_of([(one, record)])], [one], 1
            return
        at = self._leaf_of(one)
        leaf = self._leaves[at]
        number = bisect_left(leaf.ids, one)
        known = number < len(leaf.ids) and leaf.ids[number] == one
        self._count += not known
        parts = leaf.with_record(number, known, one, record).halves()
        self._leaves[at : at + 1] = parts
        self._firsts[at : at + 1] = [part.ids[0] for part in parts]

    def extend(self, records: Iterable[tuple[int, bytes]]) -> None:
        """Adds the leaf of these records, whose ids ascend and are above all that are here."""
        leaf = leaf_of(records)
        self._leaves.append(leaf)
        self._firsts.append(leaf.ids[0])
        self._count += len(leaf.ids)

    def _leaf_of(self, one: int) -> int:
        return max(0, bisect_right(self._firsts, one) - 1)

    def check(self) -> None:
        """Asserts the invariants."""
        ids = [one for one, _ in self.items()]
        assert ids == sorted(set(ids)), "by ascending id, each once"
        assert len(ids) == self._count
        assert self._firsts == [leaf.ids[0] for leaf in self._leaves]
        assert all(len(leaf.ids) <= _RECORDS_MAX for leaf in self._leaves)
        assert all(leaf.ends[-1] == len(leaf.data) for leaf in self._leaves)
