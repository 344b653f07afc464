"""Delayed records of the random runs: nothing is wrong with a healthy cluster, and the work sees when a rule is missing."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.cluster import SimCluster
from tests.simulation.delay_work import DelayWork
from tests.simulation.history import Status
from tests.simulation.planted_bugs import plant_named


def worked(seconds: float = 8.0, *, kills: bool = False) -> tuple[DelayWork, list[str]]:
    """The work, and what was wrong in the end. `kills`: each broker dies once meanwhile."""
    with SimCluster("delay-work") as cluster:

        async def whole() -> tuple[DelayWork, list[str]]:
            await cluster.healthy()
            delays = DelayWork(cluster, is_there=True, fsync=False, clock_error_ms=20)
            await delays.create()
            working = [cluster.world.spawn(work) for work in delays.processes()]
            for number in range(3):
                await asyncio.sleep(seconds / 3)
                if kills:
                    cluster.node(f"broker-{number}").kill()
                    await asyncio.sleep(0.5)
                    cluster.node(f"broker-{number}").restart()
            await cluster.healthy()
            delays.stop()
            await asyncio.gather(*working)
            async with asyncio.timeout(60):
                return delays, await delays.finish()

        return cluster.world.run(whole())


@pytest.mark.parametrize("kills", [False, True])
def test_what_is_delayed_comes_once_at_its_time(kills: bool) -> None:
    delays, problems = worked(kills=kills)
    assert problems == []
    did = {operation.kind for operation in delays.load.history.operations if operation.status is Status.OK}
    assert did == {"later", "batch", "cancel", "poll"}


@pytest.mark.parametrize(
    ("plant", "shows"),
    [
        ("delay-early", "early"),
        ("delay-cancel-ignored", "delayed: G1a-aborted-read"),
        ("delay-moved-without-its-transaction", "delayed: "),
    ],
)
def test_a_missing_rule_is_seen(plant: str, shows: str) -> None:
    with plant_named(plant).planted():
        _, problems = worked(kills=True)
    assert any(problem.startswith(shows) for problem in problems), problems[:3]


def test_a_run_without_delays_does_nothing() -> None:
    with SimCluster("no-delays") as cluster:
        delays = DelayWork(cluster, is_there=False, fsync=False, clock_error_ms=20)
        assert delays.processes() == []
        assert cluster.world.run(delays.finish()) == []
