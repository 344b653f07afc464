"""The last judgement of a run: what disks kept through a power cut of all brokers is there afterwards, and losses are seen."""

from __future__ import annotations

import pytest

from tests.simulation.blackout import Blackout
from tests.simulation.cluster import SimCluster
from tests.simulation.invariants import Watcher
from tests.simulation.losses import LossBudget
from tests.simulation.planted_bugs import plant_named
from tests.simulation.topics import SimTopic


def after_blackout(seed: int) -> list[str]:
    with SimCluster(f"blackout-{seed}") as cluster:
        topic = SimTopic("t", 3, 3, {"min.insync.replicas": "2", "flush.mode": "replicated"}, 1)

        async def whole() -> list[str]:
            await cluster.healthy()
            async with cluster.client() as client:
                await topic.create(client)
            await cluster.healthy()
            budget = LossBudget(cluster.world.metadata, lambda name: True)
            watcher = Watcher(cluster, budget.written_off)
            blackout = Blackout(cluster, budget, watcher.reached_in, cluster.world.random("blackout"), topic.keys)
            kept = await blackout.strike()
            await cluster.healthy()
            blackout.judge(kept)
            assert sum(len(log) for logs in kept.values() for log in logs.values()) > 20, "the disks kept something"
            return blackout.problems

        return cluster.world.run(whole())


@pytest.mark.parametrize("seed", [1, 9])
def test_what_a_disk_kept_is_there_afterwards(seed: int) -> None:
    """9: the first is back while the registration of a leader that lost power still lives; it stays in the ISR."""
    assert not after_blackout(seed)


def test_a_loser_that_was_longer_is_seen() -> None:
    with plant_named("elect-longest-lost").planted():
        assert any("lost-in-blackout: t-" in text for text in after_blackout(1))
