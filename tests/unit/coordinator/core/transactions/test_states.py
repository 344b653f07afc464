"""The transition table: complete, and every record that the table writes takes legal steps only."""

from __future__ import annotations

import pytest

from oncelog_coordinator.core.transactions import states
from oncelog_coordinator.core.transactions.states import TRANSITIONS, TxnState


def test_every_state_can_be_reached_and_every_step_has_a_trigger() -> None:
    reached = {TxnState.EMPTY} | {new for _, new in TRANSITIONS}
    assert reached == set(TxnState)
    assert all(TRANSITIONS.values())


def test_what_is_decided_never_changes_its_mind() -> None:
    for old, new in TRANSITIONS:
        if "COMMIT" in old:
            assert "ABORT" not in new
            assert new is not TxnState.ONGOING
        if "ABORT" in old:
            assert "COMMIT" not in new
            assert new is not TxnState.ONGOING
        if old is not TxnState.DEAD:
            assert new is not TxnState.EMPTY


@pytest.mark.parametrize("outcome", list(states.Outcome))
def test_prepared_and_complete_go_together(outcome: states.Outcome) -> None:
    assert states.is_legal(states.prepared(outcome), states.complete(outcome))
    assert not states.is_legal(states.complete(outcome), states.prepared(outcome))
