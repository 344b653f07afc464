"""Replication keeps its promises in every state of every scenario, and each of its rules is needed.

The first test is the claim; the second takes out one rule after another, and must find what that rule is there to
prevent; the others show that the claim is about something.  What takes minutes is left to `python -m tests.model.replication`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache

import pytest

from tests.model.explorer import Broken, explore
from tests.model.replication.alike import key
from tests.model.replication.explore import Found, search
from tests.model.replication.invariants import LEADERLESS, acting_leader
from tests.model.replication.protocol import Replication
from tests.model.replication.rules import ALL_RULES, Rules
from tests.model.replication.scenarios import (
    ABLATIONS,
    DEEP,
    KILLS,
    KNOWN_HOLES,
    LAST_ONE,
    LEFT_ALONE,
    ONE_FAULT,
    SCENARIOS,
    SLOW,
    SPARE,
    Ablation,
    Scenario,
)
from tests.model.replication.state import Budget, State, count


@cache
def explored(scenario: Scenario) -> Found:
    """A whole scenario under all rules, once for all tests that ask for it."""
    return search(scenario)


def _names(value: object) -> str:
    if isinstance(value, Ablation):
        return "+".join(value.rules) + ", " + value.scenario.name
    return value.name if isinstance(value, Scenario) else ""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=_names)
def test_no_promise_is_broken(scenario: Scenario) -> None:
    found = explored(scenario)
    print(f"{scenario.name}: {found.states:,} states, {found.at_rest:,} at rest")
    assert not found.violations, "\n\n".join(map(str, found.violations.values()))
    assert found.complete
    assert found.at_rest


@pytest.mark.parametrize("ablation", [one for one in ABLATIONS if one.scenario not in SLOW], ids=_names)
def test_each_rule_is_needed(ablation: Ablation) -> None:
    found = search(ablation.scenario, ALL_RULES.without(*ablation.rules), ablation.finds)
    print("\n\n".join(map(str, found.violations.values())))
    assert ablation.finds in found.violations


def test_every_rule_is_taken_out_somewhere() -> None:
    assert {field.name for field in fields(Rules)} == {rule for one in (*ABLATIONS, *SPARE) for rule in one.rules}


@pytest.mark.parametrize(("scenario", "finds"), KNOWN_HOLES, ids=_names)
def test_a_known_hole_is_still_there(scenario: Scenario, finds: str) -> None:
    """Whoever closes it makes this fail, and moves the scenario to those in which no promise is broken."""
    assert finds in search(scenario, until=finds).violations


def test_who_has_sealed_its_log_does_not_wait() -> None:
    """The known hole is only there for a leader that lost power before it had sealed."""
    found = explored(LAST_ONE)
    assert found.complete
    assert found.violations.keys() == {LEADERLESS}


# --- the claim is about something -----------------------------------------------------------------------------------


class Goals(Replication):
    """The same model, which reports good ends as if they were violations."""

    def broken(self, state: State) -> Iterator[Broken]:
        leader = acting_leader(state)
        goals = {
            "a second record is acknowledged": len(state.acked) > 1,
            "another one leads": leader is not None and state.value.leader > 0,
            "the first leader is out of the ISR": not state.value.isr[0],
            "two lead at once": sum(broker.leads is not None for broker in state.brokers) > 1,
        }
        return iter([Broken(name, "a goal") for name, reached in goals.items() if reached])

    def broken_at_rest(self, state: State) -> list[Broken]:
        whole = all(broker.log == state.brokers[0].log and len(broker.log) > 1 for broker in state.brokers)
        return [Broken("at rest all have everything", "a goal")] if whole and count(state.value.isr) == 3 else []


@pytest.mark.parametrize(
    ("scenario", "goals"),
    [
        (
            ONE_FAULT,
            {
                "a second record is acknowledged",
                "another one leads",
                "two lead at once",
                "at rest all have everything",
            },
        ),
        (KILLS, {"another one leads", "the first leader is out of the ISR"}),
    ],
    ids=_names,
)
def test_good_ends_are_reached(scenario: Scenario, goals: set[str]) -> None:
    found = explore(Goals(scenario, ALL_RULES), until=frozenset(goals), key=key)
    assert goals <= found.violations.keys()


EVENTS = (
    "elects",
    "hears that epoch",
    "takes in who has caught up",
    "drops who is silent",
    "the controller drops the dead",
    "becomes the controller",
    "moves its high watermark",
    "goes on",
    "is connected again",
    "lease runs out",
    "but its lease ran out",
)


RESTORES = (
    "etcd goes back",
    "notices that etcd went back",
    "the greatest log",
    "but its disk is full",
    "is acknowledged",
)


def test_every_kind_of_event_happens() -> None:
    happened = " ".join(explored(ONE_FAULT).happened)
    assert not [event for event in EVENTS if event not in happened]
    happened = " ".join(explored(LEFT_ALONE).happened)
    assert not [event for event in RESTORES if event not in happened]


def test_the_adversary_has_every_fault_in_some_scenario() -> None:
    for kind in Budget._fields:
        assert any(getattr(scenario.budget, kind) for scenario in (*SCENARIOS, *DEEP)), kind


def test_states_that_differ_by_names_alone_are_alike() -> None:
    (state,) = Replication(ONE_FAULT, ALL_RULES).initial()
    frozen = [state.with_broker(index, state.brokers[index]._replace(process="frozen")) for index in (1, 2)]
    as_controllers = [one._replace(controller=index) for one, index in zip(frozen, (2, 1), strict=True)]
    assert key(as_controllers[0]) == key(as_controllers[1])
    assert key(frozen[0]) != key(frozen[1])
