"""The table of a member's states has a way to each state, and uses each incident."""

from __future__ import annotations

from oncelog.core.consume.member_states import MEMBER_TRANSITIONS, MemberIncident, MemberState


def test_every_state_is_reached_and_every_incident_used() -> None:
    assert set(MEMBER_TRANSITIONS) == set(MemberState)
    assert {state for moves in MEMBER_TRANSITIONS.values() for state in moves.values()} | {MemberState.OUTSIDE} == set(
        MemberState
    )
    assert {incident for moves in MEMBER_TRANSITIONS.values() for incident in moves} == set(MemberIncident)


def test_every_state_has_a_way_to_its_end() -> None:
    ends = {MemberState.OVER}
    for _ in MemberState:
        ends |= {state for state, moves in MEMBER_TRANSITIONS.items() if ends & set(moves.values())}
    assert ends == set(MemberState)
