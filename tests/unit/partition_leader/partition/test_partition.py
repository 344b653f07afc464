"""The follower's side of one replica."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from oncelog.core.batch.header import read_header
from oncelog.types import PartitionId
from oncelog_partition_leader.log.data_dir.disk_watch import DiskWatch
from oncelog_partition_leader.log.partition_log import LogConfig, PartitionLog
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.sim import SimWorld
from oncelog_runtime.sim.clock import SimClock
from tests.unit.partition_leader.log_helpers import DIRECTORY, NOW_MS, TOPIC_ID, batch


class FakeHost:
    """A broker that is told nothing here."""

    def __init__(self, world: SimWorld) -> None:
        self.tasks = TaskOwner(lambda error: None)
        self.disk_watch = DiskWatch(SimClock(world.loop, 0, 0), 1_000, lambda _stalled: None)

    def log_failed(self, partition: LocalPartition, error: Exception) -> None:
        raise AssertionError(error)


def test_a_cut_inside_of_a_batch_claims_nothing_synced_above_the_new_end() -> None:
    """The log is cut at the batch's beginning; what is written there again is not on disk before it was synced."""
    with SimWorld(1) as world:

        async def scenario() -> None:
            log = await PartitionLog.open(world.node("a").disk, DIRECTORY, LogConfig(), NOW_MS)
            for count in (2, 5):
                data = batch(-1, -1, count)
                log.append_as_leader([(read_header(data), data)], 1, NOW_MS)
            partition = LocalPartition(
                cast(Any, FakeHost(world)), PartitionId(TOPIC_ID, 3), "orders", log, TopicConfig()
            )
            await partition.sync.wait(7)
            partition.check_session(2, 1, hello=True)
            await partition.truncate(2, 1, 4)
            assert log.log_end_offset == 2
            assert partition.sync.synced_end == 2
            await asyncio.sleep(0)
            await partition.close(clean=True)

        world.run(scenario())
