"""The index of a segment, and when a segment ends (semantics G 149; S14)."""

from __future__ import annotations

import pytest

from oncelog.core.header import LOG_APPEND_TIME, BatchHeader, read_header
from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.segment import RELATIVE_OFFSET_MAX, SegmentIndex, must_roll, timestamp_of
from tests.unit.partition_leader.log_helpers import marker, plain


def _header(offset: int, *, time: int = 100, append_ms: int = 5, count: int = 1) -> BatchHeader:
    header = read_header(plain(timestamp_ms=time, count=count))
    return header._replace(base_offset=offset, append_timestamp_ms=append_ms)


def _index(times: list[int], interval: int = 200) -> SegmentIndex:
    index = SegmentIndex(50)
    for n, time in enumerate(times):
        index.add(_header(50 + n, time=time, append_ms=n), interval)
    index.check()
    return index


def test_entries_are_sparse_and_lie_at_or_below() -> None:
    index = _index([1] * 10)
    assert (index.next_offset, index.size, len(index)) == (60, 1280, 5)
    assert [index.position_below(offset) for offset in (50, 51, 52, 59)] == [(50, 0), (50, 0), (52, 256), (58, 1024)]


@pytest.mark.parametrize(("time", "position"), [(0, 0), (10, 0), (11, 256), (31, 512), (99, 768)])
def test_time_is_found_from_a_position_before_it(time: int, position: int) -> None:
    index = _index([10, 5, 30, 20, 40, 40, 50])
    assert index.position_before_time(time) == position


def test_retention_counts_from_the_largest_time_or_the_last_append() -> None:
    assert _index([10, 30, 20]).retention_timestamp_ms == 30
    index = SegmentIndex(0)
    index.add(read_header(marker((1, 1)))._replace(append_timestamp_ms=77), 0)
    assert (index.max_timestamp_ms, index.retention_timestamp_ms) == (-1, 77)


def test_log_append_time_is_the_leaders() -> None:
    header = read_header(plain(timestamp_ms=9, attributes=LOG_APPEND_TIME))._replace(append_timestamp_ms=55)
    assert timestamp_of(header) == 55


def test_the_index_survives_its_bytes() -> None:
    index = _index([10, 5, 30, 20, 40])
    again = SegmentIndex.load(index.dump(), 50, index.size)
    for name in (
        "next_offset",
        "size",
        "first_append_ms",
        "last_append_ms",
        "max_timestamp_ms",
        "max_timestamp_offset",
    ):
        assert getattr(again, name) == getattr(index, name)
    assert again.dump() == index.dump()


@pytest.mark.parametrize("case", ["cut", "flipped", "swapped", "beyond the file", "empty"])
def test_a_bad_index_is_refused(case: str) -> None:
    index = _index([10, 5, 30])
    data, base, size = index.dump(), 50, index.size
    if case == "cut":
        data = data[:-1]
    elif case == "flipped":
        data = data[:20] + bytes([data[20] ^ 1]) + data[21:]
    elif case == "swapped":
        base = 51
    elif case == "beyond the file":
        size -= 1
    else:
        data = b""
    with pytest.raises(CorruptMessageError):
        SegmentIndex.load(data, base, size)


@pytest.mark.parametrize(
    ("changes", "rolls"),
    [
        ({}, False),
        ({"incoming_bytes": 361}, True),
        ({"incoming_bytes": 360}, False),
        ({"append_timestamp_ms": 1000}, True),
        ({"append_timestamp_ms": 999}, False),
        ({"index_bytes": 31}, True),
        ({"incoming_end_offset": 51 + RELATIVE_OFFSET_MAX}, False),
        ({"incoming_end_offset": 52 + RELATIVE_OFFSET_MAX}, True),
    ],
)
def test_149_rolls_by_size_age_index_and_distance(changes: dict[str, int], rolls: bool) -> None:
    limits = {
        "incoming_bytes": 100,
        "incoming_end_offset": 60,
        "append_timestamp_ms": 1,
        "segment_bytes": 1000,
        "segment_ms": 1000,
        "index_bytes": 1000,
    }
    index = _index([1] * 5, interval=10_000)
    assert must_roll(index, **{**limits, **changes}) is rolls
    assert must_roll(SegmentIndex(50), **{**limits, **changes}) is False, "an empty segment takes anything"
