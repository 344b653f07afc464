"""Which segments a log may forget.

Rule 1: whole segments, oldest first, never the active one, never one that reaches the high watermark: what is not
        committed is not old.
Rule 2: by time (a segment's largest timestamp), by size (only while the rest stays at or above the limit), and by log
        start offset.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_partition_leader.core.segment import SegmentIndex


def segments_to_delete(
    segments: Sequence[SegmentIndex],
    *,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
    retention_ms: int,
    retention_bytes: int,
) -> int:
    """How many of the oldest segments may go; `segments` ends with the active one. Retentions of -1 have no limit."""
    left_bytes = sum(segment.size for segment in segments)
    count = 0
    for segment in segments[:-1]:
        if segment.next_offset > high_watermark:
            break
        expired = retention_ms >= 0 and now_ms - segment.retention_timestamp_ms > retention_ms
        too_much = retention_bytes >= 0 and left_bytes - segment.size >= retention_bytes
        if not (expired or too_much or segment.next_offset <= log_start_offset):
            break
        left_bytes -= segment.size
        count += 1
    return count
