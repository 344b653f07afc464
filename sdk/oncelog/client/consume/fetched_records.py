"""Fetched bytes to what the caller sees: records, or Arrow rows; filtered by isolation level and position."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NamedTuple

from oncelog import errors
from oncelog.client.consume.expired_records import ExpiredRecords
from oncelog.client.consume.fetcher import Fetched
from oncelog.client.consume.offsets import GroupMetadata, OffsetAndMetadata
from oncelog.config import READ_COMMITTED, ConsumerConfig
from oncelog.core.batch.header import BatchHeader
from oncelog.core.consume.consumer import committed
from oncelog.core.consume.fetch_answer import check_batch, check_end
from oncelog.types import TopicPartition
from oncelog.value_types import K, V, fills_up

if TYPE_CHECKING:
    import pyarrow as pa


@fills_up
class ConsumerRecord(NamedTuple, Generic[K, V]):
    """A record and where it was. Key and value are bytes or null, or what the deserializers made of them."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K
    value: V
    headers: tuple[tuple[str, bytes | None], ...]


_record: Final = partial(tuple.__new__, ConsumerRecord)
"""As `ConsumerRecord._make`, without a call of Python for each record."""


class Records(list[ConsumerRecord[K, V]], Generic[K, V]):
    """Records of one poll, with the offsets from which reading goes on after them."""

    def __init__(self, group: GroupMetadata | None) -> None:
        super().__init__()
        self.group = group
        """The group that these offsets belong to; None: the consumer has no `group_id`."""
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        """Where reading goes on in each partition."""


class Leftover:
    """The records of one answer that were not returned yet. A batch is unpacked when its first record is wanted.

    What cannot be read is raised when it is its turn, after all records before it.
    """

    __slots__ = ("_batches", "_config", "_error", "_expired", "_next_offset", "at", "fetched", "rows")

    def __init__(self, fetched: Fetched, config: ConsumerConfig, expired: ExpiredRecords | None = None) -> None:
        self.fetched = fetched
        self._config = config
        self._expired = expired
        self.rows: list[ConsumerRecord] = []
        """The records of the batch that was unpacked last."""
        self.at = 0
        """The first of them that was not taken."""
        self._error: errors.OncelogError | None = None
        self._batches: deque[tuple[BatchHeader, memoryview]] = deque()
        self._next_offset = fetched.cursor.position
        try:
            self._batches.extend(_visible(fetched, config))
        except errors.OncelogError as error:
            self._error = error

    def take(self, count: int, most_bytes: int) -> tuple[list[ConsumerRecord], int]:
        """Up to `count` records, and the bytes that were unpacked for them: no further batch above `most_bytes`.

            Raises why there are none: `CorruptMessageError`, `InvalidRecordError`, `InvalidResponseError`,
        `TransactionDataLossError`, or what a deserializer raised.
        """
        taken: list[ConsumerRecord] = []
        unpacked = 0
        while len(taken) < count and (self.at < len(self.rows) or unpacked < most_bytes):
            if self.at >= len(self.rows):
                if not self._batches:
                    break
                try:
                    unpacked += self._unpack()
                except Exception:
                    if taken:
                        return taken, most_bytes  # it is raised next time
                    raise
            some = self.rows[self.at : self.at + count - len(taken)]
            self.at += len(some)
            taken += some
        if self._error is not None and not taken and not self._batches:
            raise self._error
        return taken, unpacked

    def _unpack(self) -> int:
        header, view = self._batches[0]
        self.rows, self.at = _rows_of(self.fetched, self._config, header, view, self._expired), 0
        self._batches.popleft()
        self._next_offset = header.next_offset
        return max(header.uncompressed_length, len(view))

    @property
    def is_empty(self) -> bool:
        """Everything was taken."""
        return self.at >= len(self.rows) and not self._batches and self._error is None

    @property
    def position(self) -> int:
        """The offset from which reading goes on."""
        if self.at < len(self.rows):
            return self.rows[self.at].offset
        return self.fetched.next_offset if self.is_empty else self._next_offset


def _visible(fetched: Fetched, config: ConsumerConfig) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Data batches that may be seen and reach beyond the position. Raises what is wrong with the answer, where it is."""
    from oncelog.core.batch.batch import iter_batches

    filters = config.isolation_level == READ_COMMITTED
    position, tag = fetched.cursor.position, fetched.cursor.tag
    reached, is_first = fetched.offset, True
    try:
        for header, view in iter_batches(fetched.data):
            check_batch(header, reached, tag, is_first=is_first)
            reached, is_first = header.next_offset, False
            if header.is_control or reached <= position:
                continue
            if filters and not committed(header, fetched.aborted, config.skip_lost_transactions):
                continue
            yield header, view
        check_end(reached, fetched.next_offset)
    except errors.OncelogError as error:
        topic, partition = fetched.cursor.partition
        for name, value in {"topic": topic, "partition": partition, "offset": reached}.items():
            error.context.setdefault(name, str(value))
        raise


def _decoded(fetched: Fetched, config: ConsumerConfig, header: BatchHeader, view: memoryview) -> pa.RecordBatch:
    """One batch as Arrow rows. Raises `CorruptMessageError` or `InvalidRecordError`, which say where."""
    from oncelog.core.batch.batch import decode_arrow

    try:
        return decode_arrow(
            view, header, max_uncompressed_bytes=config.max_uncompressed_batch_bytes, check_crc=config.check_crcs
        )
    except errors.OncelogError as error:
        topic, partition = fetched.cursor.partition
        where = {
            "topic": topic,
            "partition": partition,
            "offset": header.base_offset,
            "next_offset": header.next_offset,
        }
        for name, value in where.items():
            error.context.setdefault(name, str(value))
        raise


def _rows_of(
    fetched: Fetched, config: ConsumerConfig, header: BatchHeader, view: memoryview, expired: ExpiredRecords | None
) -> list[ConsumerRecord]:
    """The records of one batch, from the position on."""
    from oncelog.core.batch.batch import columns_of, row_at, row_offsets

    topic, partition = fetched.cursor.partition
    batch = _decoded(fetched, config, header, view)
    seen = row_at(batch, header, fetched.cursor.position)
    rows = batch.slice(seen)
    offsets = row_offsets(rows, header, seen)
    kept = None if expired is None else expired.kept(rows, header)
    if kept is not None:
        rows = rows.filter(kept.tolist())
        offsets = list(itertools.compress(offsets, kept.tolist()))
    keys, values, times, headers = columns_of(rows, header)
    # Not `map`: a StopIteration of a deserializer would look like the end of the batch.
    shown_keys = keys if (read_key := config.key_deserializer) is None else [read_key(key) for key in keys]
    shown_values = values if (read := config.value_deserializer) is None else [read(value) for value in values]
    columns = (itertools.repeat(topic), itertools.repeat(partition), offsets, times, shown_keys, shown_values, headers)
    return list(map(_record, zip(*columns, strict=False)))


def arrow_of(
    fetched: Fetched, config: ConsumerConfig, include_headers: bool, expired: ExpiredRecords | None = None
) -> tuple[pa.RecordBatch | None, int]:
    """The rows of an answer as one Arrow record batch, None when there are none, and the offset from which to go on.

    That lies before the answer's end when unpacking all of it would take more than `max_buffered_bytes`, or when what comes
    next cannot be read: it is raised when nothing comes before it.
    """
    import pyarrow as pa

    parts: list[pa.RecordBatch] = []
    unpacked, next_offset, reached = 0, fetched.next_offset, fetched.cursor.position
    try:
        for header, view in _visible(fetched, config):
            if unpacked >= config.max_buffered_bytes:
                next_offset = header.base_offset
                break
            rows = _decoded(fetched, config, header, view)
            unpacked += max(header.uncompressed_length, len(view))
            if rows.num_rows:
                shown = _shown(rows, header, fetched, include_headers)
                kept = None if expired is None else expired.kept(rows, header)
                parts.append(shown if kept is None else shown.filter(pa.array(kept)))
            reached = header.next_offset
    except errors.OncelogError:
        if not parts:
            raise
        next_offset = reached
    parts = [part for part in parts if part.num_rows]
    if not parts:
        return None, next_offset
    first = _from_position(parts[0], fetched.cursor.position)
    parts = [first, *parts[1:]] if first.num_rows else parts[1:]
    if not parts:
        return None, next_offset
    if len(parts) == 1:
        return parts[0], next_offset
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0], next_offset


def _from_position(rows: pa.RecordBatch, position: int) -> pa.RecordBatch:
    """A fetch begins at a batch; its first records may have been returned before."""
    offsets = rows.column("offset").to_numpy()
    return rows.slice(int(offsets.searchsorted(position)))


def _shown(rows: pa.RecordBatch, header: BatchHeader, fetched: Fetched, include_headers: bool) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    from oncelog.core.batch.batch import HEADERS_TYPE, row_offset_array
    from oncelog.core.batch.header import LOG_APPEND_TIME, SCHEMA_HEADERS

    count = rows.num_rows
    if header.attributes & LOG_APPEND_TIME:
        times = np.full(count, header.append_timestamp_ms * 1000, np.int64)
    else:
        times = (rows.column(0).to_numpy() + header.base_timestamp_ms) * 1000
    topic, partition = fetched.cursor.partition
    columns = {
        "key": rows.column(1),
        "value": rows.column(2),
        "timestamp": pa.array(times).cast(pa.timestamp("us", "UTC")),
        "partition": pa.array(np.full(count, partition, np.int32)),
        "offset": pa.array(row_offset_array(rows, header)),
        "topic": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([topic])),
    }
    if include_headers:
        columns["headers"] = rows.column(3) if header.schema_id == SCHEMA_HEADERS else pa.nulls(count, HEADERS_TYPE)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
