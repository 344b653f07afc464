"""A few records without pyarrow: its bytes, and no other records than it reads."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.batch import few_rows, plain_message
from oncelog.core.batch.batch import PLAIN_SCHEMA, _read_message

ITEMS = st.none() | st.binary(max_size=40)
ROWS = st.lists(st.tuples(st.integers(0, 1 << 40), ITEMS, ITEMS), min_size=1, max_size=few_rows.ROWS_MAX)
Rows = list[tuple[int, bytes | None, bytes | None]]


def by_pyarrow(rows: Rows) -> bytes:
    columns = [pa.array(column, kind.type) for column, kind in zip(zip(*rows, strict=True), PLAIN_SCHEMA, strict=True)]
    return bytes(pa.RecordBatch.from_arrays(columns, schema=PLAIN_SCHEMA).serialize())


def by_hand(rows: Rows) -> bytes:
    encoded = few_rows.encode(*map(list, zip(*rows, strict=True)))  # type: ignore[arg-type]
    assert encoded is not None
    return encoded


def read(message: bytes) -> pa.RecordBatch:
    return _read_message(pa.py_buffer(message), len(message), PLAIN_SCHEMA)


@given(ROWS)
@settings(max_examples=500)
def test_the_bytes_are_those_of_pyarrow_and_are_read(rows: Rows) -> None:
    message = by_hand(rows)
    assert message == by_pyarrow(rows)
    assert few_rows.read(message, len(rows)) == (
        tuple(time for time, _, _ in rows),
        [key for _, key, _ in rows],
        [value for *_, value in rows],
    )


def changed(message: bytes, changes: list[tuple[int, int]]) -> bytes:
    data = bytearray(message)
    for place, value in changes:
        data[place % len(data)] = value
    return bytes(data)


CHANGES = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=3)


@given(ROWS, CHANGES, st.integers(-9, 9) | st.integers(-400, 0))
@settings(max_examples=2_000)
def test_what_is_read_is_what_pyarrow_reads(rows: Rows, changes: list[tuple[int, int]], cut: int) -> None:
    """Whatever a stranger makes of the bytes."""
    message = changed(by_hand(rows), changes)
    message = message[:cut] if cut < 0 else message + bytes(cut)
    found = few_rows.read(message, len(rows))
    if found is not None:
        times, keys, values = (column.to_pylist() for column in read(message).columns)
        assert found == (tuple(times), keys, values)


@pytest.mark.parametrize(
    ("deltas", "keys", "values"),
    [
        ([0] * 9, [None] * 9, [b""] * 9),
        ([0], [None], ["text"]),
        ([0], [bytearray(b"k")], [b""]),
        ([0], [None], [bytes(few_rows.BYTES_MAX + 1)]),
    ],
    ids=["many", "text", "no bytes", "large"],
)
def test_other_records_are_left_to_pyarrow(deltas: list[int], keys: list[bytes], values: list[bytes]) -> None:
    assert few_rows.encode(deltas, keys, values) is None


def test_many_or_long_records_are_left_to_pyarrow() -> None:
    """Their messages are known, but are no less work to read."""
    for rows in ([(0, None, b"value")] * 9, [(0, None, bytes(few_rows.MESSAGE_BYTES_MAX))]):
        message = by_pyarrow(rows)
        assert plain_message.check(message, len(rows)) is not None
        assert few_rows.read(message, len(rows)) is None
