"""Each combination of facts has one phase and one step; a coordinator that is alone never drains."""

from __future__ import annotations

from itertools import product

import pytest

from oncelog_coordinator.core.draining import DrainFacts, DrainPhase, Start, is_moot, phase, reason, start_step

BOTH = (False, True)
ALL = [DrainFacts(*values) for values in product(BOTH, (0, 3), (-1, 0, 2), BOTH, BOTH)]


@pytest.mark.parametrize("facts", ALL, ids=str)
def test_every_combination_of_facts_has_its_phase(facts: DrainFacts) -> None:
    waits = facts.owned > 0 or facts.unowned > 0
    expected = DrainPhase.DRAINING if waits else DrainPhase.DRAINED
    assert phase(facts) is (expected if facts.wanted else DrainPhase.NOT_DRAINING)
    assert reason(facts) == (
        f"{facts.owned} shards to hand over, {facts.unowned} without owner" if facts.wanted and waits else ""
    )


@pytest.mark.parametrize("facts", ALL, ids=str)
@pytest.mark.parametrize("holder", [None, "me:1", "other:1"])
def test_every_combination_of_facts_has_its_step(facts: DrainFacts, holder: str | None) -> None:
    if facts.wanted:
        expected = Start.DRAINS
    elif holder == "other:1":
        expected = Start.WAIT
    elif facts.has_others:
        expected = Start.TAKE_KEY
    else:
        expected = Start.SKIP
    assert start_step(facts, holder, "me:1") is expected


@pytest.mark.parametrize("facts", ALL, ids=str)
def test_a_process_with_shards_waits_for_others_that_can_take_them(facts: DrainFacts) -> None:
    assert is_moot(facts) is not (facts.has_lease and facts.owned > 0 and facts.has_others)
