"""The states of a delivery: what is legal in which state, and that doubt never ends by itself."""

from __future__ import annotations

import pytest

from oncelog.core.produce.attempt import ATTEMPT_TRANSITIONS, Attempt, AttemptState, Incident
from oncelog.errors import NetworkError

S = AttemptState
E = Incident

IN_FLIGHT = {S.SENT, S.RESENT}
IN_DOUBT = {S.DOUBT, S.RESENT, S.REFUSED, S.UNKNOWN}
ASKABLE = IN_DOUBT - IN_FLIGHT
LEGAL = {
    E.SEND: {S.QUEUED, S.RETRY, S.DOUBT},
    E.WRITTEN: IN_FLIGHT,
    E.NOT_NOW: IN_FLIGHT,
    E.LOST: IN_FLIGHT,
    E.REFUSED: IN_FLIGHT,
    E.CONTESTED: IN_FLIGHT & IN_DOUBT,
    E.SETTLED: ASKABLE,
    E.UNANSWERED: ASKABLE,
    E.UNANSWERABLE: ASKABLE,
    E.EXPIRED: {S.QUEUED, S.RETRY, S.DOUBT},
    E.STRANDED: set(S) - {S.QUEUED, S.UNKNOWN, S.DONE},
    E.DROPPED: set(S) - {S.DONE},
    E.MOVED: {S.QUEUED, S.RETRY},
}
"""Incident -> the states in which it may happen."""
ENDS = {E.WRITTEN, E.REFUSED, E.SETTLED, E.UNANSWERABLE, E.EXPIRED, E.STRANDED, E.DROPPED}
"""What gives an outcome."""


def in_state(state: AttemptState) -> Attempt:
    attempt = Attempt()
    attempt.state = state
    return attempt


@pytest.mark.parametrize("incident", E)
@pytest.mark.parametrize("state", S)
def test_an_incident_is_legal_in_its_states_and_leaves_no_trace_in_all_others(
    state: AttemptState, incident: Incident
) -> None:
    attempt = in_state(state)
    if state in LEGAL[incident]:
        attempt.move(incident)
        assert (attempt.state is S.DONE) == (incident in ENDS)
        return
    with pytest.raises(AssertionError, match=incident.name):
        attempt.move(incident)
    assert attempt.state is state


@pytest.mark.parametrize("state", [state for state in S if state in IN_DOUBT])
def test_doubt_ends_with_the_delivery_only(state: AttemptState) -> None:
    assert set(ATTEMPT_TRANSITIONS[state].values()) <= IN_DOUBT | {S.DONE}


@pytest.mark.parametrize("state", S)
def test_what_a_state_means_for_the_next_step(state: AttemptState) -> None:
    attempt = in_state(state)
    assert attempt.is_in_flight == (state in IN_FLIGHT)
    assert attempt.is_in_doubt == (state in IN_DOUBT)
    assert attempt.waits_for_a_try == (state in (S.RETRY, S.DOUBT))
    assert attempt.needs_an_answer == (state in (S.REFUSED, S.UNKNOWN))


def test_every_state_is_reached_and_every_state_can_end() -> None:
    reached, todo = {S.QUEUED}, [S.QUEUED]
    while todo:
        new = set(ATTEMPT_TRANSITIONS[todo.pop()].values()) - reached
        reached |= new
        todo += new
    assert reached == set(S)
    assert all(S.DONE in ATTEMPT_TRANSITIONS[state].values() for state in S if state is not S.DONE)


def test_a_try_that_was_not_written_keeps_the_doubt_about_the_one_before_it() -> None:
    attempt = Attempt()
    attempt.send()
    attempt.wait(E.LOST, NetworkError(), 5)
    attempt.send()
    attempt.wait(E.NOT_NOW, None, 9)
    assert (attempt.is_in_doubt, attempt.tries, attempt.retry_at_ms) == (True, 2, 9)


def test_a_batch_that_moves_keeps_the_count_of_its_tries() -> None:
    attempt = Attempt()
    attempt.send()
    attempt.wait(E.NOT_NOW, None, 5)
    attempt.move(E.MOVED)
    assert (attempt.state, attempt.tries) == (S.QUEUED, 1)
