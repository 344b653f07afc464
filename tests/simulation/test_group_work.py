"""A group's position, committed in transactions and plainly: the last commit counts, and the work sees when it does not."""

from __future__ import annotations

import asyncio

from tests.simulation.cluster import SimCluster
from tests.simulation.group_work import GroupWork
from tests.simulation.planted_bugs import plant_named
from tests.simulation.topics import WORK, SimTopic
from tests.simulation.workload import Workload


def worked(seconds: float = 8.0) -> GroupWork:
    with SimCluster("group") as cluster:

        async def whole() -> GroupWork:
            await cluster.healthy()
            topic = SimTopic(WORK, 1, 3, {}, 1)
            async with cluster.client() as client:
                await topic.create(client)
            workload = Workload(cluster, [topic])
            group = GroupWork(workload)
            working = cluster.world.spawn(group.main("mixer"))
            await asyncio.sleep(seconds)
            workload.stopping = True
            await working
            return group

        return cluster.world.run(whole())


def test_the_last_commit_counts() -> None:
    group = worked()
    assert group.rounds > 10
    assert not group.problems


def test_a_transaction_that_beats_a_later_plain_commit_is_seen() -> None:
    with plant_named("offset-order").planted():
        assert worked().problems
