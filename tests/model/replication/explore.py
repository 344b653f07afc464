"""One search of this model, as the tests and the command line want it."""

from __future__ import annotations

from typing import TypeAlias

from tests.model.explorer import Exploration, explore
from tests.model.replication.alike import key
from tests.model.replication.protocol import Replication
from tests.model.replication.rules import ALL_RULES, Rules
from tests.model.replication.scenarios import Scenario
from tests.model.replication.state import State

Found: TypeAlias = Exploration[State]


def search(scenario: Scenario, rules: Rules = ALL_RULES, until: str = "") -> Found:
    """Every state of a scenario, or those up to the first violation of the kind `until`."""
    return explore(Replication(scenario, rules), until=frozenset({until} - {""}), key=key)
