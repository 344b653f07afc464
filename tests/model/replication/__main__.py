"""`python -m tests.model.replication`: every scenario with all rules, then every rule taken out, as a table.

`python -m tests.model.replication deep` does so with the scenarios that take minutes.
`python -m tests.model.replication RULE` prints the shortest trace to the violation that is found without that rule.
"""

from __future__ import annotations

import sys
import time

from tests.model.replication.explore import Found, search
from tests.model.replication.rules import ALL_RULES, Rules
from tests.model.replication.scenarios import ABLATIONS, DEEP, SCENARIOS, SPARE, Scenario

ROW = "{:44} | {:31} | {:>9} | {:>6} | {}"


def row(scenario: Scenario, rules: Rules, found: Found, took_s: float) -> str:
    """One line of the table."""
    kinds = [f"{kind} in {len(trace.steps)} steps" for kind, trace in found.violations.items()]
    states = f"{found.states:,}" if found.complete else f"> {found.states:,}"
    return ROW.format(scenario.name, ", ".join(rules.off()) or "-", states, f"{took_s:.1f}", ", ".join(kinds) or "none")


def table(scenarios: tuple[Scenario, ...]) -> bool:
    """Print the whole table; true when it is as it must be."""
    print(ROW.format("scenario", "rules off", "states", "s", "violations"))
    good = True
    for scenario in scenarios:
        began_s = time.process_time()
        found = search(scenario)
        good &= (found.complete or scenario in DEEP) and not found.violations
        print(row(scenario, ALL_RULES, found, time.process_time() - began_s), flush=True)
    for ablation in (*ABLATIONS, *SPARE):
        began_s = time.process_time()
        rules = ALL_RULES.without(*ablation.rules)
        found = search(ablation.scenario, rules, ablation.finds)
        good &= (ablation.finds in found.violations) if ablation.finds else not found.violations
        print(row(ablation.scenario, rules, found, time.process_time() - began_s), flush=True)
    return good


def traces(rule: str) -> bool:
    """Print the shortest traces without one rule; true when each violation that must be found is."""
    wanted = [ablation for ablation in ABLATIONS if rule in ablation.rules]
    if not wanted:
        rules = sorted({rule for ablation in ABLATIONS for rule in ablation.rules})
        print(f"no such rule: {rule}; there are {', '.join(rules)}", file=sys.stderr)
    for ablation in wanted:
        found = search(ablation.scenario, ALL_RULES.without(*ablation.rules), ablation.finds)
        for trace in found.violations.values():
            print(f"{trace}\n")
    return bool(wanted)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words and words != ["deep"]:
        sys.exit(0 if traces(words[0]) else 1)
    sys.exit(0 if table((*SCENARIOS, *DEEP) if words else SCENARIOS) else 1)
