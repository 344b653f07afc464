"""Availability during faults: the oracle knows when a write must succeed, and a write that waits too long is told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from oncelog_runtime.sim.faults import FaultPlan
from tests.simulation.availability import BASE_MS, EXTRA_MS, PARTITIONS, PROBE, Availability, Measured, bound_of
from tests.simulation.cluster import SimCluster
from tests.simulation.hard_plan import HardPlan
from tests.simulation.losses import LossBudget
from tests.simulation.topics import SimTopic
from tests.simulation.workload import Workload


def watched(during: Callable[[SimCluster], Awaitable[None]], *, probes: bool = True) -> Availability:
    """What was measured while `during` ran."""
    with SimCluster("availability") as cluster:
        topic = SimTopic(PROBE, PARTITIONS, 3, {"min.insync.replicas": "2", "flush.mode": "fsync"}, 1)

        async def whole() -> Availability:
            await cluster.healthy()
            async with cluster.client() as client:
                await topic.create(client)
            workload = Workload(cluster, [topic])
            budget = LossBudget(cluster.world.metadata, lambda name: True)
            measuring = Availability(workload, budget, Counter(kill=1), BASE_MS)
            probing = [cluster.world.spawn(measuring.prober(p)) for p in range(PARTITIONS) if probes]
            if not probes:
                measuring._waiting[0] = workload.now_ms()
            watching = cluster.world.spawn(measuring.watch())
            await during(cluster)
            watching.cancel()
            workload.stopping = True
            for node in cluster.world.nodes.values():
                if node.life.dead:
                    node.restart()
            await asyncio.gather(*probing)
            return measuring

        return cluster.world.run(whole())


def test_a_healthy_cluster_takes_every_write() -> None:
    measuring = watched(lambda cluster: asyncio.sleep(5))
    assert not measuring.violations
    assert measuring.measured.must["kill"] == measuring.measured.works["kill"] > 5_000


def test_one_dead_broker_of_three_is_no_excuse() -> None:
    async def during(cluster: SimCluster) -> None:
        cluster.node("broker-0").kill()
        await asyncio.sleep(8)

    measured = watched(during).measured
    assert measured.must["kill"] > 15_000, "of both partitions"
    assert measured.settled_works["kill"] == measured.settled["kill"] > 5_000


def test_nothing_is_demanded_of_one_broker_of_three() -> None:
    async def during(cluster: SimCluster) -> None:
        cluster.node("broker-0").kill()
        cluster.node("broker-1").kill()
        await asyncio.sleep(8)

    measuring = watched(during)
    assert not measuring.violations
    assert measuring.measured.must["kill"] < 1_000


def test_a_write_that_waits_longer_than_the_bound_is_told_once() -> None:
    measuring = watched(lambda cluster: asyncio.sleep(BASE_MS / 1000 + 1), probes=False)
    (violation,) = measuring.violations
    assert violation.startswith(f"unavailable: {PROBE}-0 took no write for ")


def test_the_bound_of_a_run_grows_with_its_faults() -> None:
    assert bound_of(FaultPlan(), HardPlan(), has_operator=False) == BASE_MS
    plan = FaultPlan(stall_link=0.1)
    assert bound_of(plan, HardPlan(), has_operator=False) == BASE_MS + EXTRA_MS["stall_link"][0]
    hard = HardPlan(rot_every_ms=1.0)
    assert bound_of(plan, hard, has_operator=False) > bound_of(plan, HardPlan(), has_operator=False)


def test_runs_are_summed_and_the_longest_gap_is_kept() -> None:
    total, one = Measured(), Measured()
    one.must["kill"], one.works["kill"], one.longest["kill"] = 1_000, 500, 400
    total.add(one)
    one.longest["kill"] = 300
    total.add(one)
    assert (total.must["kill"], total.works["kill"], total.longest["kill"]) == (2_000, 1_000, 400)
    assert "50.0%" in total.table()[1]
