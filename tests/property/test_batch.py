"""Hostile bytes: whatever a batch is changed into, decoding ends in the same records or in a named error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncelog.core.batch import header as hd
from oncelog.core.batch.batch import decode_batch, encode_batch
from oncelog.core.batch.record import Record
from oncelog.errors import (
    CorruptMessageError,
    InvalidRecordError,
    UnsupportedCompressionError,
    UnsupportedMessageFormatError,
)

NAMED = (CorruptMessageError, InvalidRecordError, UnsupportedMessageFormatError, UnsupportedCompressionError)
WHERE: dict[str, Any] = {"topic_id": "cd" * 16, "partition": 9}

maybe_bytes = st.none() | st.binary(max_size=40)
header_list = st.lists(st.tuples(st.text(min_size=1, max_size=8), maybe_bytes), max_size=3).map(tuple)
row = st.tuples(maybe_bytes, maybe_bytes, st.integers(0, 2**40), header_list)
rows = st.lists(row, min_size=1, max_size=20)
codecs = st.sampled_from([0, 1, 2])


def encoded(items: list[tuple[Any, ...]], codec: int) -> bytes:
    keys, values, times, headers = zip(*items, strict=True)
    return encode_batch(keys, values, timestamps_ms=times, headers=headers, codec=codec, **WHERE)


@settings(max_examples=60, deadline=None)
@given(rows, codecs)
def test_every_batch_comes_back_as_it_was(items: list[tuple[Any, ...]], codec: int) -> None:
    found = decode_batch(encoded(items, codec))
    assert found == [Record(k, v, t, i, h) for i, (k, v, t, h) in enumerate(items)]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows, codecs, st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=4))
def test_changed_bytes_are_found_by_a_checksum(
    items: list[tuple[Any, ...]], codec: int, changes: list[tuple[int, int]]
) -> None:
    data = encoded(items, codec)
    broken = bytearray(data)
    for position, mask in changes:
        broken[position % len(data)] ^= mask
    if broken == data:
        return
    try:
        decode_batch(bytes(broken))
    except NAMED:
        return
    raise AssertionError("changed bytes were accepted")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows, codecs, st.data())
def test_a_hostile_payload_with_right_checksums_gives_records_or_a_named_error(
    items: list[tuple[Any, ...]], codec: int, data: st.DataObject
) -> None:
    batch = encoded(items, codec)
    header = hd.read_header(batch)
    payload = bytearray(batch[hd.HEADER_BYTES :])
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(payload) - 1))
        kind = data.draw(st.sampled_from(["flip", "word", "cut"]))
        if kind == "flip":
            payload[position] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "word":
            word = data.draw(st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 2**30, 8]))
            payload[position : position + 4] = word.to_bytes(4, "little", signed=True)
        elif len(payload) > 1:
            del payload[position:]
            payload = payload or bytearray(b"\0")
    content = hd.Content(
        codec=header.codec,
        attributes=header.attributes,
        schema_id=header.schema_id,
        record_count=header.record_count,
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms,
        uncompressed_length=header.uncompressed_length if header.codec else len(payload),
    )
    hostile = hd.seal(bytes(payload), content, hd.BatchIdentity(header.partition_tag))
    try:
        found = decode_batch(hostile)
    except NAMED:
        return
    assert len(found) == header.record_count
    for record in found:
        assert record.key is None or isinstance(record.key, bytes)
        assert header.base_timestamp_ms <= record.timestamp_ms <= header.max_timestamp_ms
        assert all(name and isinstance(name, str) for name, _ in record.headers)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_are_no_batch(data: bytes) -> None:
    with pytest.raises(NAMED):
        decode_batch(data)
