"""`python -m tests.model`: every scenario with all rules, then every rule taken out, as a table.

`python -m tests.model RULE` prints the shortest trace to each violation that is found without that rule.
"""

from __future__ import annotations

import sys

from tests.model.explorer import Exploration, explore
from tests.model.protocol import Protocol
from tests.model.rules import ALL_RULES, Rules
from tests.model.scenarios import ABLATIONS, SCENARIOS, Scenario
from tests.model.state import State

ROW = "{:27} | {:27} | {:>9} | {:>7} | {}"


def row(scenario: Scenario, rules: Rules, found: Exploration[State]) -> str:
    """One line of the table."""
    kinds = [f"{kind} in {len(trace.steps)} steps" for kind, trace in found.violations.items()]
    states = f"{found.states:,}" if found.complete else f"> {found.states:,}"
    return ROW.format(
        scenario.name, ", ".join(rules.off()) or "-", states, f"{found.at_rest:,}", ", ".join(kinds) or "none"
    )


def table() -> bool:
    """Print the whole table; true when it is as it must be."""
    print(ROW.format("configuration", "rules off", "states", "at rest", "violations"))
    good = True
    for scenario in SCENARIOS:
        found = explore(Protocol(scenario, ALL_RULES))
        good &= found.complete and not found.violations
        print(row(scenario, ALL_RULES, found), flush=True)
    for ablation in ABLATIONS:
        rules = ALL_RULES.without(ablation.rule)
        found = explore(Protocol(ablation.scenario, rules), until=ablation.finds)
        good &= ablation.finds <= found.violations.keys()
        print(row(ablation.scenario, rules, found), flush=True)
    return good


def traces(rule: str) -> bool:
    """Print the shortest traces without one rule; true when each violation that must be found is."""
    wanted = [ablation for ablation in ABLATIONS if ablation.rule == rule]
    if not wanted:
        print(f"no such rule: {rule}; there are {', '.join(ablation.rule for ablation in ABLATIONS)}", file=sys.stderr)
    for ablation in wanted:
        found = explore(Protocol(ablation.scenario, ALL_RULES.without(rule)), until=ablation.finds)
        for trace in found.violations.values():
            print(f"{trace}\n")
    return bool(wanted)


if __name__ == "__main__":
    sys.exit(0 if (traces(sys.argv[1]) if sys.argv[1:] else table()) else 1)
