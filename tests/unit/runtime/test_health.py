"""The three answers of a process to Kubernetes."""

from __future__ import annotations

from oncelog_runtime.health import LIVENESS, READINESS, STARTUP, HealthState


def answers(state: HealthState) -> tuple[bool, bool, bool]:
    return state.serving(STARTUP), state.serving(LIVENESS), state.serving(READINESS)


def test_a_process_lives_starts_and_drains() -> None:
    state = HealthState()
    assert answers(state) == (False, True, False)
    state.started()
    assert answers(state) == (True, True, True)
    state.draining()
    assert answers(state) == (True, True, False), "a draining process must not be killed"


def test_a_draining_process_never_becomes_ready_again() -> None:
    state = HealthState()
    state.started()
    state.draining()
    state.set(READINESS, True)
    assert not state.serving(READINESS)


def test_listeners_hear_of_changes_only() -> None:
    state, heard = HealthState(), list[tuple[str, bool]]()
    state.subscribe(lambda name, serving: heard.append((name, serving)))
    state.set(READINESS, False)
    state.started()
    state.started()
    state.failed()
    assert heard == [(STARTUP, True), (READINESS, True), (LIVENESS, False)]
