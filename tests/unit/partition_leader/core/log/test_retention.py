"""Which segments may go (case G145)."""

from __future__ import annotations

import pytest

from oncelog.core.batch.header import read_header
from oncelog_partition_leader.core.log.retention import is_active_expired, segments_to_delete
from oncelog_partition_leader.core.log.segment import SegmentIndex
from tests.unit.partition_leader.log_helpers import plain

LIMITS = {
    "now_ms": 0,
    "high_watermark": 50,
    "last_stable_offset": 50,
    "log_start_offset": 0,
    "retention_ms": -1,
    "retention_bytes": -1,
}


def _segments() -> list[SegmentIndex]:
    """Five segments of ten records and 128 bytes, of the times 0, 100, 200, 300, 400."""
    segments = []
    for n in range(5):
        index = SegmentIndex(n * 10)
        header = read_header(plain(timestamp_ms=n * 100, count=10))
        index.add(header._replace(base_offset=n * 10, append_timestamp_ms=0), 0)
        segments.append(index)
    return segments


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 0),
        ({"retention_ms": 250, "now_ms": 400}, 2),
        ({"retention_ms": 0, "now_ms": 10_000}, 4),
        ({"retention_ms": 0, "now_ms": 10_000, "high_watermark": 29}, 2),
        ({"retention_ms": 0, "now_ms": 10_000, "high_watermark": 30}, 3),
        ({"retention_bytes": 128 * 3}, 2),
        ({"retention_bytes": 128 * 3 + 1}, 1),
        ({"retention_bytes": 0}, 4),
        ({"log_start_offset": 20}, 2),
        ({"log_start_offset": 29}, 2),
        ({"log_start_offset": 50, "high_watermark": 0}, 0),
        ({"retention_ms": 0, "now_ms": 10_000, "last_stable_offset": 29}, 2),
        ({"retention_bytes": 0, "last_stable_offset": 5}, 0),
        ({"log_start_offset": 20, "last_stable_offset": 5}, 2),
    ],
)
def test_whole_segments_oldest_first(changes: dict[str, int], count: int) -> None:
    assert segments_to_delete(_segments(), **{**LIMITS, **changes}) == count


def test_a_young_segment_protects_what_follows_it() -> None:
    segments = _segments()
    segments[0].max_timestamp_ms = 10_000
    assert segments_to_delete(segments, **{**LIMITS, "now_ms": 10_000, "retention_ms": 1}) == 0


@pytest.mark.parametrize(
    ("changes", "is_expired"),
    [
        ({}, True),
        ({"now_ms": 1_400}, False),
        ({"now_ms": 1_401}, True),
        ({"retention_ms": -1}, False),
        ({"last_stable_offset": 49}, False),
        ({"segment_ms": 10_001, "retention_ms": 100}, True),
    ],
)
def test_the_active_segment_ends_when_all_of_it_is_past_retention(changes: dict[str, int], is_expired: bool) -> None:
    """The newest record is of the time 400."""
    limits = {"now_ms": 10_000, "last_stable_offset": 50, "retention_ms": 1_000, "segment_ms": 500}
    assert is_active_expired(_segments()[-1], **{**limits, **changes}) is is_expired


def test_records_that_were_old_when_they_were_written_stay_for_a_while() -> None:
    active = _segments()[-1]
    active.first_append_ms = 9_000
    limits = {"last_stable_offset": 50, "retention_ms": 1_000, "segment_ms": 500}
    assert not is_active_expired(active, now_ms=9_499, **limits)
    assert is_active_expired(active, now_ms=9_500, **limits)


def test_an_empty_active_segment_does_not_end() -> None:
    limits = {"now_ms": 10_000, "last_stable_offset": 50, "retention_ms": 0, "segment_ms": 1}
    assert not is_active_expired(SegmentIndex(50), **limits)
