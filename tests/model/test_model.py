"""The transaction protocol keeps its promises in every state of every scenario, and each of its rules is needed.

The first test is the claim; the second shows that the claim is about something (each kind of event happens, and the
good ends are reached); the third takes out one rule after another, and must find what that rule is there to prevent.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache

import pytest

from tests.model.explorer import Broken, Exploration, explore
from tests.model.leader import replay
from tests.model.protocol import Protocol
from tests.model.rules import ALL_RULES, Rules
from tests.model.scenarios import ABLATIONS, EVERYTHING, REPLAY, SCENARIOS, SESSIONS, Ablation, Scenario
from tests.model.state import Batch, Budget, Marker, State

PARTS = [part for scenario in SCENARIOS for part in scenario.parts()]


@cache
def explored(scenario: Scenario) -> Exploration[State]:
    """A whole scenario under all rules, once for all tests that ask for it."""
    return explore(Protocol(scenario, ALL_RULES))


@pytest.mark.parametrize("scenario", PARTS, ids=lambda scenario: scenario.name)
def test_no_promise_is_broken(scenario: Scenario) -> None:
    found = explored(scenario)
    print(f"{scenario.name}: {found.states:,} states, {found.at_rest:,} at rest")
    assert not found.violations, "\n\n".join(map(str, found.violations.values()))
    assert found.complete
    assert found.at_rest


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda ablation: ablation.rule)
def test_each_rule_is_needed(ablation: Ablation) -> None:
    found = explore(Protocol(ablation.scenario, ALL_RULES.without(ablation.rule)), until=ablation.finds)
    print("\n\n".join(map(str, found.violations.values())))
    assert ablation.finds <= found.violations.keys()


def test_every_rule_is_taken_out_somewhere() -> None:
    assert {field.name for field in fields(Rules)} == {ablation.rule for ablation in ABLATIONS}


# --- the claim is about something -----------------------------------------------------------------------------------


class Goals(Protocol):
    """The same model, which reports good ends as if they were violations."""

    def broken(self, state: State) -> list[Broken]:
        logs = [partition.log for partition in state.partitions]
        views = [replay(log, True) for log in logs]
        goals = {
            "all committed": all(view.committed for view in views),
            "all aborted": all(view.aborted for view in views),
            "two transactions open at once": any(len(view.open) > 1 for view in views),
            "a later one ends first": any(_markers(log) == [2, 1] for log in logs),
            "written by two sessions": any(len(_sessions(log)) == 2 for log in logs),
            "ended by a later coordinator": any(view.coordinator_epoch == 2 for view in views),
            "a token stored": state.shard.record.token,
        }
        return [Broken(name, "a goal") for name, reached in goals.items() if reached]

    def broken_at_rest(self, state: State) -> list[Broken]:
        return []


def _markers(log: tuple[Batch | Marker, ...]) -> list[int]:
    return [entry.n for entry in log if isinstance(entry, Marker)]


def _sessions(log: tuple[Batch | Marker, ...]) -> set[int]:
    return {entry.session for entry in log if isinstance(entry, Batch)}


@pytest.mark.parametrize(
    ("scenario", "goals"),
    [
        (
            EVERYTHING,
            {
                "all committed",
                "all aborted",
                "two transactions open at once",
                "a later one ends first",
                "ended by a later coordinator",
            },
        ),
        (SESSIONS, {"written by two sessions"}),
        (REPLAY, {"a token stored"}),
    ],
    ids=lambda value: value.name if isinstance(value, Scenario) else "",
)
def test_good_ends_are_reached(scenario: Scenario, goals: set[str]) -> None:
    assert goals <= explore(Goals(scenario, ALL_RULES), until=frozenset(goals)).violations.keys()


# (A late copy of a marker is not among them: it never makes a difference, so it is not a step.  The first ablation is
# where it does.)
EVENTS = (
    "takes over",
    "gets a new leader",
    "times out",
    "answer is lost",
    "a late copy: coordinator",
    "a late copy: the coordinator's {0} reaches",
    "gives up on",
    "heals with",
    "of a deposed coordinator",
)


def test_every_kind_of_event_happens_in_the_big_scenario() -> None:
    happened = explored(EVERYTHING.parts()[0]).happened
    assert not [event for event in EVENTS if not any(event in text for text in happened)]


def test_the_adversary_has_every_fault_in_some_scenario() -> None:
    for kind in Budget._fields:
        assert any(getattr(scenario.budget, kind) for scenario in SCENARIOS), kind
