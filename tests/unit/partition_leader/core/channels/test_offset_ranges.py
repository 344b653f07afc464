"""A set of offsets is kept as ranges, and says what a plain set says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_partition_leader.core.channels.offset_ranges import OffsetRanges

OFFSETS = st.integers(0, 30)
RUNS = st.tuples(OFFSETS, st.integers(-1, 6)).map(lambda run: (run[0], run[0] + run[1]))


def plain(first: int, last: int) -> set[int]:
    return set(range(first, last + 1))


def members(ranges: OffsetRanges) -> set[int]:
    return {offset for run in ranges for offset in range(run[0], run[1] + 1)}


@given(st.lists(st.tuples(st.booleans(), RUNS), max_size=12), RUNS)
def test_it_is_a_set_of_offsets(steps: list[tuple[bool, tuple[int, int]]], question: tuple[int, int]) -> None:
    ranges, model = OffsetRanges(), set[int]()
    for adds, run in steps:
        (ranges.add if adds else ranges.remove)(*run)
        model = model | plain(*run) if adds else model - plain(*run)
    assert members(ranges) == model
    assert ranges.count == len(model)
    assert ranges == OffsetRanges((offset, offset) for offset in model)
    assert {offset for offset in range(40) if offset in ranges} == model
    assert members(OffsetRanges(ranges.within(*question))) == model & plain(*question)
    assert members(OffsetRanges(ranges.gaps(*question))) == plain(*question) - model
    assert ranges.first_gap(question[0]) == min(plain(question[0], 60) - model)
    assert (ranges.first, ranges.last) == (min(model), max(model)) if model else not ranges


@given(st.lists(RUNS, max_size=10), OFFSETS)
def test_what_is_below_an_offset_is_removed(runs: list[tuple[int, int]], offset: int) -> None:
    ranges = OffsetRanges(runs)
    before = members(ranges)
    ranges.remove_below(offset)
    assert members(ranges) == {member for member in before if member >= offset}


def test_neighbours_become_one_range() -> None:
    ranges = OffsetRanges([(1, 2), (5, 6), (3, 4)])
    assert list(ranges) == [(1, 6)]
    assert len(ranges) == 1


@pytest.mark.parametrize(("most", "taken", "left"), [(2, (1, 2), [(3, 3), (7, 9)]), (9, (1, 3), [(7, 9)])])
def test_the_first_neighbours_are_taken(most: int, taken: tuple[int, int], left: list[tuple[int, int]]) -> None:
    ranges = OffsetRanges([(1, 3), (7, 9)])
    assert ranges.pop_first(most) == taken
    assert list(ranges) == left
    assert ranges.count == sum(last - first + 1 for first, last in left)


def test_a_run_of_a_billion_is_one_range() -> None:
    ranges = OffsetRanges([(0, 10**9)])
    ranges.remove(5, 5)
    assert list(ranges) == [(0, 4), (6, 10**9)]
    assert ranges.count == 10**9


def test_it_is_emptied() -> None:
    ranges = OffsetRanges([(0, 3)])
    ranges.clear()
    assert (list(ranges), ranges.count, bool(ranges)) == ([], 0, False)
    assert repr(OffsetRanges([(1, 2)])) == "OffsetRanges([(1, 2)])"
