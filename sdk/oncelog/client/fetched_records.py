"""Fetched bytes to what the caller sees: records, or Arrow rows; filtered by isolation level and position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from oncelog.client.fetcher import Fetched
from oncelog.client.offsets import GroupMetadata, OffsetAndMetadata
from oncelog.config import READ_COMMITTED, ConsumerConfig
from oncelog.core.consumer import committed
from oncelog.core.header import BatchHeader
from oncelog.types import TopicPartition

_FEW_ROWS: Final = 1_024
"""Arrow batches smaller than this on average are put together."""


class ConsumerRecord(NamedTuple):
    """A record and where it was. Key and value are bytes or null, or what the deserializers made of them."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]


class Records(list[ConsumerRecord]):
    """Records of one poll, with the offsets from which reading goes on after them."""

    def __init__(self, group: GroupMetadata | None) -> None:
        super().__init__()
        self.group = group
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}


class Leftover(NamedTuple):
    """Decoded records of one answer that were not returned yet."""

    fetched: Fetched
    rows: list[ConsumerRecord]


def _visible(fetched: Fetched, config: ConsumerConfig) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Data batches that may be seen and reach beyond the position."""
    from oncelog.core.batch import iter_batches

    filters = config.isolation_level == READ_COMMITTED
    position = fetched.cursor.position
    for header, view in iter_batches(fetched.data):
        if header.is_control or header.next_offset <= position:
            continue
        if filters and not committed(header, fetched.aborted, config.skip_lost_transactions):
            continue
        yield header, view


def decode(fetched: Fetched, config: ConsumerConfig) -> list[ConsumerRecord]:
    """The records of an answer. Raises `CorruptMessageError`, `InvalidRecordError`, `TransactionDataLossError`."""
    from oncelog.core.batch import decode_arrow, records_of

    topic, partition = fetched.cursor.partition
    position = fetched.cursor.position
    read_key, read_value = config.key_deserializer, config.value_deserializer
    rows: list[ConsumerRecord] = []
    for header, view in _visible(fetched, config):
        batch = decode_arrow(view, header, check_crc=config.check_crcs)
        for key, value, timestamp_ms, offset, headers in records_of(batch, header):
            if offset < position:
                continue
            shown_key = key if read_key is None else read_key(key)
            shown_value = value if read_value is None else read_value(value)
            rows.append(ConsumerRecord(topic, partition, offset, timestamp_ms, shown_key, shown_value, headers))
    return rows


def arrow_of(fetched: Fetched, config: ConsumerConfig, include_headers: bool) -> Any:
    """All rows of an answer as one Arrow record batch; None when there are none. Raises as `decode`."""
    import pyarrow as pa

    from oncelog.core.batch import decode_arrow

    parts: list[Any] = []
    for header, view in _visible(fetched, config):
        rows = decode_arrow(view, header, check_crc=config.check_crcs)
        if rows.num_rows:
            parts.append(_shown(rows, header, fetched, include_headers))
    if not parts:
        return None
    first = _from_position(parts[0], fetched.cursor.position)
    parts = [first, *parts[1:]] if first.num_rows else parts[1:]
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def _from_position(rows: Any, position: int) -> Any:
    """A fetch begins at a batch; its first records may have been returned before."""
    offsets = rows.column("offset").to_numpy()
    return rows.slice(int(offsets.searchsorted(position)))


def _shown(rows: Any, header: BatchHeader, fetched: Fetched, include_headers: bool) -> Any:
    import numpy as np
    import pyarrow as pa

    from oncelog.core.batch import HEADERS_TYPE
    from oncelog.core.header import LOG_APPEND_TIME

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
        "offset": pa.array(np.arange(header.base_offset, header.base_offset + count, dtype=np.int64)),
        "topic": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([topic])),
    }
    if include_headers:
        columns["headers"] = rows.column(3) if rows.num_columns > 3 else pa.nulls(count, HEADERS_TYPE)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
