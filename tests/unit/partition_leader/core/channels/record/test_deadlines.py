"""Nothing that is due is late, and what is out of date does not pile up."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.channels.record.deadlines import Deadlines
from oncelog_partition_leader.core.channels.record.entry import Entry


def entry(offset: int, due_ms: int | None) -> Entry:
    made = Entry(offset)
    made.due_ms = due_ms
    return made


def test_runs_come_when_they_are_due() -> None:
    deadlines = Deadlines()
    deadlines.add(20, 5, 6)
    deadlines.add(10, 1, 1)
    assert deadlines.next_ms() == 10
    assert list(deadlines.due(9)) == []
    assert list(deadlines.due(10)) == [(1, 1)]
    assert list(deadlines.due(99)) == [(5, 6)]
    assert deadlines.next_ms() is None
    assert deadlines.offsets == 0


def test_one_may_be_added_while_others_come() -> None:
    deadlines = Deadlines()
    deadlines.add(10, 1, 1)
    for run in deadlines.due(10):
        deadlines.add(11, *run)
    assert deadlines.next_ms() == 11


def test_what_is_out_of_date_is_thrown_away() -> None:
    deadlines = Deadlines()
    for due_ms in range(5_000):
        deadlines.add(due_ms, 1, 1)
    assert deadlines.is_stale(records=3)
    entries = [entry(3, 9), entry(2, 9), entry(7, 9), entry(4, 8), entry(5, None)]
    deadlines.rebuild(entries)
    assert deadlines.offsets == 4
    assert not deadlines.is_stale(records=5)
    deadlines.check(entries)
    assert list(deadlines.due(9)) == [(4, 4), (2, 3), (7, 7)]


def test_nothing_is_left_of_no_records() -> None:
    deadlines = Deadlines()
    deadlines.add(1, 1, 1)
    deadlines.rebuild([])
    assert deadlines.next_ms() is None


def test_a_time_that_would_be_late_is_found() -> None:
    with pytest.raises(AssertionError, match="would be late"):
        Deadlines().check([entry(3, 9)])
