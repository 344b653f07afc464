"""The records that are kept of expired producers, without limit of time: packed and sorted, just as a snapshot holds them.

Rule 1: 24 bytes per producer, and nothing is encoded when a snapshot is taken: the leaves are its bytes.
Rule 2: a leaf is never changed, only replaced, so the result of `leaves()` stays as it was.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from oncelog.types import Buffer

_RECORD: Final = struct.Struct("<qiiq")
_ID: Final = struct.Struct("<q")
_LEAF_RECORDS_MAX: Final = 512

RECORD_BYTES: Final = _RECORD.size


class ExpiredEntry(NamedTuple):
    """The part of a producer's state that is kept after its expiry."""

    producer_epoch: int
    last_sequence: int
    written: int


class ExpiredProducers:
    """Producer id -> `ExpiredEntry`, by ascending id, in leaves of up to 512 records."""

    __slots__ = ("_count", "_firsts", "_leaves")

    def __init__(self) -> None:
        self._count = 0
        self._firsts: list[int] = []
        self._leaves: list[bytes] = []

    @classmethod
    def load(cls, records: Buffer) -> ExpiredProducers:
        """Takes over the records of a snapshot, which ascend by id."""
        made, step = cls(), _LEAF_RECORDS_MAX // 2 * RECORD_BYTES
        for start in range(0, len(records), step):
            made._leaves.append(bytes(records[start : start + step]))
            made._firsts.append(_ID.unpack_from(records, start)[0])
        made._count = len(records) // RECORD_BYTES
        return made

    def leaves(self) -> list[bytes]:
        """Returns all records, in order of ids."""
        return list(self._leaves)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, producer_id: int) -> bool:
        return self.get(producer_id) is not None

    def __iter__(self) -> Iterator[int]:
        for leaf in self._leaves:
            yield from (record[0] for record in _RECORD.iter_unpack(leaf))

    def get(self, producer_id: int) -> ExpiredEntry | None:
        """Returns the record of an expired producer, None when this one has not expired."""
        if not self._leaves:
            return None
        leaf = self._leaves[self._leaf_of(producer_id)]
        at = _place(leaf, producer_id)
        return ExpiredEntry(*_RECORD.unpack_from(leaf, at)[1:]) if _holds(leaf, at, producer_id) else None

    def __setitem__(self, producer_id: int, entry: ExpiredEntry) -> None:
        record = _RECORD.pack(producer_id, *entry)
        if not self._leaves:
            self._leaves, self._firsts, self._count = [record], [producer_id], 1
            return
        number = self._leaf_of(producer_id)
        leaf = self._leaves[number]
        at = _place(leaf, producer_id)
        known = _holds(leaf, at, producer_id)
        self._count += not known
        self._replace(number, leaf[:at] + record + leaf[at + RECORD_BYTES * known :])

    def discard(self, producer_id: int) -> None:
        """Forgets a producer that writes again; does nothing when it had not expired."""
        if not self._leaves:
            return
        number = self._leaf_of(producer_id)
        leaf = self._leaves[number]
        at = _place(leaf, producer_id)
        if _holds(leaf, at, producer_id):
            self._count -= 1
            self._replace(number, leaf[:at] + leaf[at + RECORD_BYTES :])

    def _leaf_of(self, producer_id: int) -> int:
        return max(0, bisect_right(self._firsts, producer_id) - 1)

    def _replace(self, number: int, leaf: bytes) -> None:
        """Replaces a leaf; one that is too long is split in two, and an empty one is dropped."""
        parts = [leaf] if leaf else []
        if len(leaf) > _LEAF_RECORDS_MAX * RECORD_BYTES:
            middle = len(leaf) // RECORD_BYTES // 2 * RECORD_BYTES
            parts = [leaf[:middle], leaf[middle:]]
        self._leaves[number : number + 1] = parts
        self._firsts[number : number + 1] = [_ID.unpack_from(part)[0] for part in parts]

    def check(self) -> None:
        """Asserts the invariants."""
        ids = list(self)
        assert ids == sorted(set(ids)), "by ascending id, each once"
        assert len(ids) == self._count
        assert self._firsts == [_ID.unpack_from(leaf)[0] for leaf in self._leaves]


def _place(leaf: bytes, producer_id: int) -> int:
    """Returns the byte position of the first record whose id is not below this one."""
    records = range(len(leaf) // RECORD_BYTES)
    number = bisect_left(records, producer_id, key=lambda n: _ID.unpack_from(leaf, n * RECORD_BYTES)[0])
    return number * RECORD_BYTES


def _holds(leaf: bytes, at: int, producer_id: int) -> bool:
    return at < len(leaf) and _ID.unpack_from(leaf, at)[0] == producer_id
