"""The hand-over keeps its promises in every state of every scenario, and each of its rules is needed.

Nobody owns a partition twice, also not in one epoch; what stays is never taken away; nobody who does nothing wrong is fenced;
and whenever nothing is left to do, every partition has a reader.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache

import pytest

from tests.model.explorer import Exploration, explore
from tests.model.handover.protocol import HandOver
from tests.model.handover.rules import ALL_RULES, Rules
from tests.model.handover.scenarios import ABLATIONS, SCENARIOS, Ablation, Scenario
from tests.model.handover.state import Member, State


@cache
def explored(scenario: Scenario) -> Exploration[State]:
    """A whole scenario under all rules, once for all tests that ask for it."""
    return explore(HandOver(scenario))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_promise_is_broken(scenario: Scenario) -> None:
    found = explored(scenario)
    print(f"{scenario.name}: {found.states:,} states, {found.at_rest:,} at rest")
    assert not found.violations, "\n\n".join(map(str, found.violations.values()))
    assert found.complete
    assert found.at_rest


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda ablation: ablation.rule)
def test_each_rule_is_needed(ablation: Ablation) -> None:
    model = HandOver(ablation.scenario, ALL_RULES.without(ablation.rule))
    found = explore(model, until=frozenset({ablation.finds}))
    assert ablation.finds in found.violations, sorted(found.violations)


def test_every_rule_is_taken_out_once() -> None:
    assert sorted(ablation.rule for ablation in ABLATIONS) == sorted(field.name for field in fields(Rules))


def test_everything_that_may_happen_happens() -> None:
    happened: set[str] = set()
    for scenario in SCENARIOS:
        happened |= explored(scenario).happened
    assert happened == {
        "another assignment",
        "{} gets its answer",
        "the answer to {} is lost",
        "{} sends a heartbeat",
        "a heartbeat of {} is delayed",
        "{} carries out what it was told",
        "a late copy of {} comes",
        "topics change",
        "{} comes",
        "{} leaves",
        "the session of {} ends",
    }


def test_partitions_that_have_to_be_let_go_are_owned() -> None:
    assert Member(assigned=(1, 0, 0), revoking=(0, 2, 0)).owned() == {0, 1}
