"""The payload of a batch: records to bytes and back.

    payload = codec(Arrow IPC message of one record batch, without schema message)

Rule 1: the codec compresses the whole message; Arrow's own buffer compression is refused (it cannot be bounded).
Rule 2: bytes from the network are hostile: every length is checked before it is used, `uncompressed_length` is bounded
        and must be exact, and Arrow's full validation runs before anything looks at a value.
Rule 3: decoding raises `CorruptMessageError` (a checksum or a length), `InvalidRecordError` (a rule of the format),
        `UnsupportedMessageFormatError` or `UnsupportedCompressionError`, and nothing else.
Rule 4: record i of a batch has offset `base_offset + i`. Of a compacted batch (attribute 8) a part of the records is left:
        its last column says how far each one lies behind `base_offset`. It may be empty, and then has no payload.

`protos/oncelog/v1/BATCH.md` describes the same bytes for other languages. This file imports pyarrow, so nothing that
`import oncelog` loads may import it at module level.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, Required, TypedDict, Unpack, cast

import numpy as np
import pyarrow as pa

from oncelog.core.batch import few_rows
from oncelog.core.batch import header as hd
from oncelog.core.batch.header import CODEC_LZ4, CODEC_NONE, CODEC_ZSTD, BatchHeader, BatchIdentity, Content
from oncelog.core.batch.identity import Identity
from oncelog.core.batch.plain_message import FEW
from oncelog.core.batch.record import (
    MAX_RECORD_HEADERS,
    TIMESTAMP_MAX_MS,
    DecodedHeaders,
    HeaderList,
    Record,
    not_milliseconds,
)
from oncelog.errors import CorruptMessageError, InvalidRecordError, UnsupportedCompressionError
from oncelog.types import Buffer, PartitionId

MAX_UNCOMPRESSED_BYTES: Final = 64 << 20
"""No batch may unpack to more; default of every decoder."""

_ARROW_NAMES: Final = {CODEC_LZ4: "lz4_raw", CODEC_ZSTD: "zstd"}
_CONTINUATION: Final = b"\xff\xff\xff\xff"
_PREAMBLE: Final = struct.Struct("<4sI")
_PREAMBLE_BYTES: Final = 8

_INT64: Final = pa.int64()
_BINARY: Final = pa.binary()
HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", _BINARY)]))
PLAIN_SCHEMA: Final = pa.schema(
    [pa.field("timestamp_delta", _INT64, nullable=False), pa.field("key", _BINARY), pa.field("value", _BINARY)]
)
HEADERS_SCHEMA: Final = PLAIN_SCHEMA.append(pa.field("headers", HEADERS_TYPE))
_SCHEMAS: Final = {hd.SCHEMA_PLAIN: PLAIN_SCHEMA, hd.SCHEMA_HEADERS: HEADERS_SCHEMA}
_OFFSET_DELTA: Final = pa.field("offset_delta", pa.int32(), nullable=False)
_COMPACTED_SCHEMAS: Final = {number: schema.append(_OFFSET_DELTA) for number, schema in _SCHEMAS.items()}
"""The schemas of compacted batches, by `schema_id`."""


# ---------------------------------------------------------------- encoding


class BatchIdentityFields(TypedDict, total=False):
    """An `BatchIdentity` as keywords, the partition by its names."""

    topic_id: Required[str]
    partition: Required[int]
    producer_id: int
    producer_epoch: int
    base_sequence: int
    txn_producer_id: int
    txn_no: int
    txn_shard: int


def encode_batch(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    *,
    timestamps_ms: Sequence[int],
    headers: Sequence[HeaderList] | None = None,
    codec: int = CODEC_NONE,
    control: bool = False,
    **identity: Unpack[BatchIdentityFields],
) -> bytes:
    """`encode_rows`, with the fields of the identity as keywords."""
    numbers = cast("dict[str, int]", {name: item for name, item in identity.items() if name in BatchIdentity._fields})
    whole = BatchIdentity(partition_tag(identity["topic_id"], identity["partition"]), **numbers)
    return encode_rows(keys, values, whole, timestamps_ms=timestamps_ms, headers=headers, codec=codec, control=control)


def encode_rows(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    identity: BatchIdentity,
    *,
    timestamps_ms: Sequence[int],
    headers: Sequence[HeaderList] | None = None,
    codec: int = CODEC_NONE,
    control: bool = False,
) -> bytes:
    """A whole batch of at least one record, as a producer sends it.

    All sequences have one length. `headers` None, or no record with any, gives schema 0. `timestamps_ms` are
    milliseconds since 1970. Raises `InvalidRecordError` or `InvalidTimestampError` for what no reader would accept.
    """
    if not len(keys) == len(values) == len(timestamps_ms) or not keys:
        raise InvalidRecordError("a batch has at least one record, and as many keys, values and timestamps")
    base = min(timestamps_ms)
    times_ms = (base, max(timestamps_ms))
    deltas = [t - base for t in timestamps_ms]
    has_headers = headers is not None and any(headers)
    if not has_headers and (message := few_rows.encode(deltas, keys, values)) is not None:
        return _seal(message, len(keys), hd.SCHEMA_PLAIN, times_ms, codec, identity, control)
    columns = [pa.array(deltas, _INT64), _binary_array(keys, "key"), _binary_array(values, "value")]
    schema = PLAIN_SCHEMA
    if has_headers:
        assert headers is not None
        columns.append(_headers_array(headers, len(keys)))
        schema = HEADERS_SCHEMA
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    return _seal_rows(rows, times_ms, codec, identity, control)


def encode_arrow(
    record_batch: pa.RecordBatch, identity: BatchIdentity, *, timestamp_ms: int, codec: int = CODEC_NONE
) -> bytes:
    """A whole batch from Arrow columns `key`, `value` and, if present, `timestamp` and `headers`; no work per row.

    `key` and `value` are binary or string of any width, or null. `timestamp` is an Arrow timestamp or milliseconds;
    null rows and a missing column take `timestamp_ms`. Raises as `encode_rows`.
    """
    payload, base, last = _payload_columns(record_batch, timestamp_ms)
    return _seal_rows(payload, (base, last), codec, identity)


def batch_identity(identity: Identity, base_sequence: int, partition: PartitionId) -> BatchIdentity:
    """Returns the identity of a batch for a partition, whose records are numbered from `base_sequence` on."""
    return BatchIdentity(
        partition_tag(partition.topic_id, partition.partition),
        identity.producer_id,
        identity.producer_epoch,
        base_sequence,
        identity.txn_producer_id,
        identity.txn_no,
        identity.txn_shard,
    )


@cache
def partition_tag(topic_id: str, partition: int) -> int:
    """`header.partition_tag`, remembered: a process writes to few partitions, often."""
    return hd.partition_tag(topic_id, partition)


def _binary_array(items: Sequence[bytes | None], name: str) -> pa.Array:
    try:
        return pa.array(items, _BINARY)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRecordError(f"a {name} is neither bytes nor null: {error}") from error


def _headers_array(headers: Sequence[HeaderList], count: int) -> pa.Array:
    if len(headers) != count:
        raise InvalidRecordError("as many header lists as records")
    if max(map(len, headers)) > MAX_RECORD_HEADERS:
        raise InvalidRecordError("too many headers in one record", limit=MAX_RECORD_HEADERS)
    if any(not key for items in headers for key, _ in items):
        raise InvalidRecordError("the name of a header is empty or null")
    rows = [[{"key": key, "value": value} for key, value in items] for items in headers]
    try:
        return pa.array(rows, HEADERS_TYPE)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRecordError(f"a header is not (text, bytes or null): {error}") from error


def _payload_columns(batch: pa.RecordBatch, timestamp_ms: int) -> tuple[pa.RecordBatch, int, int]:
    """Columns in the payload's types, smallest and largest timestamp."""
    import pyarrow.compute as pc

    if batch.num_rows == 0:
        raise InvalidRecordError("a batch has at least one record")
    names = batch.schema.names
    if "value" not in names:
        raise InvalidRecordError("the Arrow data has no column `value`", columns=", ".join(names))
    key = _to_binary(batch.column("key")) if "key" in names else pa.nulls(batch.num_rows, _BINARY)
    value = _to_binary(batch.column("value"))
    if "timestamp" in names:
        times = _to_milliseconds(batch.column("timestamp"), timestamp_ms)
        base, last = _time_limits(times)
        deltas = pc.subtract(times, base)
    else:
        base = last = timestamp_ms
        deltas = pa.array(_zeros(batch.num_rows))
    columns, schema = [deltas, key, value], PLAIN_SCHEMA
    if "headers" in names and not _no_headers(batch.column("headers")):
        columns.append(_to_headers(batch.column("headers")))
        schema = HEADERS_SCHEMA
    return pa.RecordBatch.from_arrays(columns, schema=schema), base, last


def check_columns(batch: pa.RecordBatch) -> None:
    """Raises what `encode_arrow` would raise because of the columns `timestamp` and `headers`."""
    names = batch.schema.names
    if batch.num_rows and "timestamp" in names:
        _time_limits(_to_milliseconds(batch.column("timestamp"), 0))
    if "headers" in names and not _no_headers(batch.column("headers")):
        _to_headers(batch.column("headers"))


def _time_limits(times: pa.Array) -> tuple[int, int]:
    """The smallest and the largest. Raises `InvalidTimestampError`."""
    import pyarrow.compute as pc

    limits = pc.min_max(times)
    base, last = limits["min"].as_py(), limits["max"].as_py()
    _check_times(base, last)
    return base, last


def _check_times(smallest_ms: int, largest_ms: int) -> None:
    if smallest_ms < 0 or largest_ms > TIMESTAMP_MAX_MS:
        raise not_milliseconds(smallest_ms if smallest_ms < 0 else largest_ms)


def _zeros(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.zeros(count, np.int64)


def _to_binary(column: pa.Array) -> pa.Array:
    if column.type == _BINARY:
        return column
    try:
        return column.cast(_BINARY)
    except pa.ArrowException as error:
        raise InvalidRecordError(f"a key or value column cannot be read as binary: {error}") from error


def _to_milliseconds(column: pa.Array, default_ms: int) -> pa.Array:
    try:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(_INT64)
        column = column.cast(_INT64)
    except pa.ArrowException as error:
        raise InvalidRecordError(f"the timestamp column cannot be read as milliseconds: {error}") from error
    return column.fill_null(default_ms) if column.null_count else column


def _no_headers(column: pa.Array) -> bool:
    if column.null_count == len(column):
        return True
    return hasattr(column, "flatten") and len(column.flatten()) == 0


def _to_headers(column: pa.Array) -> pa.Array:
    try:
        cast = column if column.type == HEADERS_TYPE else column.cast(HEADERS_TYPE)
    except pa.ArrowException as error:
        raise InvalidRecordError(f"the headers column is not list<struct<key, value>>: {error}") from error
    _check_headers(cast)
    return cast


def _seal_rows(
    batch: pa.RecordBatch, times_ms: tuple[int, int], codec: int, identity: BatchIdentity, is_control: bool = False
) -> bytes:
    schema_id = hd.SCHEMA_PLAIN if batch.num_columns == len(PLAIN_SCHEMA) else hd.SCHEMA_HEADERS
    return _seal(memoryview(batch.serialize()), batch.num_rows, schema_id, times_ms, codec, identity, is_control)


def _seal(
    message: Buffer,
    count: int,
    schema_id: int,
    times_ms: tuple[int, int],
    codec: int,
    identity: BatchIdentity,
    is_control: bool,
) -> bytes:
    """`message`: `count` records. `times_ms`: the smallest and the largest."""
    _check_times(*times_ms)
    size = len(message)
    if size > MAX_UNCOMPRESSED_BYTES:
        raise InvalidRecordError("the batch is too large", bytes=size, limit=MAX_UNCOMPRESSED_BYTES)
    codec, payload = _compress(message, codec)
    is_transactional = identity.txn_producer_id >= 0
    attributes = (hd.TRANSACTIONAL if is_transactional else 0) | (hd.CONTROL if is_control else 0)
    return hd.seal(payload, Content(codec, attributes, schema_id, count, *times_ms, size), identity)


def _compress(message: Buffer, codec: int) -> tuple[int, Buffer]:
    """The payload, and the codec that was used: none when compression does not make it smaller."""
    if codec != CODEC_NONE:
        # As bytes: the memoryview of a Buffer from `compress` shows its capacity as its length (pyarrow 26).
        packed: bytes = _codec(codec).compress(message, asbytes=True)
        if len(packed) < len(message):
            return codec, packed
    return CODEC_NONE, message


@cache
def _codec(codec: int) -> pa.Codec:
    name = _ARROW_NAMES.get(codec)
    if name is None:
        raise UnsupportedCompressionError("unknown compression codec", codec=codec)
    return pa.Codec(name)


def encode_compacted(rows: pa.RecordBatch, deltas: pa.Int32Array, header: BatchHeader) -> bytes:
    """The batch of `header` with only these of its rows; `deltas`: how far each one lies behind its base offset.

    Everything else of the header stays, and so do the offsets that the batch covers; its largest time is that of what is left.
    `rows` have the columns of `PLAIN_SCHEMA` or `HEADERS_SCHEMA`.
    """
    schema = _COMPACTED_SCHEMAS[header.schema_id]
    message = memoryview(pa.RecordBatch.from_arrays([*rows.columns, deltas], schema=schema).serialize())
    codec, payload = _compress(message, header.codec)
    left = header._replace(
        codec=codec,
        attributes=header.attributes | hd.COMPACTED,
        record_count=rows.num_rows,
        max_timestamp_ms=header.base_timestamp_ms + _extremes(rows.column(0))[1],
        uncompressed_length=len(message),
    )
    return hd.rewritten(left, payload)


# ---------------------------------------------------------------- decoding


def iter_batches(data: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each batch of a buffer of whole batches, with its header; the views share the buffer's memory.

    Raises as `header.read_header`, when that batch is reached; body checksums are checked by the decoders.
    """
    view = memoryview(data)
    position = 0
    while position < len(view):
        header = hd.read_header(view, position)
        yield header, view[position : position + header.batch_length]
        position += header.batch_length


def decode_arrow(
    data: Buffer,
    header: BatchHeader | None = None,
    *,
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES,
    check_crc: bool = True,
) -> pa.RecordBatch:
    """The records of one batch as a `pyarrow.RecordBatch` of `PLAIN_SCHEMA` or `HEADERS_SCHEMA`.

    `data` is one whole batch; uncompressed columns share its memory. Timestamps are deltas to
    `header.base_timestamp_ms`. A compacted batch has one more column, the last: see `row_offsets`. Raises as rule 3 says.
    """
    if header is None:
        header = hd.read_header(data)
    if len(data) != header.batch_length:
        raise CorruptMessageError("not exactly one batch", bytes_present=len(data), batch_length=header.batch_length)
    if check_crc:
        hd.check_body(data, header)
    check_header(header, max_uncompressed_bytes)
    if header.record_count == 0:
        return pa.RecordBatch.from_pylist([], schema=_schema_of(header))
    return decode_message(unpack(data, header), header)


def decode_batch(data: Buffer, header: BatchHeader | None = None) -> list[Record]:
    """The records of one batch, with absolute timestamps and offsets. Raises as `decode_arrow`."""
    if header is None:
        header = hd.read_header(data)
    return records_of(decode_arrow(data, header), header)


def records_of(batch: pa.RecordBatch, header: BatchHeader) -> list[Record]:
    """The rows of a decoded batch."""
    keys, values, times, headers = columns_of(batch, header)
    offsets = row_offsets(batch, header)
    return [Record(*row) for row in zip(keys, values, times, offsets, headers, strict=True)]


def row_offsets(batch: pa.RecordBatch, header: BatchHeader, first_row: int = 0) -> Sequence[int]:
    """The offsets of rows of a decoded batch, of which the first is row `first_row` of the whole one."""
    if header.is_compacted:
        found: list[int] = row_offset_array(batch, header).tolist()
        return found
    first = header.base_offset + first_row
    return range(first, first + batch.num_rows)


def row_offset_array(batch: pa.RecordBatch, header: BatchHeader) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The offsets of all rows of a decoded batch, as numpy's."""
    if header.is_compacted:
        deltas: np.ndarray[tuple[int], np.dtype[np.int32]] = batch.column(batch.num_columns - 1).to_numpy()
        return deltas.astype(np.int64) + header.base_offset
    return np.arange(header.base_offset, header.base_offset + batch.num_rows, dtype=np.int64)


def row_at(batch: pa.RecordBatch, header: BatchHeader, offset: int) -> int:
    """The first row of a decoded batch whose offset is not below `offset`."""
    distance = max(offset - header.base_offset, 0)
    if not header.is_compacted:
        count: int = batch.num_rows
        return min(distance, count)
    return int(batch.column(batch.num_columns - 1).to_numpy().searchsorted(distance))


Columns = tuple[list[bytes | None], list[bytes | None], list[int], list[DecodedHeaders]]
"""Keys, values, timestamps and headers of records, as Python's own."""


def columns_of(batch: pa.RecordBatch, header: BatchHeader) -> Columns:
    """The columns of rows of a decoded batch."""
    keys, values = batch.column(1).to_pylist(), batch.column(2).to_pylist()
    times = timestamps_of(batch, header)
    if header.schema_id == hd.SCHEMA_PLAIN:
        return keys, values, times, [()] * len(keys)
    rows = batch.column(3).to_pylist()
    return keys, values, times, [tuple((item["key"], item["value"]) for item in row or ()) for row in rows]


def timestamps_of(batch: pa.RecordBatch, header: BatchHeader) -> list[int]:
    """Milliseconds since 1970 of every record; the leader's append time where the topic says so."""
    if header.attributes & hd.LOG_APPEND_TIME:
        return [header.append_timestamp_ms] * batch.num_rows
    base = header.base_timestamp_ms
    return [base + delta for delta in batch.column(0).to_pylist()]


def check_header(header: BatchHeader, max_uncompressed_bytes: int) -> None:
    """Raises `InvalidRecordError` or `UnsupportedCompressionError` for a header that no payload can fit."""
    if header.attributes & ~hd.KNOWN_ATTRIBUTES:
        raise InvalidRecordError("unknown attribute bits", attributes=header.attributes)
    if header.schema_id not in _SCHEMAS:
        raise InvalidRecordError("unknown schema", schema_id=header.schema_id)
    if header.codec != CODEC_NONE and header.codec not in _ARROW_NAMES:
        raise UnsupportedCompressionError("unknown compression codec", codec=header.codec)
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise InvalidRecordError(
            "the record count does not fit the offsets",
            record_count=header.record_count,
            last_offset_delta=header.last_offset_delta,
        )
    if header.is_compacted and header.is_control:
        raise InvalidRecordError("a control batch is never compacted", attributes=header.attributes)
    limit = max_uncompressed_bytes
    if header.is_compacted:
        limit += limit // 4 + 1024  # the column of offsets: 4 bytes for each record, which has 16 at least
    if not 0 <= header.uncompressed_length <= limit:
        raise InvalidRecordError(
            "the batch unpacks to more than allowed", uncompressed_length=header.uncompressed_length, limit=limit
        )


def unpack(data: Buffer, header: BatchHeader) -> memoryview:
    """Returns the message of one whole batch, whose header was checked: exactly `uncompressed_length` bytes.

    Raises `InvalidRecordError`.
    """
    packed, length = memoryview(data)[hd.HEADER_BYTES :], header.uncompressed_length
    if header.codec == CODEC_LZ4 and length > 0 and _is_shorter(packed, length):  # first: then its bytes are let go of
        raise InvalidRecordError("the payload unpacks to fewer bytes than it states", bytes_stated=length)
    message = packed if header.codec == CODEC_NONE else _decompressed(packed, header.codec, length)
    if len(message) != length:
        raise InvalidRecordError("the payload has another length than it states", bytes=len(message))
    return message


def _decompressed(packed: memoryview, codec: int, length: int) -> memoryview:
    try:
        return memoryview(_codec(codec).decompress(packed, decompressed_size=length))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidRecordError("the payload cannot be unpacked to the length it states") from error


def _is_shorter(packed: memoryview, length: int) -> bool:
    """Tells whether an lz4 block unpacks to fewer bytes than this. pyarrow does not say so: it leaves what is missing as it
    was in memory. But it fails when the block has more bytes than there is room for.
    """
    try:
        _decompressed(packed, CODEC_LZ4, length - 1)
    except InvalidRecordError:
        return False
    return True


def decode_message(message: memoryview, header: BatchHeader) -> pa.RecordBatch:
    """Returns the records of what `unpack` returned, of a batch that has any. Raises `InvalidRecordError`."""
    batch = _read_message(pa.py_buffer(message), header.uncompressed_length, _schema_of(header))
    _check_values(batch, header)
    return batch


def _schema_of(header: BatchHeader) -> pa.Schema:
    return (_COMPACTED_SCHEMAS if header.is_compacted else _SCHEMAS)[header.schema_id]


def _read_message(message: pa.Buffer, length: int, schema: pa.Schema) -> pa.RecordBatch:
    """The record batch, after every check that needs no value."""
    if length < _PREAMBLE_BYTES:
        raise InvalidRecordError("the payload is no Arrow message")
    continuation, metadata_bytes = _PREAMBLE.unpack_from(message)
    if continuation != _CONTINUATION:
        raise InvalidRecordError("the payload is no Arrow message")
    if metadata_bytes > length - _PREAMBLE_BYTES:
        raise InvalidRecordError("the Arrow message is cut short", metadata_bytes=metadata_bytes)
    try:
        parsed = pa.ipc.read_message(message)
        if parsed.type != "record batch" or _has_buffer_compression(parsed.metadata):
            raise InvalidRecordError("not an Arrow record batch with plain buffers")
        if _PREAMBLE_BYTES + metadata_bytes + parsed.body.size != length:
            raise InvalidRecordError("the Arrow message does not fill the payload")
        batch = pa.ipc.read_record_batch(parsed, schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError, EOFError) as error:
        raise InvalidRecordError("the Arrow message is malformed") from error
    return batch


def _has_buffer_compression(metadata: pa.Buffer) -> bool:
    """True when the flatbuffer `Message.header.RecordBatch.compression` is set. Arrow has verified the flatbuffer."""
    view = memoryview(metadata)
    try:
        root = struct.unpack_from("<I", view, 0)[0]
        header_at = _table_field(view, root, 2)
        if header_at == 0:
            return True
        return _table_field(view, header_at + struct.unpack_from("<I", view, header_at)[0], 3) != 0
    except (struct.error, ValueError):
        return True


def _table_field(view: memoryview, table: int, index: int) -> int:
    """Position of a field of a flatbuffer table; 0 = absent."""
    vtable = table - struct.unpack_from("<i", view, table)[0]
    if vtable < 0:
        raise ValueError("the flatbuffer points before its start")
    slot = 4 + 2 * index
    if slot + 2 > struct.unpack_from("<H", view, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", view, vtable + slot)[0]
    return table + offset if offset else 0


def _check_values(batch: pa.RecordBatch, header: BatchHeader) -> None:
    if batch.num_rows != header.record_count:
        raise InvalidRecordError("another number of rows than the header says", rows=batch.num_rows)
    deltas = batch.column(0)
    if deltas.null_count:
        raise InvalidRecordError("a timestamp is null")
    check_deltas(*_extremes(deltas), header)
    if header.is_compacted:
        _check_offset_deltas(batch.column(batch.num_columns - 1), header)
    if header.schema_id == hd.SCHEMA_HEADERS:
        _check_headers(batch.column(3))


def check_deltas(lowest_ms: int, highest_ms: int, header: BatchHeader) -> None:
    """Raises `InvalidRecordError` unless all times, of which these are the extremes, lie within what the header says."""
    if lowest_ms < 0 or header.base_timestamp_ms + highest_ms > header.max_timestamp_ms:
        raise InvalidRecordError("a timestamp lies outside of what the header says")


def _check_offset_deltas(deltas: pa.Int32Array, header: BatchHeader) -> None:
    """They ascend, and lie within the batch."""
    if deltas.null_count:
        raise InvalidRecordError("an offset is null")
    numbers = deltas.to_numpy(zero_copy_only=True)
    if (numbers[1:] <= numbers[:-1]).any() or numbers[0] < 0 or numbers[-1] > header.last_offset_delta:
        raise InvalidRecordError("the offsets of a compacted batch do not ascend, or lie outside of it")


def _extremes(deltas: pa.Int64Array) -> tuple[int, int]:
    """The lowest and the highest of a valid column of integers without nulls."""
    if len(deltas) > FEW:
        times = deltas.to_numpy(zero_copy_only=True)
        return int(times.min()), int(times.max())
    first = deltas.offset
    few = memoryview(deltas.buffers()[1])[8 * first : 8 * (first + len(deltas))].cast("q")
    return min(few), max(few)


def _check_headers(column: pa.ListArray) -> None:
    """Names are neither null nor empty, structs not null, counts bounded."""
    import pyarrow.compute as pc

    if (pc.max(pc.list_value_length(column)).as_py() or 0) > MAX_RECORD_HEADERS:
        raise InvalidRecordError("too many headers in one record", limit=MAX_RECORD_HEADERS)
    items = column.flatten()
    if items.null_count or items.field("key").null_count:
        raise InvalidRecordError("a header, or its name, is null")
    if len(items) and pc.min(pc.binary_length(items.field("key"))).as_py() == 0:
        raise InvalidRecordError("the name of a header is empty")
