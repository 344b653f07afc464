"""The index of a segment, and when a segment ends (case G149; S14)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.core.batch.header import LOG_APPEND_TIME, BatchHeader, read_header
from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.log.segment import (
    RELATIVE_OFFSET_MAX,
    SegmentIndex,
    SegmentLimits,
    run_that_fits,
    timestamp_of,
)
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


LIMITS = SegmentLimits(segment_bytes=1000, segment_ms=1000, index_bytes=1000)


@pytest.mark.parametrize(
    ("length", "append_ms", "offset", "changes", "fits"),
    [
        (128, 1, 55, {}, True),
        (360, 1, 55, {}, True),
        (361, 1, 55, {}, False),
        (128, 999, 55, {}, True),
        (128, 1000, 55, {}, False),
        (128, 1, 55, {"index_bytes": 31}, False),
        (128, 1, 50 + RELATIVE_OFFSET_MAX, {}, True),
        (128, 1, 51 + RELATIVE_OFFSET_MAX, {}, False),
    ],
)
def test_a_segment_ends_by_size_age_index_and_distance(
    length: int, append_ms: int, offset: int, changes: dict[str, int], fits: bool
) -> None:
    batch = _header(offset, append_ms=append_ms)._replace(batch_length=length)
    limits = replace(LIMITS, **changes)
    assert run_that_fits(_index([1] * 5, interval=10_000), [batch], limits) == fits
    assert run_that_fits(SegmentIndex(50), [batch], limits) == 1, "an empty segment takes anything"


def test_each_batch_of_a_group_is_judged_as_if_those_before_it_were_in() -> None:
    far = 50 + RELATIVE_OFFSET_MAX
    group = [_header(50), _header(far - 1), _header(far), _header(far + 1), _header(far + 2)]
    assert run_that_fits(SegmentIndex(50), group, LIMITS) == 3, "offsets"
    assert run_that_fits(SegmentIndex(50), [_header(50)] * 9, LIMITS) == 7, "bytes: 128 each"
    assert run_that_fits(SegmentIndex(50), [_header(50)] * 9, replace(LIMITS, index_bytes=48)) == 3, "index entries"


def test_a_batch_too_far_from_the_base_is_refused_and_changes_nothing() -> None:
    index = _index([10, 20])
    before = index.dump()
    with pytest.raises(CorruptMessageError):
        index.add(_header(51 + RELATIVE_OFFSET_MAX), 0)
    assert index.dump() == before
    index.check()


def test_a_right_checksum_of_an_index_that_cannot_be_is_no_index() -> None:
    """It would lead a reader astray, or keep the log from opening; without it, the segment is scanned."""
    index = SegmentIndex(0)
    index.next_offset, index.size = 5, 100
    index._offsets.extend((3, 3))
    index._positions.extend((0, 50))
    index._before.extend((-1, -1))
    with pytest.raises(CorruptMessageError, match="contradicts itself"):
        SegmentIndex.load(index.dump(), 0, 100)
