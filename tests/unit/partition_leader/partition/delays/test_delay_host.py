"""Each waiting partition that is led has a run, and another one after one that was lost."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from oncelog.errors import NotLeaderError
from oncelog.types import PartitionId
from oncelog_partition_leader.partition.delays import delay_host
from oncelog_partition_leader.partition.delays.delay_host import DelayHost
from oncelog_partition_leader.partition.delays.mover import SessionLostError
from oncelog_partition_leader.partition.delays.troubles import Troubles
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.loop import SimLoop

WHERE = PartitionId("a" * 32, 0)


class Led:
    """A leadership."""

    ended: Any = None
    partition = WHERE


class Run:
    """Stands for a `SchedulerRun`."""

    made: ClassVar[list[Run]] = []

    def __init__(self, _partition: Any, leadership: Any, _around: Any) -> None:
        self.scheduler: Any = None
        self.lost = asyncio.Event()
        self.leadership = leadership
        Run.made.append(self)

    async def run(self) -> None:
        await self.lost.wait()
        if self.leadership.ended is None:
            raise SessionLostError("lost")


def test_a_lost_run_is_followed_by_another_one_while_the_leadership_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_host, "SchedulerRun", Run)
    Run.made.clear()
    failed: list[BaseException] = []
    with SimLoop(1) as loop:

        async def whole() -> None:
            partitions: dict[PartitionId, Any] = {}
            troubles = Troubles()
            around: Any = SimpleNamespace(clock=SimClock(loop), troubles=troubles)
            host = DelayHost(partitions, around, TaskOwner(failed.append), cast("Any", None))
            leadership = Led()
            host.role_changed(WHERE)
            partitions[WHERE] = SimpleNamespace(topic="orders", id=WHERE, leadership=leadership)
            host.role_changed(WHERE)
            await asyncio.sleep(0.1)
            assert not Run.made, "nothing waits in an ordinary topic"
            partitions[WHERE] = SimpleNamespace(topic="__delayed.orders", id=WHERE, leadership=None)
            host.role_changed(WHERE)
            partitions[WHERE].leadership = leadership
            host.role_changed(WHERE)
            host.role_changed(WHERE)
            await asyncio.sleep(0.1)
            assert len(Run.made) == 1
            with pytest.raises(NotLeaderError):
                host.summary(WHERE)
            assert list(host.summaries()) == []
            Run.made[0].scheduler = SimpleNamespace(summary=lambda: "told")
            assert host.summary(WHERE) == "told"
            assert list(host.summaries()) == [("__delayed.orders", "told")]
            Run.made[0].lost.set()
            await asyncio.sleep(1)
            assert len(Run.made) == 2
            assert troubles.total == 1
            leadership.ended = NotLeaderError()
            Run.made[1].lost.set()
            await asyncio.sleep(1)
            assert len(Run.made) == 2
            with pytest.raises(NotLeaderError):
                host.summary(WHERE)

        loop.run(whole())
    assert not failed
