"""Decides when a log is compacted, how far, and which of its segments become one.

Rule 1: only whole segments, never the active one, none that reaches above the bound (high watermark, last stable offset and
        synced end), and none that took a batch less than `min_compaction_lag_ms` ago.
Rule 2: a log is due when enough of it is dirty, when a dirty record is older than `max_compaction_lag_ms`, or when tombstones
        or markers that were kept for their time may go. Those that also wait for a replica make it due once, when every
        replica holds the last of them: a replica that catches up for hours must not cost a pass for each of its steps.
Rule 3: while the time is unknown (0, see `ClusterClock`) nothing is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from oncelog_partition_leader.core.log.segment import RELATIVE_OFFSET_MAX, SegmentIndex

NEVER_MS: Final = 1 << 62


class CompactionOptions(NamedTuple):
    """The options of a topic that compaction obeys."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


class Progress(NamedTuple):
    """How far a log was compacted: everything below `cleaned_to`. `horizon_ms`: when something that was kept may go.

    `held_back_ms`: when the first of those may go that not every replica holds yet, `held_back_to`: the end of the last one.
    """

    cleaned_to: int = 0
    horizon_ms: int = NEVER_MS
    held_back_ms: int = NEVER_MS
    held_back_to: int = 0

    def is_past(self, now_ms: int, held_everywhere: int) -> bool:
        """Returns True when something that was kept may go, and every replica has what it waited for."""
        return self.horizon_ms <= now_ms or (self.held_back_ms <= now_ms and self.held_back_to <= held_everywhere)


def cleanable(segments: Sequence[SegmentIndex], bound: int, now_ms: int, min_lag_ms: int) -> int:
    """Counts the segments, from the first one on, that may be compacted; `segments` ends with the active one."""
    count = 0
    for segment in segments[:-1]:
        if segment.next_offset > bound or now_ms - segment.last_append_ms < min_lag_ms:
            break
        count += 1
    return count


def is_due(
    segments: Sequence[SegmentIndex],
    progress: Progress,
    now_ms: int,
    options: CompactionOptions,
    held_everywhere: int = 0,
) -> bool:
    """Returns True when these segments, all that may be compacted, should be compacted now."""
    dirty = [segment for segment in segments if segment.next_offset > progress.cleaned_to]
    total = sum(segment.size for segment in segments)
    if now_ms <= 0 or not total:
        return False
    if progress.is_past(now_ms, held_everywhere):
        return True
    if not dirty:
        return False
    ratio = sum(segment.size for segment in dirty) / total
    return ratio >= options.min_cleanable_dirty_ratio or is_overdue(dirty[0], now_ms, options)


def is_overdue(segment: SegmentIndex, now_ms: int, options: CompactionOptions) -> bool:
    """Returns True when the first record of a segment must not wait any longer for its compaction."""
    return segment.size > 0 and 0 < options.max_compaction_lag_ms <= now_ms - segment.first_append_ms


def groups(segments: Sequence[SegmentIndex], segment_bytes: int) -> list[tuple[int, int]]:
    """Returns ranges [first, end) of neighbours that fit into one segment together, by their sizes before compaction."""
    found: list[tuple[int, int]] = []
    first, size = 0, 0
    for number, segment in enumerate(segments):
        too_far = segment.next_offset - segments[first].base_offset > RELATIVE_OFFSET_MAX
        if number > first and (size + segment.size > segment_bytes or too_far):
            found.append((first, number))
            first, size = number, 0
        size += segment.size
    if segments:
        found.append((first, len(segments)))
    return found
