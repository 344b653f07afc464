"""The fake log of the tests of shards keeps the promises of the port; `test_shard_log` shows that the real one does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from oncelog_coordinator.core.transactions.records import EPOCH_KEY
from oncelog_coordinator.shard.log_port import LogItem, LogLostError, LogPort
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_log import FakePartition


def run(scenario: Callable[[FakePartition], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(FakePartition())

    with SimWorld(1) as world:
        world.run(whole())


async def replayed(log: LogPort) -> list[LogItem]:
    return [item async for batches in log.replay() for batch in batches for item in batch.items]


def test_who_lost_its_log_for_good_says_so_and_how_new_the_other_epoch_is() -> None:
    unknown, fenced = LogLostError("no answer"), LogLostError("fenced", fenced=True, newest_epoch=7)
    assert (unknown.fenced, unknown.newest_epoch, str(unknown)) == (False, 0, "no answer")
    assert (fenced.fenced, fenced.newest_epoch) == (True, 7)


def test_batches_land_in_the_order_in_which_they_were_appended() -> None:
    async def scenario(partition: FakePartition) -> None:
        log: LogPort = partition.open(1)
        partition.hold = True
        appended = [log.append([(f"k{number}", b"")]) for number in range(5)]
        partition.release()
        await asyncio.gather(*appended)
        assert [key for key, _ in partition.items()] == [f"k{number}" for number in range(5)]

    run(scenario)


def test_a_replay_ends_with_the_lifes_own_epoch_record() -> None:
    async def scenario(partition: FakePartition) -> None:
        await partition.open(1).append([("old", b"1")])
        log = partition.open(2)
        await log.append([(EPOCH_KEY, b"2")])
        await log.append([("new", b"3")])
        assert await replayed(log) == [("old", b"1"), (EPOCH_KEY, b"2")]

    run(scenario)


def test_an_append_of_an_older_epoch_never_lands() -> None:
    async def scenario(partition: FakePartition) -> None:
        old = partition.open(1)
        await partition.open(7).append([(EPOCH_KEY, b"7")])
        with pytest.raises(LogLostError) as lost:
            await old.append([("late", b"")])
        assert (lost.value.fenced, lost.value.newest_epoch) == (True, 7)
        assert [key for key, _ in partition.items()] == [EPOCH_KEY]

    run(scenario)
