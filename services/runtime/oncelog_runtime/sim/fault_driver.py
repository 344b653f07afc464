"""Injects the faults of a plan into a world while it runs: crashes, pauses, partitions, lost leases, and the like.

Rule 1: each kind of fault that has a rate in the plan has a task of its own; the times between two injections are drawn.
Rule 2: `stop` ends all of them, heals everything, and leaves a plan without faults behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.node import SimNode
from oncelog_runtime.sim.world import SimWorld


class FaultDriver:
    """Injects what has a rate, until `stop`; then heals everything.

    `max_down`: so many nodes may be down or paused at the same time (their restart is part of the injection).
    """

    def __init__(self, world: SimWorld, plan: FaultPlan, random: Random, max_down: int = 1) -> None:
        self._world = world
        self._plan = plan
        self._random = random
        self._max_down = max_down
        self._disturbed = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.injected: dict[str, int] = {}

    def start(self) -> None:
        """Starts one task per kind of fault."""
        kinds = {
            "crash_every_ms": self._crash,
            "kill_every_ms": self._kill,
            "pause_every_ms": self._pause,
            "partition_every_ms": self._partition,
            "metadata_partition_every_ms": self._cut_metadata,
            "lease_loss_every_ms": self._lose_lease,
            "compaction_every_ms": self._compact,
            "clock_step_every_ms": self._step_clock,
            "bit_flip_every_ms": self._flip,
        }
        for name, inject in kinds.items():
            mean_ms = getattr(self._plan, name)
            if mean_ms:
                self._tasks.append(self._world.spawn(self._repeat(name, mean_ms, inject), name=name))

    async def stop(self) -> None:
        """Stops injecting, heals the network, brings every node back and makes the plan calm.

        Raises what an injection raised: a driver that broke injects nothing.
        """
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        self._tasks.clear()
        self._world.set_plan(self._plan.calm())
        self._world.heal()

    async def _repeat(self, name: str, mean_ms: float, inject: Callable[[], Awaitable[bool]]) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / mean_ms) / 1000)
            if await inject():
                self.injected[name] = self.injected.get(name, 0) + 1
                self._world.loop.note_fault(name)

    def _pick(self) -> SimNode | None:
        up = [node for node in self._world.nodes.values() if node.is_up and node.disturbable]
        if not up or self._disturbed >= self._max_down:
            return None
        return self._random.choice(up)

    async def _down_and_up(self, node: SimNode) -> None:
        self._disturbed += 1
        try:
            await asyncio.sleep(self._random.random() * self._plan.restart_after_max_ms / 1000)
            node.restart()
        finally:
            self._disturbed -= 1

    async def _crash(self) -> bool:
        node = self._pick()
        if node is None:
            return False
        node.crash(silent=self._random.random() < 0.5)
        await self._down_and_up(node)
        return True

    async def _kill(self) -> bool:
        node = self._pick()
        if node is None:
            return False
        node.kill()
        await self._down_and_up(node)
        return True

    async def _pause(self) -> bool:
        node = self._pick()
        if node is None:
            return False
        self._disturbed += 1
        try:
            ms = self._random.random() * self._plan.pause_max_ms
            node.pause(ms)
            await asyncio.sleep(ms / 1000)
        finally:
            self._disturbed -= 1
        return True

    async def _partition(self) -> bool:
        names = list(self._world.nodes)
        if len(names) < 2:
            return False
        self._random.shuffle(names)
        cut = self._random.randint(1, len(names) - 1)
        network = self._world.network
        network.partition(names[:cut], names[cut:], one_way=self._random.random() < 0.3)
        await asyncio.sleep(self._random.random() * self._plan.partition_max_ms / 1000)
        network.heal()
        return True

    async def _cut_metadata(self) -> bool:
        name = self._random.choice(list(self._world.nodes))
        self._world.metadata.cut(name)
        await asyncio.sleep(self._random.random() * self._plan.partition_max_ms / 1000)
        self._world.metadata.heal(name)
        return True

    async def _lose_lease(self) -> bool:
        return self._world.metadata.expire_some_lease(self._random)

    async def _compact(self) -> bool:
        self._world.metadata.compact()
        return True

    async def _step_clock(self) -> bool:
        node = self._random.choice(list(self._world.nodes.values()))
        node.clock.step(self._random.randint(-1_000, 1_000))
        return True

    async def _flip(self) -> bool:
        node = self._random.choice(list(self._world.nodes.values()))
        return node.disk.flip_some_bit(self._random) is not None
