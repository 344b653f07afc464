"""The window knows what is settled, and looks at no record twice."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.channels.offset_ranges import OffsetRanges
from oncelog_partition_leader.core.channels.record.record_states import RecordState
from oncelog_partition_leader.core.channels.record.records import Records
from oncelog_partition_leader.core.channels.stored_state import Retried, Stored
from oncelog_partition_leader.core.channels.window import Window
from oncelog_partition_leader.core.producers.transactions import TxnName

TXN = TxnName(7, 1)


def window(stored: Stored, order_by_key: bool = False) -> tuple[Records, Window]:
    records = Records(order_by_key)
    return records, Window(records, stored, 1_000)


def test_what_is_not_visible_is_settled() -> None:
    records, made = window(Stored(0))
    made.supply(0, 10, [(2, 4), (6, 6)], None, {})
    assert list(records.fresh) == [(2, 4), (6, 6)]
    assert (made.settled_before, made.next_offset) == (2, 10)
    assert list(made.settled) == [(5, 5), (7, 9)]
    made.check()


def test_what_the_coordinator_told_is_kept() -> None:
    stored = Stored(2, settled=((4, 5), (20, 21)), retried=(Retried(3, 2, 0), Retried(6, 1, 50), Retried(8, 3, 0)))
    records, made = window(stored)
    made.supply(2, 10, [(2, 9)], None, {TXN: OffsetRanges([(8, 8)])})
    assert list(records.fresh) == [(2, 2), (7, 7), (9, 9)]
    told = {offset: (entry.state, entry.deliveries, entry.due_ms) for offset, entry in records.entries.items()}
    assert told == {
        3: (RecordState.AVAILABLE, 2, None),
        6: (RecordState.AVAILABLE, 1, 1_050),
        8: (RecordState.IN_TXN, 4, None),
    }
    assert made.settled_before == 2
    assert list(made.settled) == [(4, 5), (20, 21)]
    made.check()
    records.check()


def test_it_begins_where_the_settled_ends() -> None:
    _, made = window(Stored(2, settled=((2, 5), (8, 9)), retried=(Retried(4, 1, 0),)))
    assert (made.settled_before, made.next_offset) == (6, 6)
    made.check()


def test_only_what_is_new_is_looked_at() -> None:
    records, made = window(Stored(0))
    made.supply(0, 5, [(0, 4)], None, {})
    made.supply(3, 8, [(3, 7)], None, {})
    assert list(records.fresh) == [(0, 7)]
    made.supply(9, 12, [(9, 11)], None, {})
    made.supply(2, 8, [(2, 7)], None, {})
    assert made.next_offset == 8, "a gap, or what is known, is not taken"
    made.check()


def test_each_record_gets_the_hash_of_its_own_key() -> None:
    records, made = window(Stored(0, settled=((3, 3),)), order_by_key=True)
    made.supply(0, 2, [(0, 0)], [50], {})
    made.supply(0, 7, [(0, 0), (2, 4), (6, 6)], [50, 52, 53, 54, 56], {})
    assert {offset: entry.key for offset, entry in records.entries.items()} == {0: 50, 2: 52, 4: 54, 6: 56}
    made.check()


def test_what_is_settled_moves_the_window() -> None:
    _, made = window(Stored(0))
    made.supply(0, 5, [], None, {})
    assert (made.settled_before, made.room(10)) == (5, 10)
    assert made.unsettled_below(7) == 2
    made.settle(7, 9)
    made.advance()
    assert made.settled_before == 5
    assert made.settled_with(OffsetRanges([(5, 6), (10, 10), (12, 12)])) == 11
    assert made.settled_with(OffsetRanges([(6, 6)])) == 5


@pytest.mark.parametrize(("offset", "settled"), [(1, True), (2, False), (4, True), (6, False)])
def test_it_says_what_is_settled(offset: int, settled: bool) -> None:
    _, made = window(Stored(2, settled=((4, 5),)))
    assert made.is_settled(offset) is settled


def test_it_counts_what_is_not_settled_also_where_it_has_not_looked() -> None:
    _, made = window(Stored(2, settled=((4, 5), (7, 9))))
    made.supply(2, 4, [(2, 3)], None, {})
    assert (made.unsettled_below(4), made.unsettled_between(4, 10), made.unsettled_between(11, 10)) == (2, 2, 0)


def test_a_record_that_comes_back_before_it_was_looked_at() -> None:
    records, made = window(Stored(0, retried=(Retried(3, 2, 90),)))
    made.came_back(3)
    made.came_back(1)
    made.check()
    made.supply(0, 5, [(0, 4)], None, {})
    assert {offset: (entry.deliveries, entry.due_ms) for offset, entry in records.entries.items()} == {
        1: (1, None),
        3: (3, None),
    }
    with pytest.raises(AssertionError, match="has an entry"):
        made.came_back(2)


def test_a_seek_begins_again() -> None:
    records, made = window(Stored(4, settled=((6, 6),), retried=(Retried(8, 1, 0),)))
    made.seek(2)
    records.clear()
    assert (made.settled_before, made.next_offset) == (2, 2)
    made.supply(2, 10, [(2, 9)], None, {})
    assert list(records.fresh) == [(2, 9)]
    made.check()
