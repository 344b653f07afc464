"""The transactions whose data a read_committed reader must skip on this partition.

Rule 1: an entry names the transaction and its winners; reader and compactor filter by that name, never by producer
        and offset range: transactions overlap when they are pipelined (hole 7).
Rule 2: one marker makes at most one entry, and only when something must be skipped: an abort with data here, a commit
        with data of others than the winners here, or a commit that lost records (hole 19).
Rule 3: marker offsets strictly grow; the index is a function of the log and is truncated together with it.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Set
from typing import Final, NamedTuple

from crc32c import crc32c

from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer

_HEAD: Final = struct.Struct("<IqqII")
_ENTRY: Final = struct.Struct("<qqqqqBxxxI")
_MAGIC: Final = 0x4F4C5831
_ALL: Final = 1
_LOST: Final = 2


class AbortedEntry(NamedTuple):
    """A transaction whose data, or a part of it, is to be skipped.

    `all`: every batch of the name; else every batch but the winners'. `lost`: it committed, but records are missing
    here (TRANSACTION_DATA_LOSS); then `all` is set too, since a reader may only skip it whole. `first_offset` of its
    data here, or the marker's when none is left. `unstable_from`: first offset of the oldest transaction still open
    after this marker, or the marker's next: every later entry begins at or after it.
    """

    txn_producer_id: int
    txn_no: int
    first_offset: int
    marker_offset: int
    all: bool
    winners: tuple[int, ...]
    lost: bool
    unstable_from: int

    def skips(self, producer_id: int, txn_producer_id: int, txn_no: int) -> bool:
        """Returns True when a data batch of this producer and transaction is to be skipped."""
        if (txn_producer_id, txn_no) != (self.txn_producer_id, self.txn_no):
            return False
        return self.all or producer_id not in self.winners

    def check(self) -> None:
        """Asserts the invariants."""
        assert self.first_offset <= self.marker_offset, "data lies before its marker"
        assert self.all or self.winners, "without winners everything is skipped"
        assert self.unstable_from <= self.marker_offset + 1, "nothing unstable begins after the marker"


class AbortedIndex:
    """All entries of a log, by marker offset."""

    __slots__ = ("_entries", "_markers")

    def __init__(self) -> None:
        self._entries: list[AbortedEntry] = []
        self._markers: list[int] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: AbortedEntry) -> None:
        """Adds an entry. Raises `CorruptMessageError` unless its marker lies after all known ones."""
        if self._markers and entry.marker_offset <= self._markers[-1]:
            raise CorruptMessageError("marker offsets must grow", marker_offset=entry.marker_offset)
        self._entries.append(entry)
        self._markers.append(entry.marker_offset)

    def between(self, from_offset: int, to_offset: int) -> list[AbortedEntry]:
        """Returns every entry with data or marker in [from_offset, to_offset), by marker offset."""
        found: list[AbortedEntry] = []
        for index in range(bisect_left(self._markers, from_offset), len(self._entries)):
            entry = self._entries[index]
            if entry.first_offset < to_offset:
                found.append(entry)
            if entry.unstable_from >= to_offset:
                break
        return found

    def truncate_tail(self, end_offset: int) -> None:
        """Forgets entries whose marker is at or above `end_offset`."""
        keep = bisect_left(self._markers, end_offset)
        del self._entries[keep:], self._markers[keep:]

    def truncate_head(self, start_offset: int) -> None:
        """Forgets entries whose marker is below `start_offset`: their data cannot be read any more."""
        drop = bisect_left(self._markers, start_offset)
        del self._entries[:drop], self._markers[:drop]

    def forget(self, marker_offsets: Set[int]) -> None:
        """Forgets the entries of these markers, which are not in the log any more, and neither is their data."""
        if marker_offsets:
            self._entries = [entry for entry in self._entries if entry.marker_offset not in marker_offsets]
            self._markers = [entry.marker_offset for entry in self._entries]

    def dump(self, from_offset: int, to_offset: int) -> bytes:
        """Encodes the entries with marker in [from_offset, to_offset), with that range and a checksum."""
        first, end = bisect_left(self._markers, from_offset), bisect_left(self._markers, to_offset)
        body = b"".join(_pack(entry) for entry in self._entries[first:end])
        return _HEAD.pack(_MAGIC, from_offset, to_offset, end - first, crc32c(body)) + body

    def check(self) -> None:
        """Asserts the invariants."""
        assert all(a < b for a, b in zip(self._markers, self._markers[1:], strict=False)), "marker offsets grow"
        for entry in self._entries:
            entry.check()


def load_entries(data: Buffer, from_offset: int, to_offset: int) -> Iterable[AbortedEntry]:
    """Decodes a `dump` of exactly this range. Raises `CorruptMessageError`."""
    if len(data) < _HEAD.size:
        raise CorruptMessageError("the aborted index is too short", bytes_present=len(data))
    magic, first, end, count, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if magic != _MAGIC or (first, end) != (from_offset, to_offset) or crc32c(body) != crc:
        raise CorruptMessageError("the aborted index does not match its segment or its checksum")
    entries, position = [], 0
    try:
        for _ in range(count):
            entry, position = _unpack(body, position)
            entry.check()
            entries.append(entry)
    except (struct.error, AssertionError) as error:  # a right checksum alone proves nothing about the content
        raise CorruptMessageError("the aborted index holds an entry that cannot be") from error
    if position != len(body):
        raise CorruptMessageError("the aborted index has bytes after its end")
    return entries


def _pack(entry: AbortedEntry) -> bytes:
    fixed = _ENTRY.pack(
        entry.txn_producer_id,
        entry.txn_no,
        entry.first_offset,
        entry.marker_offset,
        entry.unstable_from,
        (_ALL if entry.all else 0) | (_LOST if entry.lost else 0),
        len(entry.winners),
    )
    return fixed + struct.pack(f"<{len(entry.winners)}q", *entry.winners)


def _unpack(body: Buffer, position: int) -> tuple[AbortedEntry, int]:
    txn_producer_id, txn_no, first, marker, unstable, flags, count = _ENTRY.unpack_from(body, position)
    position += _ENTRY.size
    winners = struct.unpack_from(f"<{count}q", body, position)
    entry = AbortedEntry(
        txn_producer_id, txn_no, first, marker, bool(flags & _ALL), winners, bool(flags & _LOST), unstable
    )
    return entry, position + 8 * count
