"""Simulated threads take virtual time, and the same for the same seed."""

from __future__ import annotations

import asyncio
from random import Random

from oncelog_runtime.sim import SimWorld
from oncelog_runtime.sim.threads import SimThreads


def ended_s(seed: int) -> list[float]:
    """When each of some pieces of work ends."""
    world, found = SimWorld("threads"), []

    async def test() -> None:
        threads = SimThreads(Random(seed))
        for _ in range(20):
            await threads.run(lambda: found.append(asyncio.get_running_loop().time()))

    world.run(test())
    world.close()
    return found


def test_work_takes_virtual_time_that_the_seed_decides() -> None:
    assert ended_s(1) == ended_s(1) != ended_s(2)
    times = [0.0, *ended_s(1)]
    assert all(0 < later - earlier < 0.06 for earlier, later in zip(times, times[1:], strict=False))
