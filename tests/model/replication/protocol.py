"""The model of one scenario under a set of rules, as the explorer wants it: every step that can happen next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.model.explorer import Broken, Step
from tests.model.replication import elections, faults, invariants, leader, seals
from tests.model.replication.rules import Rules
from tests.model.replication.scenarios import Scenario
from tests.model.replication.state import (
    BROKERS,
    NOBODY,
    Acked,
    Broker,
    Entry,
    Leadership,
    Note,
    Seal,
    Session,
    State,
    Value,
)

FIRST = Entry(1, 0)


class Replication:
    """Three replicas of one partition, led by A.  Who is in the ISR holds one acknowledged record; or is eligible."""

    def __init__(self, scenario: Scenario, rules: Rules) -> None:
        self.scenario = scenario
        self.rules = rules

    def initial(self) -> Iterable[State]:
        scenario = self.scenario
        if scenario.left_alone:
            yield left_alone(scenario)
            return
        minimum, isr = scenario.min_insync, scenario.isr
        out = tuple(1 - ref for ref in isr)
        eligible = out if isr.count(1) < minimum else NOBODY
        synced = int(scenario.fsync)
        has = Broker((FIRST,), synced, known_epoch=1)
        has_not = Broker((), 0, known_epoch=1)
        seal = Seal(incarnation=1, epoch=0, end=0) if scenario.old_seal else None
        brokers = [has if isr[index] or eligible[index] else has_not for index in BROKERS]
        sessions = tuple(Session(1, 1) if index and brokers[index] is has else None for index in BROKERS)
        leads = Leadership(1, 1, 0, isr, eligible, minimum, sessions, high_watermark=1)
        yield State(
            brokers=(has._replace(leads=leads), brokers[1]._replace(seal=seal), brokers[2]),
            value=Value(0, 1, 1, isr, eligible),
            registered=(1, 1, 1),
            controller=2,
            heard=(True, True, True),
            min_insync=minimum,
            controller_min=minimum,
            acked=frozenset({Acked(0, FIRST, minimum)}),
            appends_left=scenario.appends,
            budget=scenario.budget,
            backup=Value(0, 1, 1, isr, eligible),
        )

    def steps(self, state: State) -> Iterator[tuple[Step, State]]:
        if self.rules.old_epochs_are_fenced:
            only = list(leader.unheard(state))
            if only:
                yield from only
                return
        yield from leader.steps(state, self.rules, self.scenario.fsync)
        if self.scenario.seals:
            yield from seals.steps(state, self.rules)
        yield from elections.steps(state, self.rules)
        yield from faults.recoveries(state)
        yield from faults.faults(state, self.scenario.fsync)

    def broken(self, state: State) -> Iterable[Broken]:
        return invariants.broken(state)

    def broken_at_rest(self, state: State) -> Iterable[Broken]:
        return invariants.broken_at_rest(state)


def left_alone(scenario: Scenario) -> State:
    """What two changes of leaders leave behind: see `Scenario.left_alone`."""
    taken, further, left = Entry(1, 1), Entry(1, 2), Entry(2, 3)
    return State(
        brokers=(
            Broker((FIRST, taken), 0, known_epoch=1),
            Broker((FIRST, taken, further), 0, known_epoch=3),
            Broker((FIRST, left), 0, known_epoch=3, note=Note(2, 1)),
        ),
        value=Value(1, 1, 3, (1, 1, 0)),
        registered=(1, 1, 1),
        controller=0,
        heard=(True, True, True),
        min_insync=scenario.min_insync,
        controller_min=scenario.min_insync,
        acked=frozenset({Acked(0, FIRST, scenario.min_insync)}),
        appends_left=scenario.appends,
        budget=scenario.budget,
        backup=Value(0, 1, 1, (1, 1, 1)),
    )
