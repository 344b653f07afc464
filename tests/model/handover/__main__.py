"""`python -m tests.model.handover`: every scenario with all rules, then every rule taken out, as a table.

`python -m tests.model.handover RULE` prints the shortest trace to the violation that is found without that rule.
"""

from __future__ import annotations

import sys

from tests.model.explorer import Exploration, explore
from tests.model.handover.protocol import HandOver
from tests.model.handover.rules import ALL_RULES, Rules
from tests.model.handover.scenarios import ABLATIONS, SCENARIOS, Scenario
from tests.model.handover.state import State

ROW = "{:46} | {:26} | {:>9} | {:>7} | {}"


def row(scenario: Scenario, rules: Rules, found: Exploration[State]) -> str:
    """One line of the table."""
    kinds = [f"{kind} in {len(trace.steps)} steps" for kind, trace in found.violations.items()]
    states = f"{found.states:,}" if found.complete else f"> {found.states:,}"
    return ROW.format(
        scenario.name, ", ".join(rules.off()) or "-", states, f"{found.at_rest:,}", ", ".join(kinds) or "none"
    )


def table() -> bool:
    """Prints the whole table; true when it is as it must be."""
    print(ROW.format("scenario", "rules off", "states", "at rest", "violations"))
    good = True
    for scenario in SCENARIOS:
        found = explore(HandOver(scenario))
        good &= found.complete and not found.violations
        print(row(scenario, ALL_RULES, found), flush=True)
    for ablation in ABLATIONS:
        rules = ALL_RULES.without(ablation.rule)
        found = explore(HandOver(ablation.scenario, rules), until=frozenset({ablation.finds}))
        good &= ablation.finds in found.violations
        print(row(ablation.scenario, rules, found), flush=True)
    return good


def traces(rule: str) -> bool:
    """Prints the shortest trace to what must be found without one rule; true when there is one."""
    wanted = [ablation for ablation in ABLATIONS if ablation.rule == rule]
    if not wanted:
        print(f"no such rule: {rule}; there are {', '.join(ablation.rule for ablation in ABLATIONS)}", file=sys.stderr)
    for ablation in wanted:
        model = HandOver(ablation.scenario, ALL_RULES.without(rule))
        for trace in explore(model, until=frozenset({ablation.finds})).violations.values():
            print(f"{trace}\n")
    return bool(wanted)


if __name__ == "__main__":
    sys.exit(0 if (traces(sys.argv[1]) if sys.argv[1:] else table()) else 1)
