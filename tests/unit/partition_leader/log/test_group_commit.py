"""Group commit of one log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from oncelog.errors import LeaderNotAvailableError, OncelogError, StorageError
from oncelog_partition_leader.log.data_dir.disk_watch import STALLED, DiskWatch
from oncelog_partition_leader.log.group_commit import GroupSync
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.sim import SimWorld
from oncelog_runtime.sim.clock import SimClock


class FakeLog:
    """Syncs take a while; `end` grows meanwhile."""

    def __init__(self, clock: SimClock) -> None:
        self.end = 0
        self.syncs = 0
        self.error: OncelogError | None = None
        self.takes_s = 0.01
        self.watch = DiskWatch(clock, 1_000, lambda _stalled: None)

    async def sync(self) -> int:
        end = self.end
        self.syncs += 1
        await asyncio.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        return end


Scenario = Callable[[FakeLog, GroupSync, list[str]], Awaitable[None]]


def run(scenario: Scenario) -> None:
    with SimWorld("group-sync") as world:

        async def main() -> None:
            log, told = FakeLog(SimClock(world.loop, 0, 0)), list[str]()
            tasks = TaskOwner(lambda error: told.append(repr(error)))
            group = GroupSync(
                log.sync,
                tasks,
                lambda end: told.append(f"synced {end}"),
                lambda _error: told.append("failed"),
                log.watch,
                lambda: True,
            )
            await scenario(log, group, told)
            await tasks.stop()

        world.run(main())


def test_one_sync_is_in_flight_and_the_next_covers_all_that_waited() -> None:
    async def scenario(log: FakeLog, group: GroupSync, told: list[str]) -> None:
        log.end = 1
        first = asyncio.ensure_future(group.wait(1))
        await asyncio.sleep(0.005)
        log.end = 9
        others = [asyncio.ensure_future(group.wait(end)) for end in range(2, 10)]
        await asyncio.gather(first, *others)
        assert log.syncs == 2
        assert told == ["synced 1", "synced 9"]

    run(scenario)


def test_a_failed_sync_fails_everybody_for_ever() -> None:
    async def scenario(log: FakeLog, group: GroupSync, told: list[str]) -> None:
        log.end, log.error = 1, StorageError("no", reason="io")
        with pytest.raises(StorageError):
            await group.wait(1)
        log.error = None
        with pytest.raises(StorageError):
            await group.wait(1)
        assert log.syncs == 1
        assert told == ["failed"]

    run(scenario)


def test_who_waits_for_bytes_that_were_cut_away_hears_so() -> None:
    async def scenario(log: FakeLog, group: GroupSync, _told: list[str]) -> None:
        log.end = 5
        async with group.alone:
            waiting = asyncio.ensure_future(group.wait(5))
            await asyncio.sleep(0.001)
            log.end = 3
            group.cut(3)
            with pytest.raises(LeaderNotAvailableError):
                await waiting
        await group.wait(3)

    run(scenario)


def test_nobody_syncs_while_the_log_is_rewritten() -> None:
    async def scenario(log: FakeLog, group: GroupSync, _told: list[str]) -> None:
        log.end = 1
        async with group.alone:
            group.request()
            await asyncio.sleep(0.05)
            assert log.syncs == 0
        await group.wait(1)
        assert log.syncs == 1

    run(scenario)


async def look(watch: DiskWatch, for_s: float) -> None:
    """As the broker's tick does."""
    for _ in range(int(for_s * 10)):
        await asyncio.sleep(0.1)
        watch.look()


def test_nobody_waits_for_a_stalled_disk_and_the_sync_counts_when_it_ends() -> None:
    async def scenario(log: FakeLog, group: GroupSync, told: list[str]) -> None:
        log.end, log.takes_s = 1, 10
        first = asyncio.ensure_future(group.wait(1))
        await look(log.watch, 1.5)
        assert log.watch.stalled
        group.stalled()
        for waiting in (first, group.wait(1)):
            with pytest.raises(StorageError) as refused:
                await waiting
            assert (refused.value.context["reason"], refused.value.retriable) == (STALLED, True)
        assert told == []
        await look(log.watch, 12)
        assert not log.watch.stalled
        assert told == ["synced 1"]
        await group.wait(1)

    run(scenario)
