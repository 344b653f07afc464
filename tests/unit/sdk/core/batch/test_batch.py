"""The payload of a batch: what goes in comes out, and what nobody should write is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from oncelog import errors
from oncelog.core.batch import header as hd
from oncelog.core.batch.batch import (
    HEADERS_SCHEMA,
    PLAIN_SCHEMA,
    decode_arrow,
    decode_batch,
    encode_arrow,
    encode_batch,
    encode_compacted,
    iter_batches,
    row_at,
    row_offsets,
)
from oncelog.core.batch.header import CODECS
from oncelog.core.batch.record import MAX_RECORD_HEADERS, Record
from tests.sealing import fields_of, sealed

TOPIC_ID = "ab" * 16
WHERE: dict[str, Any] = {"topic_id": TOPIC_ID, "partition": 0}
HERE = hd.BatchIdentity(hd.partition_tag(TOPIC_ID, 0))


def reseal(data: bytes, change: Callable[[dict[str, Any]], None], payload: bytes | None = None) -> bytes:
    """The batch with changed header fields and right checksums: what a hostile producer can send."""
    fields = fields_of(data)
    change(fields)
    return sealed(data[hd.HEADER_BYTES :] if payload is None else payload, **fields)


def example(**options: Any) -> bytes:
    return encode_batch([b"k", None], [b"v" * 50, None], timestamps_ms=[10, 7], **WHERE, **options)


@pytest.mark.parametrize("codec", CODECS.values())
def test_records_come_back_as_they_were(codec: int) -> None:
    data = encode_batch([b"k", None, b""], [None, b"v", b"w"], timestamps_ms=[10, 7, 12], codec=codec, **WHERE)
    assert decode_batch(data) == [
        Record(b"k", None, 10, 0),
        Record(None, b"v", 7, 1),
        Record(b"", b"w", 12, 2),
    ]
    header = hd.read_header(data)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (7, 12)
    assert (header.schema_id, header.record_count, header.last_offset_delta) == (hd.SCHEMA_PLAIN, 3, 2)


def test_headers_come_back_in_order_and_choose_schema_1() -> None:
    headers = [(("a", b"1"), ("b", None), ("a", b"")), ()]
    data = example(headers=headers)
    assert hd.read_header(data).schema_id == hd.SCHEMA_HEADERS
    assert [record.headers for record in decode_batch(data)] == [tuple(items) for items in headers]


def test_empty_header_lists_choose_schema_0() -> None:
    assert hd.read_header(example(headers=[(), ()])).schema_id == hd.SCHEMA_PLAIN


def test_compression_that_makes_nothing_smaller_is_not_used() -> None:
    data = encode_batch([None], [bytes(range(256)) * 2], timestamps_ms=[0], codec=CODECS["lz4"], **WHERE)
    small = encode_batch([None], [b"a" * 10_000], timestamps_ms=[0], codec=CODECS["lz4"], **WHERE)
    assert hd.read_header(small).codec == CODECS["lz4"]
    assert len(small) < 1_000
    assert decode_batch(data)[0].value == bytes(range(256)) * 2


def test_a_batch_is_tied_to_its_partition() -> None:
    assert hd.read_header(example()).partition_tag == hd.partition_tag(TOPIC_ID, 0)
    assert hd.read_header(example()).partition_tag != hd.partition_tag(TOPIC_ID, 1)


def test_offsets_and_append_time_come_from_the_leaders_prefix() -> None:
    data = reseal(example(), lambda f: f.update(attributes=hd.LOG_APPEND_TIME))
    stamped = hd.stamp_prefix(100, len(data), 5, 777) + data[hd.PREFIX_BYTES :]
    assert [(r.offset, r.timestamp_ms) for r in decode_batch(stamped)] == [(100, 777), (101, 777)]


def test_batches_of_a_buffer_are_split() -> None:
    parts = [example(), example(codec=CODECS["zstd"]), example()]
    found = list(iter_batches(b"".join(parts)))
    assert [bytes(view) for _, view in found] == parts
    with pytest.raises(errors.CorruptMessageError):
        list(iter_batches(b"".join(parts)[:-1]))


def test_arrow_data_goes_in_without_a_copy_of_meaning() -> None:
    rows = pa.record_batch(
        {
            "key": pa.array(["a", None]),
            "value": pa.array([b"x", None], pa.large_binary()),
            "timestamp": pa.array([1_000_000, None], pa.timestamp("us", "UTC")),
        }
    )
    assert decode_batch(encode_arrow(rows, HERE, timestamp_ms=5_000)) == [
        Record(b"a", b"x", 1_000, 0),
        Record(None, None, 5_000, 1),
    ]


def test_arrow_data_without_key_and_timestamp_is_enough() -> None:
    rows = pa.record_batch({"value": pa.array([b"x", b"y"])})
    found = decode_batch(encode_arrow(rows.slice(1), HERE, timestamp_ms=5, codec=CODECS["zstd"]))
    assert found == [Record(None, b"y", 5, 0)]


def test_arrow_headers_go_along() -> None:
    items = [[{"key": "h", "value": b"1"}], None]
    rows = pa.record_batch({"value": pa.array([b"x", b"y"]), "headers": pa.array(items, HEADERS_SCHEMA.field(3).type)})
    assert [r.headers for r in decode_batch(encode_arrow(rows, HERE, timestamp_ms=5))] == [(("h", b"1"),), ()]


@pytest.mark.parametrize(
    "arguments",
    [
        {"keys": [], "values": [], "timestamps_ms": []},
        {"keys": [b"k"], "values": [], "timestamps_ms": [0]},
        {"keys": [7], "values": [b""], "timestamps_ms": [0]},
        {"keys": [b"k"], "values": [b""], "timestamps_ms": [-1]},
        {"keys": [b"k"], "values": [b""], "timestamps_ms": [0], "headers": [(("", b""),)]},
        {"keys": [b"k"], "values": [b""], "timestamps_ms": [0], "headers": [((None, b""),)]},
        {"keys": [b"k"], "values": [b""], "timestamps_ms": [0], "headers": [(("h", b""),) * (MAX_RECORD_HEADERS + 1)]},
        {"keys": [b"k"], "values": [b""], "timestamps_ms": [0], "codec": 9},
    ],
)
def test_nobody_can_encode_what_no_reader_accepts(arguments: Any) -> None:
    with pytest.raises(errors.CallerError):
        encode_batch(**arguments, **WHERE)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"attributes": 64}, errors.InvalidRecordError),
        ({"schema_id": 2}, errors.InvalidRecordError),
        ({"schema_id": 1}, errors.InvalidRecordError),
        ({"codec": 3}, errors.UnsupportedCompressionError),
        ({"codec": 1}, errors.InvalidRecordError),
        ({"record_count": 3}, errors.InvalidRecordError),
        ({"record_count": 1}, errors.InvalidRecordError),
        ({"record_count": -1}, errors.InvalidRecordError),
        ({"uncompressed_length": -1}, errors.InvalidRecordError),
        ({"uncompressed_length": 2**31 - 1}, errors.InvalidRecordError),
        ({"uncompressed_length": 16}, errors.InvalidRecordError),
        ({"base_timestamp_ms": 2**62}, errors.InvalidRecordError),
        ({"max_timestamp_ms": 8}, errors.InvalidRecordError),
    ],
)
def test_a_lying_header_is_found(change: dict[str, int], error: type[errors.OncelogError]) -> None:
    with pytest.raises(error):
        decode_batch(reseal(example(), lambda f: f.update(change)))


def test_a_flipped_bit_anywhere_is_found() -> None:
    data = example(codec=CODECS["lz4"])
    for position in range(len(data)):
        broken = bytearray(data)
        broken[position] ^= 0x10
        with pytest.raises((errors.CorruptMessageError, errors.UnsupportedMessageFormatError)):
            decode_batch(bytes(broken))


@pytest.mark.parametrize("codec", [CODECS["lz4"], CODECS["zstd"]])
@pytest.mark.parametrize("delta", [-1, 1, 8, 1_000])
def test_the_unpacked_length_must_be_exact(codec: int, delta: int) -> None:
    data = encode_batch([b"k"] * 100, [b"v"] * 100, timestamps_ms=[0] * 100, codec=codec, **WHERE)
    assert hd.read_header(data).codec == codec
    lie = reseal(data, lambda f: f.update(uncompressed_length=f["uncompressed_length"] + delta))
    with pytest.raises(errors.InvalidRecordError):
        decode_batch(lie)


@pytest.mark.parametrize("cut", [1, 8, 600])
def test_an_lz4_block_that_unpacks_to_fewer_bytes_is_refused(cut: int) -> None:
    """Regression: pyarrow leaves what is missing as it was in memory, where the records of an earlier batch may stand."""
    data = encode_batch([b"k"] * 100, [b"v" * 10] * 100, timestamps_ms=[0] * 100, **WHERE)
    message, codec = data[hd.HEADER_BYTES :], pa.Codec("lz4_raw")
    whole, short = (codec.compress(part, asbytes=True) for part in (message, message[:-cut]))
    as_lz4 = {"codec": CODECS["lz4"], "uncompressed_length": len(message)}
    assert len(decode_batch(reseal(data, lambda f: f.update(as_lz4), whole))) == 100
    with pytest.raises(errors.InvalidRecordError, match="fewer bytes"):
        decode_batch(reseal(data, lambda f: f.update(as_lz4), short))


def test_an_lz4_block_takes_the_memory_that_it_states_once() -> None:
    """Regression: its message and what tells whether that is whole were in memory at the same time."""
    data = encode_batch([None], [bytes(1 << 20)], timestamps_ms=[0], codec=CODECS["lz4"], **WHERE)
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        assert decode_arrow(data).num_rows == 1
    finally:
        pa.set_memory_pool(before)
    assert 1 << 20 <= pool.max_memory() < 3 << 19


def test_a_decompression_bomb_is_refused_before_it_unpacks() -> None:
    bomb = pa.Codec("zstd").compress(bytes(200 << 20), asbytes=True)
    lie = reseal(example(), lambda f: f.update(codec=2, uncompressed_length=200 << 20), bomb)
    with pytest.raises(errors.InvalidRecordError, match="more than allowed"):
        decode_batch(lie)
    lie = reseal(example(), lambda f: f.update(codec=2, uncompressed_length=1_000), bomb)
    with pytest.raises(errors.InvalidRecordError):
        decode_batch(lie)


def ipc_message(schema: pa.Schema, batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()
    message: bytes = reader.read_next_message().serialize().to_pybytes()
    return message


def test_arrows_own_buffer_compression_is_refused() -> None:
    values = pa.array([b"\0" * 1_000_000] * 2)
    rows = pa.RecordBatch.from_arrays([pa.array([0, 0]), pa.array([b"k", None]), values], schema=PLAIN_SCHEMA)
    bomb = ipc_message(PLAIN_SCHEMA, rows, compression="zstd")
    assert len(bomb) < 2_000
    lie = reseal(example(), lambda f: f.update(uncompressed_length=len(bomb)), bomb)
    with pytest.raises(errors.InvalidRecordError, match="plain buffers"):
        decode_batch(lie)


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 8, b"x" * 100])
def test_bytes_after_the_message_are_refused(tail: bytes) -> None:
    data = example()
    payload = data[hd.HEADER_BYTES :] + tail
    lie = reseal(data, lambda f: f.update(uncompressed_length=len(payload)), payload)
    with pytest.raises(errors.InvalidRecordError):
        decode_batch(lie)


@pytest.mark.parametrize("metadata_bytes", [0, 1, 8])
def test_a_message_whose_metadata_end_at_once_is_refused(metadata_bytes: int) -> None:
    payload = b"\xff\xff\xff\xff" + metadata_bytes.to_bytes(4, "little") + bytes(24)
    lie = reseal(example(), lambda f: f.update(uncompressed_length=len(payload)), payload)
    with pytest.raises(errors.InvalidRecordError):
        decode_batch(lie)


def test_a_schema_message_is_no_record_batch() -> None:
    payload = PLAIN_SCHEMA.serialize().to_pybytes()
    lie = reseal(example(), lambda f: f.update(uncompressed_length=len(payload)), payload)
    with pytest.raises(errors.InvalidRecordError):
        decode_batch(lie)


@pytest.mark.parametrize("items", [[[{"key": None, "value": b""}]], [[None]], [[{"key": "", "value": b""}]]])
def test_a_header_without_a_name_is_refused(items: Any) -> None:
    headers = pa.array(items, HEADERS_SCHEMA.field(3).type)
    columns = [pa.array([0]), pa.array([b"k"]), pa.array([b"v"]), headers]
    payload = pa.RecordBatch.from_arrays(columns, schema=HEADERS_SCHEMA).serialize().to_pybytes()
    one = encode_batch([b"k"], [b"v"], timestamps_ms=[0], **WHERE)
    lie = reseal(one, lambda f: f.update(uncompressed_length=len(payload), schema_id=1), payload)
    with pytest.raises(errors.InvalidRecordError):
        decode_batch(lie)


def test_a_null_timestamp_is_refused() -> None:
    loose = pa.schema([("timestamp_delta", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
    columns = [pa.array([None], pa.int64()), pa.array([b"k"]), pa.array([b"v"])]
    payload = pa.RecordBatch.from_arrays(columns, schema=loose).serialize().to_pybytes()
    one = encode_batch([b"k"], [b"v"], timestamps_ms=[0], **WHERE)
    lie = reseal(one, lambda f: f.update(uncompressed_length=len(payload)), payload)
    with pytest.raises(errors.InvalidRecordError):
        decode_batch(lie)


def test_uncompressed_columns_share_the_memory_of_the_buffer() -> None:
    data = encode_batch([b"k"] * 1000, [b"v" * 100] * 1000, timestamps_ms=[0] * 1000, **WHERE)
    before = pa.total_allocated_bytes()
    rows = decode_arrow(data)
    assert pa.total_allocated_bytes() - before < 10_000
    assert rows.num_rows == 1000


def compacted(deltas: list[int], span: int = 5) -> bytes:
    """A batch of `span` offsets from 100 on, of which these are left."""
    data = encode_batch([b"k"] * span, [b"v"] * span, timestamps_ms=range(span), **WHERE)
    header = hd.read_header(data)._replace(base_offset=100)
    rows = decode_arrow(data).slice(0, len(deltas))
    return encode_compacted(rows, pa.array(deltas, pa.int32()), header)


def test_a_compacted_batch_says_which_offsets_are_left() -> None:
    data = compacted([1, 3, 4])
    assert [record.offset for record in decode_batch(data)] == [101, 103, 104]
    header, rows = hd.read_header(data), decode_arrow(data)
    assert (header.next_offset, header.record_count, header.max_timestamp_ms) == (105, 3, 2)
    assert [row_at(rows, header, offset) for offset in (0, 101, 102, 104, 105)] == [0, 0, 1, 2, 3]
    assert row_offsets(rows.slice(1), header, 1) == [103, 104]


@pytest.mark.parametrize("deltas", [[1, 1], [3, 2], [-1, 2], [1, 5]])
def test_offsets_of_a_compacted_batch_ascend_and_lie_within_it(deltas: list[int]) -> None:
    with pytest.raises(errors.InvalidRecordError, match="offsets of a compacted batch"):
        decode_batch(compacted(deltas))


def test_a_compacted_batch_without_records_has_no_payload() -> None:
    header = hd.read_header(compacted([1]))._replace(record_count=0, uncompressed_length=0)
    data = hd.rewritten(header, b"")
    assert decode_batch(data) == []
    with pytest.raises(errors.InvalidRecordError, match="never compacted"):
        decode_batch(hd.rewritten(header._replace(attributes=header.attributes | hd.CONTROL), b""))


@pytest.mark.parametrize("length", [0, 30])
def test_the_column_of_offsets_makes_no_batch_too_large_to_be_read(length: int) -> None:
    """A batch that was as large as it may be is larger after compaction, and everybody must still be able to read it."""
    count = 10_000
    data = encode_batch([None] * count, [b"v" * length] * count, timestamps_ms=[0] * count, **WHERE)
    header = hd.read_header(data)
    allowed = header.uncompressed_length
    rows = decode_arrow(data, max_uncompressed_bytes=allowed).slice(1)
    left = encode_compacted(rows, pa.array(range(1, count), pa.int32()), header)
    assert decode_arrow(left, max_uncompressed_bytes=allowed).num_rows == count - 1
    if not length:
        assert hd.read_header(left).uncompressed_length > allowed
    with pytest.raises(errors.InvalidRecordError, match="unpacks to more than allowed"):
        decode_arrow(left, max_uncompressed_bytes=allowed // 2)
