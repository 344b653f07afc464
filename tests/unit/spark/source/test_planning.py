"""The rules of `planning.py`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyspark_oncelog.source.planning import OffsetRange, limit_rows, plan_tasks


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", p, "id", 100, 100 + size) for p, size in enumerate(sizes)]


def test_small_partitions_share_a_task() -> None:
    tasks = plan_tasks(ranges(10, 20, 30), min_partitions=0, min_rows_per_task=50)
    assert [[r.partition for r in task] for task in tasks] == [[0, 1, 2]]


def test_big_partitions_have_their_own_tasks() -> None:
    tasks = plan_tasks(ranges(60, 60), min_partitions=0, min_rows_per_task=50)
    assert [[r.partition for r in task] for task in tasks] == [[0], [1]]


def test_min_partitions_splits_in_proportion_to_size() -> None:
    tasks = plan_tasks(ranges(100, 300), min_partitions=4, min_rows_per_task=1000)
    assert [(t[0].partition, t[0].size) for t in tasks] == [(0, 100), (1, 100), (1, 100), (1, 100)]


def test_no_task_is_larger_than_the_limit() -> None:
    tasks = plan_tasks(ranges(25, 4, 4, 4), min_partitions=0, min_rows_per_task=50, max_rows_per_task=10)
    assert [[r.size for r in task] for task in tasks] == [[8], [8], [9], [4, 4], [4]]


def test_empty_ranges_are_left_out() -> None:
    assert plan_tasks(ranges(0, 0), 0, 10) == []


@given(st.lists(st.integers(0, 500), max_size=8), st.integers(0, 12), st.integers(1, 400), st.integers(0, 300))
def test_every_offset_is_read_exactly_once(sizes: list[int], min_partitions: int, min_rows: int, max_rows: int) -> None:
    tasks = plan_tasks(ranges(*sizes), min_partitions, min_rows, max_rows)
    assert not max_rows or all(sum(r.size for r in task) <= max_rows for task in tasks)
    covered = sorted((r.partition, o) for task in tasks for r in task for o in range(r.start, r.end))
    assert covered == [(p, 100 + i) for p, size in enumerate(sizes) for i in range(size)]


@given(st.dictionaries(st.integers(0, 5), st.integers(0, 1000), min_size=1), st.integers(1, 2000))
def test_a_limit_is_kept_to_the_offset_and_nobody_starves(lags: dict[int, int], max_rows: int) -> None:
    start = {("t", p): 7 for p in lags}
    end = {("t", p): 7 + lag for p, lag in lags.items()}
    limited = limit_rows(start, end, max_rows)
    lagging = sum(lag > 0 for lag in lags.values())
    assert sum(limited[k] - 7 for k in limited) == min(sum(lags.values()), max(max_rows, lagging))
    assert all(start[k] < limited[k] <= end[k] for k in end if end[k] > 7)


def test_a_limit_is_shared_in_proportion_to_lag() -> None:
    """Regression: 1000 per trigger were 999, since each share was rounded down."""
    start = {("t", p): 10 * p for p in range(4)}
    ends = {("t", 0): 667, ("t", 1): 10 + 667, ("t", 2): 20 + 666, ("t", 3): 30}
    limited = limit_rows(start, ends, 1000)
    assert [limited["t", p] - start["t", p] for p in range(4)] == [334, 333, 333, 0]


def test_a_partition_that_was_cut_stays_where_it_is_when_others_are_limited() -> None:
    limited = limit_rows({("t", 0): 50, ("t", 1): 0}, {("t", 0): 40, ("t", 1): 100}, 10)
    assert limited == {("t", 0): 50, ("t", 1): 10}
