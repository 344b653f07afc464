"""The last judgement of a run: what disks kept through a power cut of all brokers is there afterwards, and losses are seen."""

from __future__ import annotations

import pytest

from oncelog.core.batch.batch import encode_batch
from oncelog.core.batch.header import PREFIX_BYTES, stamp_prefix
from tests.simulation.blackout import Blackout, _batches
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


def test_what_lies_behind_a_hole_was_not_kept() -> None:
    """Seed 81: the disk had lost the whole first segment, and kept two batches of the second one."""
    first, second = (
        encode_batch([None], [value], timestamps_ms=[1], topic_id="t", partition=0) for value in (b"a", b"b")
    )
    second = stamp_prefix(1, len(second), 0, 0) + second[PREFIX_BYTES:]
    assert list(_batches([first, second])) == [0, 1]
    assert _batches([b"", second]) == {}
    assert list(_batches([first, b"", second])) == [0, 1], "a file that was begun last may be empty"
