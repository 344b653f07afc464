"""The table of a message's states has a way to each state and to an end, and uses each incident."""

from __future__ import annotations

import pytest

from oncelog.core.work.message_states import MESSAGE_TRANSITIONS, MessageIncident, MessageState, next_state

ENDS = {MessageState.SETTLED, MessageState.LOST}


def test_every_state_is_reached_and_every_incident_used() -> None:
    reached = {state for moves in MESSAGE_TRANSITIONS.values() for state in moves.values()}
    assert set(MESSAGE_TRANSITIONS) == reached | {MessageState.WAITING} == set(MessageState)
    assert {incident for moves in MESSAGE_TRANSITIONS.values() for incident in moves} == set(MessageIncident)


@pytest.mark.parametrize("state", sorted(ENDS, key=str))
@pytest.mark.parametrize("incident", MessageIncident)
def test_what_is_over_stays_over(state: MessageState, incident: MessageIncident) -> None:
    assert next_state(state, incident) is None


def test_a_refused_word_may_be_said_again() -> None:
    state = next_state(MessageState.HELD, MessageIncident.VERDICT)
    assert state is MessageState.SETTLING
    assert next_state(state, MessageIncident.VERDICT) is None, "one word at a time"
    assert next_state(state, MessageIncident.REFUSED) is MessageState.HELD
