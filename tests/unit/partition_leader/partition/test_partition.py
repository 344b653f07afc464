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
from tests.unit.partition_leader.log_helpers import DIRECTORY, NOW_MS, TOPIC_ID, batch, marker, write


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
            log = await PartitionLog.open(world.node("a").disk, DIRECTORY, LogConfig())
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


class _Ear:
    """Counts how often it was woken."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def test_a_follower_keeps_what_its_leader_told_until_its_log_is_cut() -> None:
    """And readers that wait there are woken by a new high watermark, and by a new epoch."""
    with SimWorld(1) as world:

        async def scenario() -> None:
            log = await PartitionLog.open(world.node("a").disk, DIRECTORY, LogConfig())
            data = batch(-1, -1, 3)
            log.append_as_leader([(read_header(data), data)], 1, NOW_MS)
            partition = LocalPartition(
                cast(Any, FakeHost(world)), PartitionId(TOPIC_ID, 3), "orders", log, TopicConfig()
            )
            ear = _Ear()
            partition.watch(cast(Any, ear))
            partition.check_session(2, 1, hello=True)
            assert ear.woken == 1, "the epoch is a new one"
            assert partition.told.epoch == -1, "a hello says nothing of the log"
            partition.watch(cast(Any, ear))
            partition.leader_says(2, 1)
            assert (partition.told.epoch, partition.told.high_watermark, partition.told.log_start_offset) == (2, 2, 1)
            assert (ear.woken, partition.high_watermark) == (2, 2)
            partition.watch(cast(Any, ear))
            partition.leader_says(2, 1)
            assert ear.woken == 2, "nothing is new"
            partition.check_session(2, 2, hello=True)
            await partition.truncate(2, 2, 0)
            assert (partition.told.epoch, log.log_end_offset) == (-1, 0)
            await partition.close(clean=True)

        world.run(scenario())


def test_a_follower_takes_a_log_start_over_at_once_as_far_as_its_log_is_committed() -> None:
    """It may lead next, and records that were deleted must not come back then."""
    with SimWorld(1) as world:

        async def scenario() -> None:
            log = await PartitionLog.open(world.node("a").disk, DIRECTORY, LogConfig())
            for _ in range(3):
                data = batch(-1, -1)
                log.append_as_leader([(read_header(data), data)], 1, NOW_MS)
            partition = LocalPartition(
                cast(Any, FakeHost(world)), PartitionId(TOPIC_ID, 3), "orders", log, TopicConfig()
            )
            partition.check_session(2, 1, hello=True)
            for watermark, told, expected in ((1, 0, 0), (1, 2, 1), (2, 2, 2), (3, 1, 2)):
                partition.leader_says(watermark, told)
                await asyncio.sleep(1)
                assert log.log_start_offset == expected
            await partition.close(clean=True)

        world.run(scenario())


def test_a_follower_without_readers_forgets_the_transactions_that_are_stable() -> None:
    """Each question of a reader does it; where nobody asks, the list would grow by an entry per transaction."""
    with SimWorld(1) as world:

        async def scenario() -> None:
            log = await PartitionLog.open(world.node("a").disk, DIRECTORY, LogConfig())
            for number in range(1, 11):
                write(log, batch(7, 0, txn=(7, number)), marker((7, number)))
            partition = LocalPartition(
                cast(Any, FakeHost(world)), PartitionId(TOPIC_ID, 3), "orders", log, TopicConfig()
            )
            partition.check_session(2, 1, hello=True)
            partition.leader_says(10, 0)
            await partition.trim(NOW_MS)
            decided = log.producers.transactions.decided
            assert [offset for offset, _ in decided] == [11, 13, 15, 17, 19], "those at or above the high watermark"
            partition.leader_says(20, 0)
            await partition.trim(NOW_MS)
            assert not decided
            await partition.close(clean=True)

        world.run(scenario())


def test_a_log_start_that_a_cut_has_overtaken_waits_for_the_log_to_grow_again() -> None:
    with SimWorld(1) as world:

        async def scenario() -> None:
            log = await PartitionLog.open(world.node("a").disk, DIRECTORY, LogConfig())
            write(log, *(batch(-1, -1) for _ in range(3)))
            host, bugs = FakeHost(world), list[BaseException]()
            host.tasks = TaskOwner(bugs.append)
            partition = LocalPartition(cast(Any, host), PartitionId(TOPIC_ID, 3), "orders", log, TopicConfig())
            partition.check_session(2, 1, hello=True)
            async with partition.sync.alone:
                partition.leader_says(3, 3)
                await asyncio.sleep(0)
                await log.truncate_to(1)
            await asyncio.sleep(1)
            assert (log.log_start_offset, partition.failed, bugs) == (0, None, [])
            await partition.close(clean=True)

        world.run(scenario())
