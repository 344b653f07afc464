"""Heartbeats that wait: news ends the wait, and so do a newer heartbeat, the end of the shard's life, and time."""

from __future__ import annotations

import asyncio

from oncelog_coordinator.core.groups.group_commands import GroupNews
from oncelog_coordinator.effects.heartbeat_waits import HeartbeatWaits
from oncelog_runtime.sim.world import SimWorld


def test_news_comes_to_those_whom_it_is_about_and_is_not_missed() -> None:
    with SimWorld(1) as world:

        async def scenario() -> None:
            waits = HeartbeatWaits()
            a, b, other = waits.begin(0, "g", "a"), waits.begin(0, "g", "b"), waits.begin(0, "h", "a")
            waits.tell(GroupNews("g", ("a", "gone")))
            waits.tell(GroupNews("nobody"))
            assert await asyncio.gather(*(one.wait(500) for one in (a, b, other))) == [True, False, False]
            waits.tell(GroupNews("g"))
            assert await b.wait(500)
            for one in (a, b, other):
                waits.end(one)
            assert len(waits) == 0

        world.run(scenario())


def test_a_newer_heartbeat_and_the_end_of_the_shard_end_a_wait_without_news() -> None:
    with SimWorld(1) as world:

        async def scenario() -> None:
            waits = HeartbeatWaits()
            old = waits.begin(0, "g", "a")
            new = waits.begin(0, "g", "a")
            assert not await old.wait(10**9)
            waits.end(old)
            assert len(waits) == 1
            waits.close(1)
            assert not await new.wait(10)
            waits.close(0)
            assert not await new.wait(10**9)

        world.run(scenario())
