"""A message of plain records that is checked without pyarrow has no other verdict than with it."""

from __future__ import annotations

from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.batch import plain_message
from oncelog.core.batch.batch import PLAIN_SCHEMA, _read_message
from oncelog.errors import InvalidRecordError

METADATA_END = 272
Rows = list[tuple[int, bytes | None, bytes | None]]
ITEMS = st.none() | st.binary(max_size=9)
ROWS = st.lists(st.tuples(st.integers(0, 1 << 40), ITEMS, ITEMS), min_size=1, max_size=200)
COUNTS = (1, 8, 64, 65, 72, 200)
"""Few and many, with a part of a byte of validity and without."""


def encoded(rows: Rows) -> bytes:
    columns = [pa.array(column, kind.type) for column, kind in zip(zip(*rows, strict=True), PLAIN_SCHEMA, strict=True)]
    return bytes(pa.RecordBatch.from_arrays(columns, schema=PLAIN_SCHEMA).serialize())


def with_keys(count: int) -> Rows:
    return [(i, b"key", b"value") for i in range(count)]


def read(message: bytes) -> pa.RecordBatch:
    return _read_message(pa.py_buffer(message), len(message), PLAIN_SCHEMA)


def changed(message: bytes, changes: list[tuple[int, int]]) -> bytes:
    data = bytearray(message)
    for place, value in changes:
        data[place % len(data)] = value
    return bytes(data)


def refused_by_both(message: bytes, count: int) -> None:
    with pytest.raises(InvalidRecordError):
        read(message)
    assert plain_message.check(message, count) is None


@given(ROWS, st.booleans())
@settings(max_examples=500)
def test_what_pyarrow_writes_is_known_when_its_times_ascend(rows: Rows, has_keys: bool) -> None:
    times = list(accumulate(time for time, _, _ in rows))
    rows = [(time, key if has_keys else None, value) for time, (_, key, value) in zip(times, rows, strict=True)]
    without_key = sum(key is None for _, key, _ in rows)
    assert plain_message.check(encoded(rows), len(rows)) == (times[0], times[-1], without_key)


def test_times_of_a_few_records_may_have_any_order() -> None:
    rows: Rows = [(time, None, b"") for time in (5, 9, 2)]
    assert plain_message.check(encoded(rows), 3) == (2, 9, 3)


@pytest.mark.parametrize("count", [65, 200])
def test_many_times_that_do_not_ascend_are_left_to_pyarrow(count: int) -> None:
    for late in (0, count // 2, count - 2):
        rows = with_keys(count)
        rows[late] = (count, None, b"value")
        assert plain_message.check(encoded(rows), count) is None


CHANGES = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=3)


@given(ROWS, st.integers(0, 3), CHANGES, st.just(0) | st.integers(-9, 9) | st.integers(-400, 0))
@settings(max_examples=2_000)
def test_what_is_known_can_be_read(rows: Rows, kind: int, changes: list[tuple[int, int]], cut: int) -> None:
    """Whatever a stranger makes of the bytes: a yes is one that pyarrow gives too, about the same records."""
    rows = [(0, key if kind & 1 else None, value if kind & 2 else b"") for _, key, value in rows]
    message = encoded(rows)
    ahead_of_content = METADATA_END + 24 * len(rows)
    message = changed(message, [(place % min(ahead_of_content, len(message)), value) for place, value in changes])
    message = message[:cut] if cut < 0 else message + bytes(cut)
    checked = plain_message.check(message, len(rows))
    if checked is None:
        return
    batch = read(message)
    assert batch.num_rows == len(rows)
    times = batch.column(0).to_pylist()
    assert checked == (min(times), max(times), batch.column(1).null_count)


@pytest.mark.parametrize("count", [2, 100])
@pytest.mark.parametrize("place", range(METADATA_END))
def test_each_byte_of_the_metadata_is_looked_at(place: int, count: int) -> None:
    """With another value there, the message is for pyarrow; so is one with another number of records than said."""
    message = encoded([(i, None if i else b"key", b"value") for i in range(count)])
    assert plain_message.check(message, count) is not None
    for bit in range(8):
        assert plain_message.check(changed(message, [(place, message[place] ^ 1 << bit)]), count) is None
    assert plain_message.check(message, count - 1) is plain_message.check(message, count + 1) is None


@pytest.mark.parametrize("count", COUNTS)
def test_each_offset_is_looked_at(count: int) -> None:
    """Each one in turn lies before the one before it, or behind the one after it: of keys and of values."""
    message = encoded(with_keys(count))
    keys_at = METADATA_END + 8 * count
    values_at = keys_at + (4 * (count + 1) + 7) // 8 * 8 + (3 * count + 7) // 8 * 8
    assert plain_message.check(message, count) is not None
    for begin, size in ((keys_at, 3), (values_at, 5)):
        for row in range(count + 1):
            place = begin + 4 * row
            assert int.from_bytes(message[place : place + 4], "little") == size * row
            for wrong in (size * row - size - 1, size * row + size + 1):
                other = message[:place] + (wrong & 0xFFFFFFFF).to_bytes(4, "little") + message[place + 4 :]
                refused_by_both(other, count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", [-1, -1000, -(1 << 63), (1 << 63) - 1])
@pytest.mark.parametrize("column", ["keys", "values"])
def test_a_size_of_content_that_no_bytes_have_is_not_known(count: int, size: int, column: str) -> None:
    """Regression: with a negative one, offsets were read behind the end of a message that was cut, which raised."""
    buffers, end = [0, 0, 0, 8 * count], 8 * count
    for content_bytes in (size, 0) if column == "keys" else (0, size):
        content_at = end + (4 * count + 4 + 7) // 8 * 8
        buffers += (end, 0, end, 4 * count + 4, content_at, content_bytes)
        end = content_at + (content_bytes + 7) // 8 * 8
        end = max(min(end, 1 << 62), -1 << 62)  # so that the position of what follows fits into its field
    message = plain_message.head(0, count, buffers, [count, 0] * 3) + bytes(8 * count)
    for padding in (0, 4 * count + 8, 8 * count + 16):
        assert plain_message.check(message + bytes(padding), count) is None


@pytest.mark.parametrize("count", COUNTS)
def test_a_message_that_is_cut_short_is_not_known(count: int) -> None:
    """Regression: one that ended within the times of its records raised an error of `struct`."""
    message = encoded([(i, b"key" if i % 2 else None, b"value") for i in range(count)])
    assert plain_message.check(message, count) is not None
    for length in range(len(message)):
        assert plain_message.check(message[:length], count) is None


@pytest.mark.parametrize("count", [3, 65, 100])
def test_a_bit_behind_the_rows_stands_for_none_of_them(count: int) -> None:
    """Regression: it was counted for a row, and a batch was taken whose null counts every reader refuses."""
    message = encoded([(0, b"k" if i else None, b"value") for i in range(count)])
    validity, last = METADATA_END + 8 * count, (count - 1) // 8
    assert message[validity] & 1 == 0
    fewer = changed(message, [(validity, message[validity] & ~2)])
    refused_by_both(changed(fewer, [(validity + last, fewer[validity + last] | 1 << count % 8)]), count)


@pytest.mark.parametrize("count", [3, 65, 100])
def test_the_number_of_nulls_is_that_of_the_validity(count: int) -> None:
    message = encoded([(0, b"k" if i else None, b"value") for i in range(count)])
    validity = METADATA_END + 8 * count
    for bits in (message[validity] ^ 1, message[validity] ^ 2):
        refused_by_both(changed(message, [(validity, bits)]), count)


@pytest.mark.parametrize("count", [0, -1])
def test_a_batch_without_records_is_not_known(count: int) -> None:
    message = bytes(pa.RecordBatch.from_pylist([], schema=PLAIN_SCHEMA).serialize())
    assert plain_message.check(message, count) is None


@pytest.mark.parametrize("shift", range(1, 8))
def test_bytes_at_any_place_in_memory_are_looked_at(shift: int) -> None:
    """A batch begins anywhere in the bytes of a request."""
    message = encoded(with_keys(100))
    moved = memoryview(bytes(shift) + message)[shift:]
    assert plain_message.check(moved, 100) == plain_message.check(message, 100) == (0, 99, 0)
