"""Which segments may go (semantics G 145)."""

from __future__ import annotations

import pytest

from oncelog.core.header import read_header
from oncelog_partition_leader.core.retention import segments_to_delete
from oncelog_partition_leader.core.segment import SegmentIndex
from tests.unit.partition_leader.log_helpers import plain


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
    ],
)
def test_whole_segments_oldest_first(changes: dict[str, int], count: int) -> None:
    limits = {"now_ms": 0, "high_watermark": 50, "log_start_offset": 0, "retention_ms": -1, "retention_bytes": -1}
    assert segments_to_delete(_segments(), **{**limits, **changes}) == count


def test_a_young_segment_protects_what_follows_it() -> None:
    segments = _segments()
    segments[0].max_timestamp_ms = 10_000
    limits = {"now_ms": 10_000, "high_watermark": 50, "log_start_offset": 0, "retention_ms": 1, "retention_bytes": -1}
    assert segments_to_delete(segments, **limits) == 0
