"""A plain batch has the same verdict, and a small one the same records, with pyarrow and without it."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.batch import few_rows, plain_batch
from oncelog.core.batch import header as hd
from oncelog.core.batch.batch import columns_of, decode_arrow, encode_batch
from oncelog.core.batch.header import read_header
from oncelog.core.batch.plain_batch import check_rows, read_columns
from oncelog.errors import CorruptMessageError, InvalidRecordError, OncelogError

CODEC_NAMES = {"lz4": "lz4_raw", "zstd": "zstd"}
TOPIC_ID = "00000000-0000-4000-8000-000000000001"
ITEMS = st.none() | st.binary(max_size=40)
ROWS = st.lists(st.tuples(ITEMS, ITEMS, st.integers(0, 1 << 40)), min_size=1, max_size=8)
CHANGES = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=3)
Rows = list[tuple[bytes | None, bytes | None, int]]


def batch(rows: Rows) -> bytes:
    keys, values, times = zip(*rows, strict=True)
    return encode_batch(keys, values, timestamps_ms=times, topic_id=TOPIC_ID, partition=0)


def outcome(read: Callable[[], object]) -> object:
    try:
        return read()
    except OncelogError as error:
        return type(error)


def by_pyarrow(data: bytes, header: hd.BatchHeader) -> object:
    return outcome(lambda: columns_of(decode_arrow(data, header), header))


@given(ROWS)
def test_a_few_plain_records_are_read_without_pyarrow(rows: Rows) -> None:
    data = batch(rows)
    header = read_header(data)
    found = read_columns(data, header)
    assert found is not None
    assert found == by_pyarrow(data, header)


@given(ROWS, CHANGES, st.integers(0, 400))
@settings(max_examples=1_000)
def test_of_changed_bytes_it_says_what_pyarrow_says_or_nothing(
    rows: Rows, changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(batch(rows))
    for place, value in changes:
        data[hd.HEADER_BYTES + place % (len(data) - hd.HEADER_BYTES)] = value
    payload = bytes(data[hd.HEADER_BYTES : max(len(data) - cut, hd.HEADER_BYTES)])
    sealed = hd.rewritten(read_header(batch(rows))._replace(uncompressed_length=len(payload)), payload)
    header = read_header(sealed)
    found = outcome(lambda: read_columns(sealed, header))
    assert found is None or found == by_pyarrow(sealed, header)


MANY_ROWS = st.lists(st.tuples(ITEMS, ITEMS, st.integers(0, 3)), min_size=1, max_size=150)


@given(
    MANY_ROWS,
    st.booleans(),
    CHANGES | st.just([]),
    st.integers(0, 400) | st.just(0),
    st.sampled_from(sorted(hd.CODECS)),
)
@settings(max_examples=1_000)
def test_the_check_has_the_verdict_of_pyarrow(
    rows: Rows, ascend: bool, changes: list[tuple[int, int]], cut: int, codec: str
) -> None:
    """Whether it knows the payload or not, packed or not."""
    rows = sorted(rows, key=lambda row: row[2]) if ascend else rows
    header = read_header(batch(rows))
    message = bytearray(batch(rows)[hd.HEADER_BYTES :])
    for place, value in changes:
        message[place % len(message)] = value
    message = message[: max(len(message) - cut, 0)]
    payload = bytes(message) if codec == "none" else pa.Codec(CODEC_NAMES[codec]).compress(message, asbytes=True)
    changed = header._replace(codec=hd.CODECS[codec], uncompressed_length=len(message))
    sealed = hd.rewritten(changed, payload)
    header = read_header(sealed)
    expected = outcome(lambda: decode_arrow(sealed, header).column(1).null_count)
    assert outcome(lambda: check_rows(sealed, header)) == expected


def test_many_plain_records_are_checked_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_batch, "decode_message", lambda *_: pytest.fail("pyarrow looked at it"))
    rows: Rows = [(b"key" if i % 2 else None, b"value", i) for i in range(1_000)]
    for codec in hd.CODECS.values():
        keys, values, times = zip(*rows, strict=True)
        data = encode_batch(keys, values, timestamps_ms=times, codec=codec, topic_id=TOPIC_ID, partition=0)
        assert check_rows(data, read_header(data)) == 500


def test_the_leaders_time_counts_where_the_topic_says_so() -> None:
    data = batch([(None, b"a", 5), (None, b"b", 6)])
    header = read_header(data)._replace(append_timestamp_ms=77)
    header = header._replace(attributes=header.attributes | hd.LOG_APPEND_TIME)
    found = read_columns(data, header)
    assert found is not None
    assert found[2] == [77, 77]


def test_what_is_no_small_plain_batch_is_left_to_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_of_it(*_: object) -> None:
        raise AssertionError("the payload was looked at")

    monkeypatch.setattr(few_rows, "read", none_of_it)
    for data in (
        encode_batch([None], [b"x" * 900], timestamps_ms=[1], codec=hd.CODEC_ZSTD, topic_id=TOPIC_ID, partition=0),
        encode_batch([None], [b"v"], timestamps_ms=[1], headers=[(("h", b""),)], topic_id=TOPIC_ID, partition=0),
    ):
        assert read_columns(data, read_header(data)) is None


def test_the_checksum_of_a_larger_batch_is_left_to_pyarrow_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: it was computed twice."""
    monkeypatch.setattr(hd, "check_body", lambda *_: pytest.fail("the body was looked at"))
    for data in (batch([(None, b"v", 1)] * 9), batch([(None, bytes(40_000), 1)])):
        assert read_columns(data, read_header(data)) is None


def test_a_broken_batch_is_refused() -> None:
    data = batch([(None, b"value", 5)])
    header = read_header(data)
    with pytest.raises(CorruptMessageError):
        read_columns(data[:-1] + bytes([data[-1] ^ 1]), header)
    with pytest.raises(InvalidRecordError):
        read_columns(data, header, max_uncompressed_bytes=10)
    with pytest.raises(InvalidRecordError):
        read_columns(data, header._replace(max_timestamp_ms=4))
