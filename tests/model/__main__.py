"""`python -m tests.model`: explores every scenario with all rules, then each rule's scenario without it, as a table.

With the name of a rule as argument: prints the shortest traces without that rule.
"""

from __future__ import annotations

import sys
import time

from tests.model.explorer import Exploration, explore
from tests.model.protocol import Protocol
from tests.model.rules import ALL_RULES, Rules
from tests.model.scenarios import SCENARIOS, Scenario
from tests.model.state import State


def run(scenario: Scenario, rules: Rules) -> Exploration[State]:
    began = time.monotonic()
    found = explore(Protocol(scenario, rules), 400_000)
    kinds = ", ".join(f"{kind} ({len(trace.steps)} steps)" for kind, trace in sorted(found.violations.items()))
    full = "" if found.complete else " (cut)"
    off = ", ".join(rules.off()) or "none"
    print(
        f"{scenario.name:30} | {off:28} | {found.states:8,}{full} | {time.monotonic() - began:5.1f} s | {kinds or '-'}",
        flush=True,
    )
    return found


def main(wanted: list[str]) -> None:
    for scenario in SCENARIOS:
        if not wanted or wanted[0] in scenario.name:
            run(scenario, ALL_RULES)


if __name__ == "__main__":
    main(sys.argv[1:])
