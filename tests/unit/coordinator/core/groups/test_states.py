"""The table of a member's states: every legal step, and what is none."""

from __future__ import annotations

from itertools import product

from oncelog_coordinator.core.groups.states import TRANSITIONS, MemberState, is_legal


def test_a_step_is_legal_when_it_is_in_the_table_or_none() -> None:
    for old, new in product(MemberState, MemberState):
        assert is_legal(old, new) == (old is new or (old, new) in TRANSITIONS)


def test_a_membership_that_has_ended_never_goes_on() -> None:
    assert not [step for step in TRANSITIONS if step[0] is MemberState.LEFT]
    assert all((state, MemberState.LEFT) in TRANSITIONS for state in MemberState if state is not MemberState.LEFT)


def test_a_member_that_is_away_comes_back_only_as_another() -> None:
    assert [new for old, new in TRANSITIONS if old is MemberState.AWAY] == [MemberState.LEFT]
