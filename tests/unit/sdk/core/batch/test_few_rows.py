"""A few records without pyarrow: its bytes, and never another verdict than it has."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.batch import few_rows
from oncelog.core.batch.batch import PLAIN_SCHEMA, _read_message
from oncelog.errors import InvalidRecordError

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
def test_the_bytes_are_those_of_pyarrow_and_are_known(rows: Rows) -> None:
    message = by_hand(rows)
    assert message == by_pyarrow(rows)
    times = [time for time, _, _ in rows]
    without_key = sum(key is None for _, key, _ in rows)
    assert few_rows.check(message, len(rows)) == (min(times), max(times), without_key)
    assert few_rows.read(message, len(rows)) == (
        tuple(times),
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
def test_what_is_known_can_be_read(rows: Rows, changes: list[tuple[int, int]], cut: int) -> None:
    """Whatever a stranger makes of the bytes: a yes is one that pyarrow gives too, about the same records."""
    message = changed(by_hand(rows), changes)
    message = message[:cut] if cut < 0 else message + bytes(cut)
    checked, found = few_rows.check(message, len(rows)), few_rows.read(message, len(rows))
    if checked is None:
        assert found is None
        return
    batch = read(message)
    assert batch.num_rows == len(rows)
    times = batch.column(0).to_pylist()
    assert checked == (min(times), max(times), batch.column(1).null_count)
    assert found == (tuple(times), batch.column(1).to_pylist(), batch.column(2).to_pylist())


@pytest.mark.parametrize("place", range(272))
def test_each_byte_of_the_metadata_is_looked_at(place: int) -> None:
    """With another value there, the message is for pyarrow; so is one with another number of records than said."""
    message = by_hand([(0, None, b"value"), (5, b"key", b"")])
    for bit in range(8):
        other = changed(message, [(place, message[place] ^ 1 << bit)])
        assert few_rows.check(other, 2) is None
    assert few_rows.check(message, 1) is few_rows.check(message, 3) is None


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


@pytest.mark.parametrize("length", range(272 + 8 * 8 + 8))
def test_a_message_that_is_cut_short_is_not_known(length: int) -> None:
    """Regression: one that ended within the times of its records raised an error of `struct`."""
    message = by_hand([(5, b"key", b"value")] * 8)
    assert few_rows.check(message[:length], 8) is None
    assert few_rows.read(message[:length], 8) is None


def test_what_pyarrow_refuses_is_not_known() -> None:
    message = by_hand([(0, b"k", b"value")])
    shrunk = changed(message, [(272 + 8 + 4, 99)])  # the key ends behind its bytes
    with pytest.raises(InvalidRecordError):
        read(shrunk)
    assert few_rows.check(shrunk, 1) is None


def test_a_bit_behind_the_rows_stands_for_none_of_them() -> None:
    """Regression: it was counted for a row, and a batch was taken whose null counts every reader refuses."""
    message = by_hand([(0, b"k", b"value"), (0, None, b"value")])
    validity = 272 + 16
    assert message[validity] == 0b01
    moved = changed(message, [(validity, 0b100)])
    with pytest.raises(InvalidRecordError):
        read(moved)
    assert few_rows.check(moved, 2) is None
