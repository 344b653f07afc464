"""What goes wrong in a simulation: a plan of probabilities, drawn from the seed alone."""

from __future__ import annotations

from random import Random

import pytest

from oncelog_runtime.sim import FaultPlan


def test_a_plan_is_drawn_from_its_seed_alone() -> None:

    plans = [FaultPlan.draw(Random(seed)) for seed in range(50)]
    assert plans[7] == FaultPlan.draw(Random(7))
    assert any(plan.crash_every_ms for plan in plans)
    assert any(not plan.crash_every_ms for plan in plans)
    assert all(plan.calm().crash_every_ms == 0 == plan.calm().lose_reply for plan in plans)
    with pytest.raises(ValueError, match="lose_reply"):
        FaultPlan(lose_reply=-0.1)


def test_a_calm_plan_has_no_faults_and_the_same_speeds() -> None:
    plan = FaultPlan.draw(Random(3))
    assert plan.calm() == FaultPlan(
        delay_max_ms=plan.delay_max_ms,
        sync_max_ms=plan.sync_max_ms,
        skew_max_ms=plan.skew_max_ms,
        drift_max=plan.drift_max,
    )


def test_single_faults_are_left_out_by_name() -> None:
    plan = FaultPlan(lose_reply=0.1, relist=0.2, slow_ms=9.0)
    assert plan.without("lose_reply", "slow_ms") == FaultPlan(relist=0.2)


def test_each_kind_of_fault_is_on_in_some_seeds_and_off_in_others() -> None:
    plans = [FaultPlan.draw(Random(seed)) for seed in range(200)]
    drawn = {name for plan in plans for name in plan.__slots__ if getattr(plan, name) != getattr(FaultPlan(), name)}
    faults = {name for name in drawn if name.endswith("_every_ms") or 0 < max(getattr(p, name) for p in plans) <= 0.5}
    assert "bit_flip_every_ms" not in drawn, "the test that wants rot must know which replicas may rot together"
    for name in faults - {"drift_max"}:
        assert 60 < sum(getattr(plan, name) == getattr(FaultPlan(), name) for plan in plans) < 140, name
    assert len(faults) > 20
