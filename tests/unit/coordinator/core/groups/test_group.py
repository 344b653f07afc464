"""A group in memory, and the draft of a decision about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_coordinator.core.groups.group import Draft, Group
from oncelog_coordinator.core.groups.group_records import GroupRecord, MemberRecord
from oncelog_coordinator.core.groups.states import GroupState, MemberState
from tests.unit.coordinator.group_driver import part, topic_id

P0, P1 = part("t", 0), part("t", 1)


def group() -> Group:
    """Two stable members with a partition each."""
    found = Group(GroupRecord("g", 2, 2, "sticky", 2, {topic_id("t"): 2}))
    for slot, (member_id, partition) in enumerate((("a", P0), ("b", P1)), 1):
        found.put(
            MemberRecord(
                "g", member_id, slot, epoch=2, number=1, assigned={partition: 2}, target=frozenset([partition])
            )
        )
    found.check()
    return found


def test_owners_follow_the_records() -> None:
    one = group()
    assert one.owners == {P0: "a", P1: "b"}
    one.put(replace(one.members["a"], state=MemberState.LEFT, assigned={}, target=frozenset(), left_ms=5))
    assert one.owners == {P1: "b"}
    one.drop(2)
    assert not one.owners
    one.drop(1)
    one.drop(0)
    assert one.is_gone


def test_the_state_follows_from_members_and_epochs() -> None:
    one = group()
    assert one.state() is GroupState.STABLE
    one.put(replace(one.members["a"], state=MemberState.UNRELEASED))
    assert one.state() is GroupState.RECONCILING
    one.record = replace(one.record, epoch=3)
    assert one.state() is GroupState.ASSIGNING
    assert Group(GroupRecord("g")).state() is GroupState.EMPTY


@pytest.mark.parametrize(
    "change",
    [
        {"assigned": {P0: 2, P1: 2}, "target": frozenset([P0, P1])},  # two owners
        {"epoch": 3},  # ahead of the assignment
        {"assigned": {P0: 3}},  # a partition ahead of its member
        {"assigned": {}},  # stable without its target
        {"state": MemberState.UNREVOKED},  # with nothing to let go
        {"slot": 9},
    ],
)
def test_a_broken_invariant_is_noticed(change: dict[str, object]) -> None:
    one = group()
    one.put(replace(one.members["a"], **change))  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        one.check()


def test_a_draft_changes_nothing_until_its_records_are_applied() -> None:
    one = group()
    draft = Draft(one)
    a = draft.find("a")
    assert a is not None
    draft.end(a, 7)
    draft.raise_epoch()
    draft.raise_epoch()
    assert (draft.find("a"), draft.owner(P0), draft.owner(P1)) == (None, "", "b")
    assert draft.freed() == {P0}
    assert (draft.record.epoch, one.record.epoch) == (3, 2)
    assert set(one.members) == {"a", "b"}
    assert [record.key for record in draft.records()] == [draft.record.key, a.key]


def test_what_passes_from_one_to_another_in_one_decision_is_not_free() -> None:
    one = group()
    draft = Draft(one)
    a = draft.find("a")
    assert a is not None
    draft.end(a, 7)
    draft.put(MemberRecord("g", "c", 3, epoch=2, assigned=a.assigned, target=a.target))
    assert draft.owner(P0) == "c"
    assert not draft.freed()


def test_an_illegal_step_is_a_bug() -> None:
    one = group()
    draft = Draft(one)
    away = replace(one.members["a"], state=MemberState.AWAY)
    draft.put(away)
    with pytest.raises(AssertionError):
        draft.put(replace(away, state=MemberState.STABLE))
