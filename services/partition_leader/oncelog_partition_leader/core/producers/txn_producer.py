"""The part of a txn_producer_id's state that is never forgotten: as an object, and as the bytes that a snapshot holds of it.

    i64 txn_producer_id | i64 ended up to | i32 session epoch | u32 number of entries | these, 17 bytes each:
    i64 number | i64 offset | bool committed

Rule 1: the set of numbers that have their markers is stored among the markers, as entries with a negative number and 62 bits
        each: version 0.1, which a leader may send its snapshot to, reads them as markers of numbers that no request names.
Rule 2: packing and unpacking lose nothing, so that a producer may be kept in either form.
Rule 3: an object that a snapshot has taken is never changed: a caller that wants to change it takes a copy (`generation`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer

MARKERS_KEPT: Final = 8
"""The offset and outcome of a marker are remembered this many transaction numbers back."""
NUMBERS_KEPT: Final = 1024
"""This many transaction numbers back it is remembered whether this log has the marker at all, one bit for each. The
coordinator keeps a new number less than this above the oldest number whose markers it cannot prove to be in (its limit
`max_number_span`), so a marker from further back can only be a repeat of one that was written."""
ALL_NUMBERS: Final = (1 << NUMBERS_KEPT) - 1

_HEAD: Final = struct.Struct("<qqiI")
_BITS: Final = 62
_ENTRIES_MAX: Final = MARKERS_KEPT + 1 + NUMBERS_KEPT // _BITS + 1
_LAYOUTS: Final = [struct.Struct("<qqiI" + "qq?" * count) for count in range(_ENTRIES_MAX + 1)]
"""The layout of a record, by the number of its entries."""


class KnownMarker(NamedTuple):
    """A marker that this log has."""

    txn_no: int
    offset: int
    committed: bool


@dataclass(slots=True)
class TxnProducer:
    """One txn_producer_id. `generation`: the number of snapshots that had begun when this object was made."""

    ended_up_to: int = 0
    session_epoch: int = -1
    markers: list[KnownMarker] = field(default_factory=list)
    """In the order of their offsets; the last one may be a late marker with a lower number than the others."""
    marked: int = 0
    """Bit k is set: the marker of number `ended_up_to - k` is in the log."""
    generation: int = field(default=0, compare=False)

    def marker(self, txn_no: int) -> KnownMarker | None:
        """Returns the marker of an ended transaction, None when it is not in the log.

        Of a marker that is in the log but whose offset is no longer remembered, it returns the newest marker instead:
        once that one is below the high watermark, the older one is too.
        """
        for known in reversed(self.markers):
            if known.txn_no == txn_no:
                return known
        back = self.ended_up_to - txn_no
        if not self.markers or back < MARKERS_KEPT:
            return None
        return self.markers[-1] if back >= NUMBERS_KEPT or self.marked >> back & 1 else None

    def end(self, marker: KnownMarker) -> None:
        """Notes a marker that is in the log."""
        if marker.txn_no > self.ended_up_to:
            ahead = min(marker.txn_no - self.ended_up_to, NUMBERS_KEPT)
            self.marked = (self.marked << ahead | 1) & ALL_NUMBERS
            self.ended_up_to = marker.txn_no
        elif self.ended_up_to - marker.txn_no < NUMBERS_KEPT:
            self.marked |= 1 << self.ended_up_to - marker.txn_no
        floor = self.ended_up_to - MARKERS_KEPT
        self.markers = [known for known in self.markers if known.txn_no > floor and known.txn_no != marker.txn_no]
        self.markers.append(marker)

    def copied(self, generation: int) -> TxnProducer:
        """Returns a copy that may be changed. The list of markers is shared: `end` makes a new one."""
        return TxnProducer(self.ended_up_to, self.session_epoch, self.markers, self.marked, generation)

    def check(self) -> None:
        """Asserts the invariants."""
        assert len(self.markers) <= MARKERS_KEPT + 1
        assert self.marked <= ALL_NUMBERS
        assert all(self.marked >> self.ended_up_to - marker.txn_no & 1 for marker in self.markers[:-1])
        assert all(marker.txn_no <= self.ended_up_to for marker in self.markers)


# ---------------------------------------------------------------- bytes


def pack_txn_producer(txn_producer_id: int, known: TxnProducer) -> bytes:
    """Encodes the state of an id."""
    entries = (*_older_numbers(known), *known.markers)
    values = chain.from_iterable(entries)
    return _LAYOUTS[len(entries)].pack(txn_producer_id, known.ended_up_to, known.session_epoch, len(entries), *values)


def unpack_txn_producer(record: Buffer, position: int = 0) -> TxnProducer:
    """Decodes a whole record. Raises `CorruptMessageError` for one that remembers more numbers than are ever kept."""
    _, ended_up_to, session_epoch, count = _HEAD.unpack_from(record, position)
    known = TxnProducer(ended_up_to, session_epoch)
    values = _LAYOUTS[count].unpack_from(record, position)
    for at in range(4, len(values), 3):
        if values[at] < 0:
            known.marked |= _older_bits(-1 - values[at], values[at + 1])
        else:
            known.markers.append(KnownMarker._make(values[at : at + 3]))
    if known.markers and not known.marked:
        known.marked = _as_version_0_1_took_it(known)
    return known


def record_end(data: Buffer, position: int) -> int:
    """Returns the position after the record that begins here. Raises `CorruptMessageError` when it is not whole."""
    if position + _HEAD.size > len(data):
        raise CorruptMessageError("the producer snapshot ends too early")
    count = _HEAD.unpack_from(data, position)[3]
    if count > _ENTRIES_MAX:
        raise CorruptMessageError("the producer snapshot remembers too many markers", markers=count)
    end: int = position + _LAYOUTS[count].size
    if end > len(data):
        raise CorruptMessageError("the producer snapshot ends too early")
    return end


def txn_producer_id_of(record: Buffer, position: int = 0) -> int:
    """Returns the id of a record."""
    txn_producer_id: int = _HEAD.unpack_from(record, position)[0]
    return txn_producer_id


def session_epoch_of(record: Buffer) -> int:
    """Returns the session epoch of a record."""
    session_epoch: int = _HEAD.unpack_from(record)[2]
    return session_epoch


def _older_numbers(known: TxnProducer) -> list[KnownMarker]:
    """Cuts `known.marked` into pieces; the piece of the lowest bits comes first, under the number -1."""
    pieces = range((known.marked.bit_length() + _BITS - 1) // _BITS)
    return [KnownMarker(-1 - i, known.marked >> i * _BITS & (1 << _BITS) - 1, False) for i in pieces]


def _older_bits(piece: int, bits: int) -> int:
    """Raises `CorruptMessageError` for more bits than are ever kept: a damaged number could ask for any amount of memory."""
    if piece > NUMBERS_KEPT // _BITS or not 0 <= bits < 1 << _BITS:
        raise CorruptMessageError("the producer snapshot remembers too many numbers", piece=piece)
    return bits << piece * _BITS


def _as_version_0_1_took_it(known: TxnProducer) -> int:
    """Reads a snapshot without these bits as version 0.1 did: numbers further back than its markers count as written."""
    older = (1 << NUMBERS_KEPT) - (1 << MARKERS_KEPT)
    back = [known.ended_up_to - marker.txn_no for marker in known.markers]
    if min(back) < 0:
        raise CorruptMessageError("the producer snapshot has a marker above the newest one")
    return older | sum(1 << number for number in {*back} if number < NUMBERS_KEPT)
