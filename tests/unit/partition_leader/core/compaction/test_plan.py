"""When a log is due, how far it may be compacted, and which segments become one."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.compaction.plan import (
    NEVER_MS,
    CompactionOptions,
    Progress,
    cleanable,
    groups,
    is_due,
    is_overdue,
)
from oncelog_partition_leader.core.log.segment import SegmentIndex

NOW_MS = 1_000_000
OPTIONS = CompactionOptions(min_cleanable_dirty_ratio=0.5, min_compaction_lag_ms=0, max_compaction_lag_ms=-1)


def segment(base: int, end: int, size: int = 100, first_ms: int = NOW_MS, last_ms: int = NOW_MS) -> SegmentIndex:
    index = SegmentIndex(base)
    index.next_offset, index.size, index.first_append_ms, index.last_append_ms = end, size, first_ms, last_ms
    return index


THREE = [segment(0, 10), segment(10, 20), segment(20, 30)]


@pytest.mark.parametrize(("bound", "count"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (99, 2)])
def test_only_whole_segments_below_the_bound_and_never_the_active_one(bound: int, count: int) -> None:
    assert cleanable(THREE, bound, NOW_MS, 0) == count


def test_a_segment_with_a_young_batch_ends_it() -> None:
    segments = [segment(0, 10, last_ms=NOW_MS - 50), segment(10, 20, last_ms=NOW_MS - 49), segment(20, 20)]
    assert cleanable(segments, 99, NOW_MS, 49) == 2
    assert cleanable(segments, 99, NOW_MS, 50) == 1
    assert cleanable(segments, 99, NOW_MS, 51) == 0


@pytest.mark.parametrize(("cleaned_to", "due"), [(0, True), (10, True), (20, False), (30, False)])
def test_it_is_due_when_enough_of_it_is_dirty(cleaned_to: int, due: bool) -> None:
    assert is_due(THREE, Progress(cleaned_to), NOW_MS, OPTIONS) is due


def test_nothing_is_due_without_a_time_or_without_records() -> None:
    assert not is_due(THREE, Progress(), 0, OPTIONS)
    assert not is_due([], Progress(), NOW_MS, OPTIONS)


def test_it_is_due_when_something_that_was_kept_may_go() -> None:
    assert is_due(THREE, Progress(30, NOW_MS), NOW_MS, OPTIONS)
    assert not is_due(THREE, Progress(30, NOW_MS + 1), NOW_MS, OPTIONS)
    assert not is_due(THREE, Progress(30, NEVER_MS), NOW_MS, OPTIONS)


def test_what_waits_for_a_replica_makes_it_due_when_the_replica_has_the_last_of_it() -> None:
    waits = Progress(30, NEVER_MS, held_back_ms=NOW_MS, held_back_to=17)
    assert [is_due(THREE, waits, NOW_MS, OPTIONS, held) for held in (0, 16, 17, 30)] == [False, False, True, True]
    assert not is_due(THREE, waits, NOW_MS - 1, OPTIONS, 30), "its time is not over"
    assert is_due(THREE, waits._replace(horizon_ms=NOW_MS), NOW_MS, OPTIONS, 0), "something else is there to go"


def test_it_is_due_when_a_dirty_record_has_waited_for_too_long() -> None:
    options = OPTIONS._replace(max_compaction_lag_ms=100)
    segments = [segment(0, 90, 1_000, first_ms=0), segment(90, 100, 1, first_ms=NOW_MS - 100)]
    assert is_due(segments, Progress(90), NOW_MS, options)
    assert not is_due(segments, Progress(90), NOW_MS - 1, options)
    assert not is_due(segments, Progress(100), NOW_MS, options), "what is clean does not count"
    assert not is_overdue(segment(0, 0, 0, first_ms=0), NOW_MS, options), "an empty segment has no first record"


def test_neighbours_become_one_segment_while_they_fit() -> None:
    segments = [segment(n * 10, n * 10 + 10, size) for n, size in enumerate([40, 40, 40, 200, 10, 10])]
    assert groups(segments, 100) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert groups(segments, 1_000) == [(0, 6)]
    assert groups([], 100) == []


def test_one_segment_never_covers_more_offsets_than_its_index_can_name() -> None:
    segments = [segment(0, 10), segment(10, (1 << 31) - 1), segment((1 << 31) - 1, 1 << 31)]
    assert groups(segments, 1_000) == [(0, 2), (2, 3)]
