"""Decides which segments retention may delete.

Rule 1: whole segments, oldest first, never the active one, never one that reaches the high watermark: only
        committed records can be old.
Rule 2: by time (a segment's largest timestamp), by size (only while the rest stays at or above the limit), and by log
        start offset.
Rule 3: time and size delete nothing from the last stable offset on: a transaction that is open keeps its records.
Rule 4: the active segment of a partition that gets no more writes ends when its newest record is past retention, so
        that it can go. One that was begun less than `segment_ms` ago (or, if that is shorter, the retention) does not: records
        that were old when they were written can be read for a while.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_partition_leader.core.log.segment import SegmentIndex


def segments_to_delete(
    segments: Sequence[SegmentIndex],
    *,
    now_ms: int,
    high_watermark: int,
    last_stable_offset: int,
    log_start_offset: int,
    retention_ms: int,
    retention_bytes: int,
) -> int:
    """Counts the oldest segments that may be deleted; `segments` ends with the active one. Retentions of -1 have no limit."""
    left_bytes = sum(segment.size for segment in segments)
    count = 0
    for segment in segments[:-1]:
        if segment.next_offset > high_watermark:
            break
        expired = retention_ms >= 0 and now_ms - segment.retention_timestamp_ms > retention_ms
        too_much = retention_bytes >= 0 and left_bytes - segment.size >= retention_bytes
        is_decided = segment.next_offset <= last_stable_offset
        if not ((is_decided and (expired or too_much)) or segment.next_offset <= log_start_offset):
            break
        left_bytes -= segment.size
        count += 1
    return count


def is_active_expired(
    active: SegmentIndex, *, now_ms: int, last_stable_offset: int, retention_ms: int, segment_ms: int
) -> bool:
    """Returns True when the active segment must be rolled, because all of it is past retention."""
    if retention_ms < 0 or not active.size or active.next_offset > last_stable_offset:
        return False
    if now_ms - active.first_append_ms < min(segment_ms, retention_ms):
        return False
    return now_ms - active.retention_timestamp_ms > retention_ms
