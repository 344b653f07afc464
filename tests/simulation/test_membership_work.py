"""Groups with members while coordinators die, members freeze and requests are lost or come twice."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_runtime.sim.faults import FaultPlan
from tests.simulation.cluster import SimCluster
from tests.simulation.membership_work import OPTIONS, MembershipWork, Shared
from tests.simulation.planted_bugs import plant_named
from tests.simulation.topics import SimTopic

_PLAN = FaultPlan(
    slow_message=0.02,
    break_link=0.002,
    lose_reply=0.01,
    duplicate_request=0.05,
    replay_request=0.03,
    replay_max_ms=9_000,
)
_TOPICS = {"a": 4, "b": 2}


def worked(seed: int, plan: FaultPlan | None = None, work_s: float = 40.0) -> Shared:
    """What was seen of one run."""
    with SimCluster(f"members-{seed}", coordinator=OPTIONS) as cluster:
        work = MembershipWork(cluster, _TOPICS)
        random = cluster.world.random("disturbing")

        async def kill_coordinators() -> None:
            while True:
                await asyncio.sleep(random.uniform(2, 14))
                node = cluster.node(f"coordinator-{random.randrange(2)}")
                node.kill()
                await asyncio.sleep(random.uniform(0.1, 1.5))
                node.restart()

        async def whole() -> None:
            await cluster.healthy()
            async with cluster.client() as client:
                for name, count in _TOPICS.items():
                    await SimTopic(name, count, 3, {}, 1).create(client)
            if plan is not None:
                cluster.world.set_plan(plan)
            await work.run(5, work_s, kill_coordinators)

        cluster.world.run(whole())
    return work.shared


@pytest.mark.parametrize("seed", range(3))
def test_members_hand_over_and_nobody_starves_while_coordinators_die(seed: int) -> None:
    seen = worked(seed)
    assert seen.problems == []
    assert seen.joins > 5
    assert seen.moves > 20
    assert seen.commits > 100


@pytest.mark.parametrize("seed", range(3))
def test_lost_answers_and_late_copies_change_nothing(seed: int) -> None:
    seen = worked(seed, _PLAN)
    assert seen.problems == []
    assert seen.commits > 100


def test_a_partition_that_is_handed_over_too_early_is_seen() -> None:
    with plant_named("group-hands-over-early").planted():
        assert any("read-twice" in problem for problem in worked(0).problems)


def test_a_late_commit_that_is_not_fenced_is_seen() -> None:
    with plant_named("group-commit-unfenced").planted():
        assert any(word in problem for problem in worked(0).problems for word in ("late-commit", "offset-went-back"))


def test_members_that_starve_are_seen() -> None:
    with plant_named("group-epoch-not-raised").planted():
        assert any("starved" in problem for problem in worked(0).problems)
