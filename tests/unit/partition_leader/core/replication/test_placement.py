"""Each combination of facts has one step, and no step is taken while another one is under way."""

from __future__ import annotations

from itertools import product

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.replication.placement import (
    Placement,
    PlacementFacts,
    Role,
    RoleFacts,
    ends_leadership,
    placement,
    role,
)
from oncelog_runtime.metadata.cluster_keys import Partition

ALL = [PlacementFacts(*values) for values in product((False, True), repeat=5)]
P = Placement


def expected(facts: PlacementFacts) -> Placement:
    """The table, row by row: (known, mine, topic, open, busy) -> step; None = any."""
    rows: list[tuple[tuple[bool | None, ...], Placement]] = [
        ((True, True, True, True, None), P.SERVE),
        ((True, True, True, False, False), P.OPEN),
        ((True, True, True, False, True), P.NOTHING),
        ((True, True, False, None, None), P.NOTHING),
        ((True, False, True, None, None), P.LEAVE),
        ((True, False, False, True, False), P.CLOSE),
        ((True, False, False, True, True), P.NOTHING),
        ((True, False, False, False, None), P.NOTHING),
        ((False, None, True, None, None), P.NOTHING),
        ((False, None, False, True, False), P.CLOSE),
        ((False, None, False, True, True), P.NOTHING),
        ((False, None, False, False, None), P.NOTHING),
    ]
    fitting = [step for row, step in rows if all(want in (None, fact) for want, fact in zip(row, facts, strict=True))]
    (step,) = fitting
    return step


@pytest.mark.parametrize("facts", ALL, ids=str)
def test_every_combination_of_facts_has_its_step(facts: PlacementFacts) -> None:
    assert placement(facts) is expected(facts)


def test_a_log_is_never_opened_or_closed_during_another_step() -> None:
    busy = {placement(facts) for facts in ALL if facts.is_busy}
    assert busy == {P.NOTHING, P.SERVE, P.LEAVE}, "`LogKeeper.remove` waits for the step itself"


ME, OTHER, NOBODY = BrokerRef(1, 7), BrokerRef(2, 9), None


@pytest.mark.parametrize("leader", [ME, OTHER, BrokerRef(1, 6), NOBODY])
@pytest.mark.parametrize("has_failed", [True, False])
@pytest.mark.parametrize("leads_in", [None, 4, 5, 6])
@pytest.mark.parametrize("is_locked", [True, False])
def test_every_role(leader: BrokerRef | None, has_failed: bool, leads_in: int | None, is_locked: bool) -> None:
    state = Partition("t", (1, 2), leader, 5, (ME, OTHER))
    given = role(state, ME, RoleFacts(has_failed, leads_in, is_locked))
    if has_failed:
        assert given is Role.NONE
    elif leader != ME:
        assert given is Role.FOLLOW
    elif leads_in == 5:
        assert given is Role.LEAD_ON, "also while its log is rewritten: it is the leader already"
    else:
        assert given is (Role.WAIT_TO_LEAD if is_locked else Role.LEAD)


def test_a_process_without_an_incarnation_leads_nothing() -> None:
    me = BrokerRef(1, 0)
    assert role(Partition("t", (1,), me, 5, (me,)), me, RoleFacts(False, None, False)) is Role.FOLLOW


@pytest.mark.parametrize(("leads_in", "ends"), [(None, False), (4, True), (5, True), (6, False)])
def test_an_older_value_ends_no_newer_leadership(leads_in: int | None, ends: bool) -> None:
    assert ends_leadership(Partition("t", (1,), OTHER, 5, ()), leads_in) is ends
