"""The three answers of a process to Kubernetes."""

from __future__ import annotations

from oncelog_runtime.observability.health import (
    IN_SYNC,
    LIVENESS,
    NOT_DRAINING,
    READINESS,
    RECOVERED,
    STARTED,
    STARTUP,
    HealthState,
)


def answers(state: HealthState) -> tuple[bool, bool, bool]:
    return state.serving(STARTUP), state.serving(LIVENESS), state.serving(READINESS)


def test_a_process_lives_starts_and_drains() -> None:
    state = HealthState()
    assert answers(state) == (False, True, False)
    state.started()
    assert answers(state) == (True, True, True)
    state.draining()
    assert answers(state) == (True, True, False), "a draining process must not be killed"


def test_a_stopping_process_never_becomes_ready_again() -> None:
    state = HealthState()
    state.started()
    state.draining()
    for condition in (IN_SYNC, NOT_DRAINING, STARTED):
        state.set(READINESS, True, condition)
    assert not state.serving(READINESS)


def test_an_answer_is_yes_when_each_of_its_conditions_holds() -> None:
    state = HealthState()
    state.started()
    state.set(READINESS, False, IN_SYNC)
    state.set(READINESS, False, NOT_DRAINING)
    state.set(READINESS, True, NOT_DRAINING)
    assert not state.serving(READINESS), "a cancelled drain does not make it in sync"
    assert state.failing(READINESS) == [IN_SYNC]
    state.set(READINESS, True, IN_SYNC)
    assert state.serving(READINESS)


def test_start_up_waits_for_recovery() -> None:
    state = HealthState()
    state.set(STARTUP, False, RECOVERED)
    state.started()
    assert answers(state) == (False, True, True)
    state.set(STARTUP, True, RECOVERED)
    assert answers(state) == (True, True, True)


def test_no_condition_of_readiness_touches_liveness() -> None:
    state = HealthState()
    state.started()
    for condition in (IN_SYNC, NOT_DRAINING, STARTED):
        state.set(READINESS, False, condition)
    assert state.serving(LIVENESS)
    state.failed()
    assert not state.serving(LIVENESS)


def test_listeners_hear_of_changes_only() -> None:
    state, heard = HealthState(), list[tuple[str, bool]]()
    state.subscribe(lambda name, serving: heard.append((name, serving)))
    state.set(READINESS, False, IN_SYNC)
    state.started()
    state.started()
    state.set(READINESS, True, IN_SYNC)
    state.failed()
    assert heard == [(STARTUP, True), (READINESS, True), (LIVENESS, False)]
