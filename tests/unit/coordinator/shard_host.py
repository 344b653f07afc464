"""One process with one shard on a fake log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from oncelog import errors
from oncelog_coordinator.config import ShardConfig
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.shard import LifeParts, Shard
from oncelog_coordinator.shard.shard_observer import Observed, ShardObserver
from oncelog_coordinator.shard.shard_runtime import ShardLife
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.driver import P0
from tests.unit.coordinator.fake_log import FakePartition

INIT = cmd.InitProducerId("t", 60_000, "", 7)


SOON = Limits(transactional_id_expiration_ms=100_000, transactional_id_retention_ms=50_000)


class Effects:
    """Keeps effects."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.is_closed = False

    def run(self, effect: Any) -> None:
        self.seen.append(effect)

    async def close(self) -> None:
        self.is_closed = True


class Metrics(ShardObserver):
    """Counts as the metrics do."""

    def __init__(self, clock: SimClock) -> None:
        self.told: list[str] = []
        self.bugs = Bugs(NodeMetrics(), clock)

    def queued(self, seen: Observed) -> None:
        seen.since_s = 1.0

    def bug(self, error: Exception, shard: str, command: str) -> errors.OncelogError:
        return self.bugs.met("decision", error, f"{shard} {command}")

    def committed(self, observed: Sequence[Observed]) -> None:
        for seen in observed:
            assert not seen.ended or seen.since_s == 1.0
            self.told += [ended.outcome for ended in seen.ended]

    def refused(self, error: errors.OncelogError) -> None:
        self.told.append(type(error).__name__)

    def life_failed(self, kind: str) -> None:
        self.told.append(f"failed {kind}")


class Host:
    """One process with one shard on a partition that outlives it."""

    def __init__(self, world: SimWorld, partition: FakePartition, name: str = "a", **config: Any) -> None:
        self.world = world
        self.partition = partition
        self.owner = True
        self.effects: list[Effects] = []
        self.clock = world.node(f"{name}-{len(world.nodes)}").clock
        self.metrics = Metrics(self.clock)
        self.shard = Shard(
            kind="txn",
            number=3,
            config=ShardConfig(check_invariants=True, **config),
            clock=SteadyClock(self.clock),
            parts=LifeParts(
                make_table=lambda: TransactionTable(SOON),
                open_log=lambda kind, number, epoch: partition.open(epoch),
                make_runner=self._runner,
                next_epoch=self._next_epoch,
            ),
            observer=self.metrics,
        )
        self.task: asyncio.Task[None] | None = None

    def _runner(self, shard: Shard, life: ShardLife) -> Effects:
        self.effects.append(Effects())
        return self.effects[-1]

    async def _next_epoch(self, kind: str, number: int, above: int) -> int | None:
        return max(self.shard.epoch, above) + 1 if self.owner else None

    async def begin(self, epoch: int = 1) -> Host:
        self.task = asyncio.get_running_loop().create_task(self.shard.run(epoch))
        await self.serving()
        return self

    async def serving(self) -> None:
        while not self.shard.is_serving:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    async def end(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def open_transaction(self) -> cmd.SessionReply:
        session: cmd.SessionReply = await self.shard.ask(INIT)
        await self.shard.ask(cmd.Enrol(name(session, 1), (P0,)))
        return session


def name(session: cmd.SessionReply, n: int, tid: str = "t") -> cmd.TxnName:
    return cmd.TxnName(tid, session.producer_id, n, session.producer_epoch)


Scenario = Callable[[Host], Awaitable[None]]


def run(world: SimWorld, scenario: Scenario, **config: Any) -> Host:
    partition = FakePartition()
    host = Host(world, partition, **config)

    async def whole() -> None:
        await host.begin()
        await scenario(host)
        await host.end()

    world.run(whole())
    return host
