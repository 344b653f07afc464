"""Producer state as bytes: everything that a replica needs to judge batches from an end offset on as another one would.

    u32 magic, u32 crc of the rest, then (all little-endian, each list preceded by its length):
    end offset, log time | live producers, least recently seen first, each with window and what a fence set aside |
    expired producers | ended transaction ids with their markers | shard epochs | decided, maybe unstable |
    open transactions with their writers

Rule 1: the newest five batches of every window are in it, open transactions and the ended table too (W7, hole 23).
Rule 2: a damaged snapshot is refused whole; the caller takes an older one and replays the log from there.
Rule 3: the layout of each record stands where the object is that it encodes: `packed_entry`, `expired_producers`,
        `txn_producer`. Version 0.1 reads it too.
Rule 4: a snapshot is of the moment at which it began, which takes the event loop only as long as copying references to what
        is there. Encoding it (`whole`) is for another thread, while the log grows: nothing of that moment is changed any
        more, only replaced. So no step of the event loop grows with the number of producers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Final

from crc32c import crc32c

from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer
from oncelog_partition_leader.core.producers.ended_transactions import EndedTransactions
from oncelog_partition_leader.core.producers.expired_producers import RECORD_BYTES, ExpiredProducers
from oncelog_partition_leader.core.producers.packed_entry import (
    entry_end,
    id_of,
    pack_window,
    unpack_window,
    window_end,
)
from oncelog_partition_leader.core.producers.producer_entry import ProducerEntries
from oncelog_partition_leader.core.producers.sequence_window import SequenceWindow
from oncelog_partition_leader.core.producers.transactions import OpenTransaction, Transactions, TxnName
from oncelog_partition_leader.core.producers.txn_producer import record_end, txn_producer_id_of, unpack_txn_producer

_MAGIC: Final = 0x4F4C5332
_HEAD: Final = struct.Struct("<II")
_COUNT: Final = struct.Struct("<I")
_LOG: Final = struct.Struct("<qq")
_SHARD: Final = struct.Struct("<Hi")
_DECIDED: Final = struct.Struct("<qq")
_OPEN: Final = struct.Struct("<qqqiHq")
_WRITER: Final = struct.Struct("<qq")
_PIECE_BYTES: Final = 1 << 17
"""About as much is joined in one step, so that no step keeps the interpreter for longer than a fraction of a millisecond."""


class Snapshot:
    """The state at the moment in which this object was made."""

    def __init__(self, producers: ProducerEntries, transactions: Transactions, end_offset: int) -> None:
        self.end_offset = end_offset
        self._log = _LOG.pack(end_offset, producers.log_time_ms)
        self._live = producers.freeze()
        self._expired = producers.expired.leaves()
        self._expired_count = len(producers.expired)
        self._transactions = transactions.freeze()

    def whole(self) -> bytes:
        """Encodes everything. May run in another thread."""
        written, crc = BytesIO(bytes(_HEAD.size)), 0
        written.seek(_HEAD.size)
        for part in self._parts():
            crc = crc32c(part, crc)
            written.write(part)
        written.seek(0)
        written.write(_HEAD.pack(_MAGIC, crc))
        return written.getvalue()

    def _parts(self) -> Iterator[bytes]:
        yield self._log + _COUNT.pack(len(self._live))
        yield from _joined(self._live.records())
        yield _COUNT.pack(self._expired_count)
        yield from _joined(iter(self._expired))
        yield _COUNT.pack(len(self._transactions.ended))
        yield from _joined(self._transactions.ended.parts())
        yield from _joined(self._rest())

    def _rest(self) -> Iterator[bytes]:
        _, shard_epochs, decided, opened = self._transactions
        yield _COUNT.pack(len(shard_epochs))
        yield from (_SHARD.pack(*shard_epoch) for shard_epoch in shard_epochs)
        yield _COUNT.pack(len(decided))
        yield from (_DECIDED.pack(*marker_and_first) for marker_and_first in decided)
        yield _COUNT.pack(len(opened))
        for one in opened:
            yield from _dump_open(one)


def _joined(parts: Iterator[bytes]) -> Iterator[bytes]:
    some, size = list[bytes](), 0
    for part in parts:
        some.append(part)
        size += len(part)
        if size >= _PIECE_BYTES:
            yield b"".join(some)
            some, size = [], 0
    yield b"".join(some)


def _dump_open(opened: OpenTransaction) -> Iterator[bytes]:
    yield _OPEN.pack(*opened.name, opened.first_offset, opened.session_epoch, opened.txn_shard, opened.open_since_ms)
    yield _COUNT.pack(len(opened.writers))
    for producer_id, writer in opened.writers.items():
        yield _WRITER.pack(producer_id, writer.records) + pack_window(writer.window)


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
        transactions.check_open()
    except (AssertionError, ValueError, OverflowError, KeyError) as error:  # right checksum, impossible values
        raise CorruptMessageError("the producer snapshot holds values that cannot be") from error
    if not reader.at_end:
        raise CorruptMessageError("the producer snapshot has bytes after its end")
    return producers, transactions, end_offset


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

    def view(self, length: int) -> memoryview:
        if self._position + length > len(self._body):
            raise CorruptMessageError("the producer snapshot ends too early")
        self._position += length
        return self._body[self._position - length : self._position]

    def record(self, end_of: Callable[[Buffer, int], int]) -> bytes:
        begin, self._position = self._position, end_of(self._body, self._position)
        return bytes(self._body[begin : self._position])

    def window(self) -> SequenceWindow:
        begin, self._position = self._position, window_end(self._body, self._position)
        return unpack_window(self._body, begin)

    def count(self) -> range:
        return range(self.take(_COUNT)[0])

    @property
    def at_end(self) -> bool:
        return self._position == len(self._body)


def _load_producers(reader: _Reader, expiration_ms: int, log_time_ms: int) -> ProducerEntries:
    producers = ProducerEntries(expiration_ms)
    producers.log_time_ms = log_time_ms
    for _ in reader.count():
        record = reader.record(entry_end)
        producers.live.put_packed(id_of(record), record)
    producers.expired = ExpiredProducers.load(reader.view(len(reader.count()) * RECORD_BYTES))
    producers.plan_expiry()
    return producers


def _load_transactions(reader: _Reader) -> Transactions:
    transactions = Transactions()
    transactions.ended = EndedTransactions.load(_load_ended(reader))
    for _ in reader.count():
        shard, epoch = reader.take(_SHARD)
        transactions.shard_epochs[shard] = epoch
    for _ in reader.count():
        marker_offset, first_offset = reader.take(_DECIDED)
        transactions.decided.append((marker_offset, first_offset))
    for _ in reader.count():
        transactions.begin(_load_open(reader, transactions))
    return transactions


def _load_ended(reader: _Reader) -> Iterator[tuple[int, bytes]]:
    for _ in reader.count():
        record = reader.record(record_end)
        unpack_txn_producer(record).check()
        yield txn_producer_id_of(record), record


def _load_open(reader: _Reader, transactions: Transactions) -> OpenTransaction:
    producer_id, txn_no, first_offset, session_epoch, shard, since_ms = reader.take(_OPEN)
    opened = OpenTransaction(TxnName(producer_id, txn_no), first_offset, session_epoch, shard, since_ms)
    for _ in reader.count():
        writer_id, records = reader.take(_WRITER)
        writer = transactions.writer(opened, writer_id)
        writer.records = records
        writer.window = reader.window()
    return opened
