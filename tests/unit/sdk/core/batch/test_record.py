"""Times are milliseconds since 1970: a time before that, or in a finer unit, is refused with the unit in the words."""

from __future__ import annotations

import pyarrow as pa
import pytest

from oncelog.core.batch.record import TIMESTAMP_MAX_MS, Record, not_milliseconds


def test_a_record_without_headers_has_none() -> None:
    record = Record(None, b"v", 5, 7)
    assert record.headers == ()


def test_the_largest_time_is_the_last_one_that_readers_can_show() -> None:
    pa.array([TIMESTAMP_MAX_MS * 1_000], pa.timestamp("us"))
    with pytest.raises(OverflowError):
        pa.array([(TIMESTAMP_MAX_MS + 2) * 1_000], pa.int64())


@pytest.mark.parametrize(
    ("timestamp_ms", "words"),
    [(-1, "before 1970"), (TIMESTAMP_MAX_MS + 1, "not microseconds or nanoseconds"), (1 << 70, "not microseconds")],
)
def test_a_time_that_is_none_is_named_with_its_value(timestamp_ms: int, words: str) -> None:
    error = not_milliseconds(timestamp_ms)
    assert words in error.message
    assert error.context["timestamp_ms"] == str(timestamp_ms)
