"""Producer state as bytes: everything that a replica needs to judge batches from an end offset on as another one would.

    u32 magic, u32 crc of the rest, then (all little-endian, each list preceded by its length):
    end offset, log time | live producers, least recently seen first, each with window and what a fence set aside |
    expired producers | ended transaction ids with their markers | shard epochs | decided, maybe unstable |
    open transactions with their writers

Rule 1: all five kept batches of every window are in it, open transactions and the ended table too (W7, hole 23).
Rule 2: a damaged snapshot is refused whole; the caller takes an older one and replays the log from there.
Rule 3: the set of older numbers that have their markers is stored among the markers, as entries with a negative number and
        62 bits each: version 0.1, which a leader may send its snapshot to, reads them as markers of numbers that no request
        names.
Rule 4: a snapshot is of one moment, and is encoded in slices (`Snapshot.advance`) while the log grows: an entry that is
        about to change is encoded first. So no step of the event loop grows with the number of producers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final

from crc32c import crc32c

from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer
from oncelog_partition_leader.core.producers.expired_producers import RECORD_BYTES, ExpiredProducers
from oncelog_partition_leader.core.producers.producer_entry import ProducerEntries, ProducerEntry
from oncelog_partition_leader.core.producers.sequence_window import KeptBatch, SequenceWindow
from oncelog_partition_leader.core.producers.transactions import (
    MARKERS_KEPT,
    NUMBERS_KEPT,
    KnownMarker,
    OpenTransaction,
    Transactions,
    TxnName,
    TxnProducer,
)

_MAGIC: Final = 0x4F4C5332
_HEAD: Final = struct.Struct("<II")
_COUNT: Final = struct.Struct("<I")
_LOG: Final = struct.Struct("<qq")
_WINDOW: Final = struct.Struct("<iqqI")
_KEPT: Final = struct.Struct("<iiqIq")
_PRODUCER: Final = struct.Struct("<qiq?")
_SET_ASIDE: Final = struct.Struct("<i")
_ENDED: Final = struct.Struct("<qqi")
_MARKER: Final = struct.Struct("<qq?")
_SHARD: Final = struct.Struct("<Hi")
_DECIDED: Final = struct.Struct("<qq")
_OPEN: Final = struct.Struct("<qqqiHq")
_WRITER: Final = struct.Struct("<qq")
_BITS: Final = 62
_SLICE: Final = 500
"""Entries encoded in one step."""


class Snapshot:
    """The state at the moment in which this object was made. `data` is set once `advance` has returned True."""

    def __init__(self, producers: ProducerEntries, transactions: Transactions, end_offset: int) -> None:
        self.end_offset = end_offset
        self.data = b""
        self._producers = producers
        self._kept: dict[int, bytes] = {}
        self._ids = list(producers.live)
        self._entries = list(producers.live.values())
        self._expired = producers.expired.leaves()
        self._rest = b"".join(_dump_transactions(transactions))
        self._head = _LOG.pack(end_offset, producers.log_time_ms) + _COUNT.pack(len(self._ids))
        self._expired_head = _COUNT.pack(len(producers.expired))
        self._parts: list[bytes] = []
        self._crc = 0
        self._work = self._encode()
        producers.kept_by(self)

    def keep(self, producer_id: int, entry: ProducerEntry) -> None:
        """Encodes an entry that is about to change, unless that was done before (see `EntryKeeper`)."""
        if producer_id not in self._kept:
            self._kept[producer_id] = b"".join(_dump_entry(producer_id, entry))

    def advance(self) -> bool:
        """Encodes a slice, which takes a few milliseconds; returns True when everything is encoded."""
        if self.data:
            return True
        part = next(self._work, None)
        if part is not None:
            self._crc = crc32c(part, self._crc)
            self._parts.append(part)
            return False
        self.data = b"".join([_HEAD.pack(_MAGIC, self._crc), *self._parts])
        self._parts.clear()
        self._producers.released_by(self)
        return True

    def slices(self) -> Iterator[None]:
        """Encodes everything, a slice at a time."""
        while not self.advance():
            yield

    def whole(self) -> bytes:
        """Encodes the rest at once, and returns the snapshot's bytes."""
        for _ in self.slices():
            pass
        return self.data

    def _encode(self) -> Iterator[bytes]:
        yield self._head
        entries = zip(self._ids, self._entries, strict=True)
        while part := list(islice(entries, _SLICE)):
            yield b"".join(self._kept.pop(one, b"") or b"".join(_dump_entry(one, entry)) for one, entry in part)
        self._ids, self._entries = [], []
        yield self._expired_head
        yield b"".join(self._expired)
        yield self._rest


def load(data: Buffer, expiration_ms: int) -> tuple[ProducerEntries, Transactions, int]:
    """Decodes a snapshot: producers, transactions, end offset. Raises `CorruptMessageError`."""
    if len(data) < _HEAD.size:
        raise CorruptMessageError("the producer snapshot is too short", bytes_present=len(data))
    magic, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if magic != _MAGIC or crc32c(body) != crc:
        raise CorruptMessageError("the producer snapshot does not match its checksum")
    reader = _Reader(body)
    try:
        end_offset, log_time_ms = reader.take(_LOG)
        producers = _load_producers(reader, expiration_ms, log_time_ms)
        transactions = _load_transactions(reader)
        transactions.check()
    except (AssertionError, ValueError, OverflowError, KeyError) as error:  # right checksum, impossible values
        raise CorruptMessageError("the producer snapshot holds values that cannot be") from error
    if not reader.at_end:
        raise CorruptMessageError("the producer snapshot has bytes after its end")
    return producers, transactions, end_offset


def _dump_window(window: SequenceWindow) -> Iterator[bytes]:
    yield _WINDOW.pack(window.last_sequence, window.written, window.end_offset, len(window.kept))
    for batch in window.kept:
        yield _KEPT.pack(*batch)


def _dump_entry(producer_id: int, entry: ProducerEntry) -> Iterator[bytes]:
    yield _PRODUCER.pack(producer_id, entry.producer_epoch, entry.last_seen_ms, entry.set_aside is not None)
    yield from _dump_window(entry.window)
    if entry.set_aside is not None:
        yield _SET_ASIDE.pack(entry.set_aside[0])
        yield from _dump_window(entry.set_aside[1])


def _dump_transactions(transactions: Transactions) -> Iterator[bytes]:
    yield _COUNT.pack(len(transactions.ended))
    for producer_id, known in sorted(transactions.ended.items()):
        yield _ENDED.pack(producer_id, known.ended_up_to, known.session_epoch)
        older = _older_numbers(known)
        yield _COUNT.pack(len(older) + len(known.markers))
        for marker in (*older, *known.markers):
            yield _MARKER.pack(*marker)
    yield _COUNT.pack(len(transactions.shard_epochs))
    for shard_epoch in sorted(transactions.shard_epochs.items()):
        yield _SHARD.pack(*shard_epoch)
    yield _COUNT.pack(len(transactions.decided))
    for decided in transactions.decided:
        yield _DECIDED.pack(*decided)
    yield _COUNT.pack(len(transactions.open))
    for opened in transactions.open.values():
        yield from _dump_open(opened)


def _older_numbers(known: TxnProducer) -> list[KnownMarker]:
    """Cuts `known.marked` into pieces; the piece of the lowest bits comes first, under the number -1."""
    pieces = range((known.marked.bit_length() + _BITS - 1) // _BITS)
    return [KnownMarker(-1 - i, known.marked >> i * _BITS & (1 << _BITS) - 1, False) for i in pieces]


def _dump_open(opened: OpenTransaction) -> Iterator[bytes]:
    yield _OPEN.pack(*opened.name, opened.first_offset, opened.session_epoch, opened.txn_shard, opened.open_since_ms)
    yield _COUNT.pack(len(opened.writers))
    for producer_id, writer in opened.writers.items():
        yield _WRITER.pack(producer_id, writer.records)
        yield from _dump_window(writer.window)


class _Reader:
    """Takes packed values one after the other."""

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._position = 0

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        if self._position + layout.size > len(self._body):
            raise CorruptMessageError("the producer snapshot ends too early")
        values = layout.unpack_from(self._body, self._position)
        self._position += layout.size
        return values

    def bytes(self, length: int) -> memoryview:
        if self._position + length > len(self._body):
            raise CorruptMessageError("the producer snapshot ends too early")
        self._position += length
        return self._body[self._position - length : self._position]

    def count(self) -> range:
        return range(self.take(_COUNT)[0])

    @property
    def at_end(self) -> bool:
        return self._position == len(self._body)


def _load_window(reader: _Reader) -> SequenceWindow:
    last, written, end_offset, count = reader.take(_WINDOW)
    window = SequenceWindow(last, written, end_offset)
    window.kept = [KeptBatch(*reader.take(_KEPT)) for _ in range(count)]
    return window


def _load_producers(reader: _Reader, expiration_ms: int, log_time_ms: int) -> ProducerEntries:
    producers = ProducerEntries(expiration_ms)
    producers.log_time_ms = log_time_ms
    for _ in reader.count():
        producer_id, producer_epoch, last_seen_ms, has_set_aside = reader.take(_PRODUCER)
        entry = ProducerEntry(producer_epoch, _load_window(reader), last_seen_ms)
        if has_set_aside:
            entry.set_aside = (reader.take(_SET_ASIDE)[0], _load_window(reader))
        producers.live[producer_id] = entry
    producers.expired = ExpiredProducers.load(reader.bytes(len(reader.count()) * RECORD_BYTES))
    producers.plan_expiry()
    return producers


def _load_transactions(reader: _Reader) -> Transactions:
    transactions = Transactions()
    for _ in reader.count():
        producer_id, ended_up_to, session_epoch = reader.take(_ENDED)
        known = TxnProducer(ended_up_to, session_epoch)
        for _ in reader.count():
            txn_no, offset, committed = reader.take(_MARKER)
            if txn_no < 0:
                known.marked |= _older_bits(-1 - txn_no, offset)
            else:
                known.markers.append(KnownMarker(txn_no, offset, bool(committed)))
        if known.markers and not known.marked:
            known.marked = _as_version_0_1_took_it(known)
        transactions.ended[producer_id] = known
    for _ in reader.count():
        shard, epoch = reader.take(_SHARD)
        transactions.shard_epochs[shard] = epoch
    for _ in reader.count():
        marker_offset, first_offset = reader.take(_DECIDED)
        transactions.decided.append((marker_offset, first_offset))
    for _ in reader.count():
        transactions.begin(_load_open(reader, transactions))
    return transactions


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


def _load_open(reader: _Reader, transactions: Transactions) -> OpenTransaction:
    producer_id, txn_no, first_offset, session_epoch, shard, since_ms = reader.take(_OPEN)
    opened = OpenTransaction(TxnName(producer_id, txn_no), first_offset, session_epoch, shard, since_ms)
    for _ in reader.count():
        writer_id, records = reader.take(_WRITER)
        writer = transactions.writer(opened, writer_id)
        writer.records = records
        writer.window = _load_window(reader)
    return opened
