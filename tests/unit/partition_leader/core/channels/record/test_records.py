"""One entry for a record that was delivered, and indices that agree with it."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.record_states import RecordState
from oncelog_partition_leader.core.channels.record.records import Records

S = RecordState


def delivered(*offsets: int, worker: str = "ann") -> Records:
    records = Records(order_by_key=False)
    for offset in offsets:
        records.add_fresh(offset, offset)
    for first, last in records.take_fresh(len(offsets), worker, due_ms=90, now_ms=10):
        records.deadlines.add(90, first, last)
    records.check()
    return records


def test_a_backlog_costs_a_range() -> None:
    records = Records(order_by_key=False)
    records.add_fresh(0, 99_999)
    assert len(records.fresh) == 1
    assert not records.entries
    assert records.take_fresh(3, "ann", 90, 10) == [(0, 2)]
    assert sorted(records.entries) == [0, 1, 2]


def test_a_released_record_has_no_entry_any_more() -> None:
    records = delivered(4)
    entry = records.entries[4]
    entry.deliveries -= 1
    records.move(entry, S.AVAILABLE)
    assert not records.entries
    assert list(records.fresh) == [(4, 4)]
    records.check()


def test_a_record_with_a_pause_waits() -> None:
    records = delivered(4)
    records.move(records.entries[4], S.AVAILABLE, due_ms=99)
    records.deadlines.add(99, 4, 4)
    records.check()
    assert (list(records.ready), records.waiting) == ([], {4})
    records.pause_over(records.entries[4])
    assert (list(records.ready), records.waiting) == ([4], set())
    records.check()


def test_who_holds_what_is_known() -> None:
    records = delivered(4, 5)
    assert records.held == {"ann": {4, 5}}
    records.move(records.entries[4], S.IN_FLIGHT, "bob", 99)
    records.move(records.entries[5], S.SETTLING)
    records.deadlines.add(99, 4, 4)
    assert records.held == {"bob": {4}}
    records.check()


def ordered(*keys: int) -> Records:
    records = Records(order_by_key=True)
    for offset, key in enumerate(keys):
        records.add(Entry(offset, key))
    records.check()
    return records


def test_only_heads_of_keys_are_offered_and_the_next_one_when_the_first_is_settled() -> None:
    records = ordered(5, 5, 6)
    assert list(records.fresh) == [(0, 0), (2, 2)]
    assert records.take_fresh(9, "ann", 90, 10) == [(0, 0), (2, 2)]
    records.move(records.entries[0], S.SETTLING)
    assert not records.fresh, "it may come again until it is durable"
    records.move(records.entries[0], S.SETTLED)
    assert list(records.fresh) == [(1, 1)]


def test_the_next_of_a_key_that_was_delivered_before_comes_again() -> None:
    records = ordered(5)
    records.add(Entry(1, 5, deliveries=2))
    waits = Entry(2, 5, deliveries=1)
    waits.due_ms = 70
    records.add(waits)
    records.check()
    for offset in (0, 1):
        records.move(records.entries[offset], S.SETTLED)
    assert not records.ready, "its pause is not over"
    records.pause_over(waits)
    assert list(records.ready) == [2]
    records.check()


def test_a_pause_that_is_over_does_not_overtake() -> None:
    records = ordered(5)
    waits = Entry(1, 5, deliveries=1)
    waits.due_ms = 70
    records.add(waits)
    records.pause_over(waits)
    assert not records.ready
    records.check()


def test_everything_is_forgotten() -> None:
    for records in (delivered(4, 5), ordered(5, 5)):
        records.clear()
        assert not records.entries
        assert not records.fresh
        records.check()


@pytest.mark.parametrize(
    "breaks",
    [
        lambda r: r.held["ann"].add(9),
        lambda r: r.ready.update({4: None}),
        lambda r: r.waiting.add(4),
        lambda r: r.fresh.add(4, 4),
        lambda r: setattr(r.entries[4], "due_ms", None),
        lambda r: r.deadlines.clear(),
        lambda r: r.states.update({S.SETTLING: 1}),
    ],
)
def test_an_index_that_lies_is_found(breaks: object) -> None:
    records = delivered(4)
    breaks(records)  # type: ignore[operator]
    with pytest.raises(AssertionError):
        records.check()
