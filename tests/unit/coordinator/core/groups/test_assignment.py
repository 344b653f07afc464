"""When an assignment is computed, and from which topics."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog_coordinator.core.groups.group_commands import Heartbeat
from oncelog_coordinator.core.groups.states import GroupState
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_commands import CommitOffsets, FetchOffsets, Member, SendOffsets
from oncelog_coordinator.core.transactions.commands import TxnName
from tests.unit.coordinator.group_driver import GROUP, Groups, Reader, part, settle, value


def test_new_topics_and_partitions_appear_by_themselves() -> None:
    groups = Groups(orders_eu=2)
    a = Reader(groups, "a", topics=(), pattern="orders_.*")
    a.join()
    groups.see(orders_eu=3, orders_us=1, other=5)
    settle(groups, a)
    assert a.reading == {*(part("orders_eu", n) for n in range(3)), part("orders_us", 0)}
    groups.see(orders_us=1)
    settle(groups, a)
    assert a.reading == {part("orders_us", 0)}


def test_a_topic_that_does_not_exist_yet_may_be_subscribed_to() -> None:
    groups = Groups(t=1)
    a = Reader(groups, "a", topics=("later",))
    a.join()
    assert (a.reading, a.epoch) == (set(), 1)
    groups.see(t=1, later=2)
    settle(groups, a)
    assert len(a.reading) == 2


def test_many_joins_at_once_cost_few_assignments() -> None:
    groups = Groups(t=40)
    readers = [Reader(groups, f"m{n}") for n in range(20)]
    for reader in readers:
        reader.join()
    record = groups.table.groups.groups[GROUP].record
    assert (record.epoch, record.assignment_epoch) == (20, 1)
    assert groups.table.groups.view(GROUP).state is GroupState.ASSIGNING
    settle(groups, *readers)
    assert all(len(reader.reading) == 2 for reader in readers)
    assert groups.table.groups.view(GROUP).state is GroupState.STABLE


def test_topics_that_change_nothing_change_no_epoch() -> None:
    groups = Groups(t=2)
    a = Reader(groups, "a")
    a.join()
    log = len(groups.log)
    groups.see(t=2, other=4)
    settle(groups, a)
    assert len(groups.log) == log


def test_a_new_owner_that_lags_behind_takes_no_topic_from_its_readers() -> None:
    groups = Groups(t=2)
    groups.see(t=2, u=2)
    a = Reader(groups, "a", topics=("t", "u"))
    a.join()
    groups.fail_over(sees_topics=False)
    groups.revision = 0
    groups.see(t=2)
    settle(groups, a)
    assert len(a.reading) == 4
    groups.revision = 5
    groups.see(t=2)
    settle(groups, a)
    assert len(a.reading) == 2, "now the topic is gone"


def test_topics_that_are_only_as_of_a_newer_revision_end_the_wait_and_nothing_else() -> None:
    groups = Groups(t=4)
    a, b = Reader(groups, "a"), Reader(groups, "b")
    a.join()
    settle(groups, a)
    groups.revision = 7
    groups.see(t=4)
    b.join()
    settle(groups, a, b)
    groups.fail_over(sees_topics=False)
    groups.revision = 2
    groups.see(t=4)  # what it has seen is right, and seems to be old
    b.leave()
    for _ in range(3):
        groups.wait(500)
        a.beat()
    assert len(a.reading) == 2, "it waits until it has seen what the owner before had"
    groups.revision = 8
    groups.see(t=4)
    groups.wait(500)
    a.beat()
    assert len(a.reading) == 4
    due_ms = groups.table.next_deadline_ms()
    groups.see(t=4)
    assert groups.table.next_deadline_ms() == due_ms, "the same topics again cost no look at any group"


def test_a_view_that_stays_behind_is_believed_in_the_end() -> None:
    groups = Groups(t=2)
    groups.see(t=2, u=2)
    a = Reader(groups, "a", topics=("t", "u"))
    a.join()
    groups.fail_over(sees_topics=False)
    groups.revision = 0
    groups.see(t=2)
    for _ in range(8):
        groups.wait(2_000)
        a.beat()
    assert len(a.reading) == 2


def test_nobody_joins_before_the_topics_are_known_and_who_is_there_goes_on() -> None:
    groups = Groups(t=2)
    a = Reader(groups, "a")
    a.join()
    groups.fail_over(sees_topics=False)
    with pytest.raises(errors.CoordinatorLoadInProgressError):
        Reader(groups, "b").join()
    a.beat()
    assert len(a.reading) == 2


def test_too_many_partitions_are_refused_when_a_member_joins() -> None:
    groups = Groups(Limits(group_max_partitions=5), t=3, u=3)
    a = Reader(groups, "a")
    a.join()
    with pytest.raises(errors.PolicyViolationError, match="too many partitions"):
        Reader(groups, "b", topics=("u",)).join()


def test_the_assignor_is_that_of_most_members() -> None:
    groups = Groups(t=4)
    a, b = Reader(groups, "a", assignor="range"), Reader(groups, "b", assignor="range")
    a.join()
    b.join()
    settle(groups, a, b)
    assert a.reading == {part("t", 0), part("t", 1)}
    assert groups.table.groups.view(GROUP).record.assignor == "range"


# ---------------------------------------------------------------- partitions that come while a group reads


def begun(groups: Groups) -> dict[tuple[str, int], int]:
    """The committed offsets of the group."""
    return {(found.topic, found.partition): found.offset for found in groups.do(FetchOffsets(GROUP))}


@pytest.mark.parametrize("fails_over", [False, True])
def test_partitions_that_are_added_begin_at_their_first_record(fails_over: bool) -> None:
    groups = Groups(t=2)
    Reader(groups, "a").join()
    if fails_over:
        groups.fail_over()
    groups.wait(1_000)
    groups.see(t=4)
    groups.wait(1_000)
    assert begun(groups) == {("t", 2): 0, ("t", 3): 0}
    groups.fail_over()
    assert begun(groups) == {("t", 2): 0, ("t", 3): 0}


def test_a_topic_that_comes_begins_at_its_first_record_also_right_after_another_change() -> None:
    groups = Groups(orders_eu=1, other=1)
    Reader(groups, "a", topics=("later",), pattern="orders_.*").join()
    groups.wait(1_000)
    groups.see(orders_eu=1, orders_us=1, other=1)
    groups.wait(10)
    groups.see(orders_eu=1, orders_us=1, other=1, later=2)
    groups.wait(1_000)
    assert begun(groups) == {("orders_us", 0): 0, ("later", 0): 0, ("later", 1): 0}


def test_what_was_there_before_the_group_wanted_it_begins_where_its_reader_says() -> None:
    groups = Groups(t=2, u=1)
    a = Reader(groups, "a")
    a.join()
    groups.wait(1_000)
    Reader(groups, "b", topics=("u",)).join()
    groups.wait(1_000)
    a.leave()
    groups.do(Heartbeat(GROUP, "b", -1))
    groups.see(t=3, u=2)
    groups.wait(1_000)
    Reader(groups, "c", topics=("t", "u")).join()
    groups.wait(1_000)
    assert begun(groups) == {}


def test_an_offset_that_the_group_has_stays() -> None:
    groups = Groups(t=1)
    groups.do(CommitOffsets(Member(GROUP), 0, (value(part("t", 1), 7),)))
    pending = SendOffsets(TxnName("x", 1, 1, 0), 0, Member(GROUP), 1, (value(part("t", 2), 8),))
    groups.do(pending)
    Reader(groups, "a").join()
    groups.wait(1_000)
    groups.see(t=4)
    groups.wait(1_000)
    assert begun(groups) == {("t", 1): 7, ("t", 3): 0}
