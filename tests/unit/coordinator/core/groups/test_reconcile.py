"""One step of a member towards its target: let go first, take what is free, keep the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.types import PartitionId
from oncelog_coordinator.core.groups.group_records import MemberRecord
from oncelog_coordinator.core.groups.reconcile import Shown, reconciled
from oncelog_coordinator.core.groups.states import MemberState
from tests.unit.coordinator.group_driver import part

P = [part("t", number) for number in range(6)]


def member(assigned: list[int], target: list[int], **more: object) -> MemberRecord:
    found = MemberRecord(
        "g",
        "m",
        1,
        epoch=3,
        number=5,
        assigned=dict.fromkeys((P[n] for n in assigned), 2),
        target=frozenset(P[n] for n in target),
    )
    return replace(found, **more)  # type: ignore[arg-type]


def free(_: PartitionId) -> bool:
    return True


def taken(_: PartitionId) -> bool:
    return False


def test_a_member_that_has_its_target_comes_into_the_epoch() -> None:
    found = reconciled(member([0, 1], [0, 1]), 4, Shown(3, 5), free)
    assert (found.state, found.epoch, found.previous_epoch, found.number) == (MemberState.STABLE, 4, 3, 5)
    assert found.assigned == {P[0]: 2, P[1]: 2}, "the epochs in which it got them stay"


def test_what_is_not_in_the_target_is_let_go_first_and_nothing_is_taken() -> None:
    found = reconciled(member([0, 1], [1, 2]), 4, Shown(3, 5), free)
    assert (found.state, found.epoch, found.number) == (MemberState.UNREVOKED, 3, 6)
    assert (found.assigned, found.revoking) == ({P[1]: 2}, {P[0]: 2})
    assert reconciled(found, 4, Shown(3, 5), free) == found, "it has not said so"
    done = reconciled(found, 4, Shown(3, 6), free)
    assert (done.state, done.epoch, done.number) == (MemberState.STABLE, 4, 7)
    assert done.assigned == {P[1]: 2, P[2]: 4}


def test_what_another_owns_is_waited_for() -> None:
    found = reconciled(member([0], [0, 1]), 4, Shown(3, 5), taken)
    assert (found.state, found.epoch, found.number) == (MemberState.UNRELEASED, 4, 5)
    done = reconciled(found, 4, Shown(4, 5), free)
    assert (done.state, done.assigned, done.previous_epoch) == (MemberState.STABLE, {P[0]: 2, P[1]: 4}, 3)


def test_a_new_member_has_a_first_assignment_even_if_it_is_empty() -> None:
    found = reconciled(MemberRecord("g", "m", 1), 4, Shown(), free)
    assert (found.epoch, found.number, found.state) == (4, 1, MemberState.STABLE)


@pytest.mark.parametrize("shown", [Shown(2, 5), Shown(0, 0), Shown(4, 5)])
def test_a_heartbeat_in_another_epoch_than_the_members_moves_nothing(shown: Shown) -> None:
    one = member([0, 1], [1, 2], previous_epoch=2)
    assert reconciled(one, 4, shown, free) == one
    kept = member([0, 1], [0, 1], previous_epoch=2)
    assert reconciled(kept, 4, shown, free) == kept


def test_a_member_that_is_away_lets_go_at_once() -> None:
    found = reconciled(member([0, 1], [1, 2], state=MemberState.AWAY), 4, Shown(), free)
    assert (found.assigned, found.state) == ({P[1]: 2}, MemberState.AWAY)


@settings(max_examples=200, deadline=None)
@given(st.sets(st.integers(0, 5)), st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=4), st.data())
def test_a_partition_that_stays_in_the_target_stays_assigned(
    assigned: set[int], targets: list[set[int]], data: st.DataObject
) -> None:
    one = member(sorted(assigned), sorted(assigned))
    for epoch, target in enumerate(targets, 4):
        one = replace(one, target=frozenset(P[n] for n in target))
        always = one.assigned.keys() & one.target
        for _ in range(3):
            before = set(one.owned())
            applied = data.draw(st.sampled_from([one.number, one.number - 1]))
            one = reconciled(one, epoch, Shown(one.epoch, applied), free)
            assert one.assigned.keys() >= always
            assert set(one.assigned) - before <= one.target, "only the target is taken"
