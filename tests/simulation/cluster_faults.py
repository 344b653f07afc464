"""The fault driver of whole clusters: as the world's, but it keeps to what oncelog promises to survive.

Rule: a power cut may take what a broker had only in memory, so in `replicated` flush mode it comes only while every
partition has its full ISR, as etcd and the living processes agree (promise 1: `min_insync_replicas` - 1 losses, and a
loss is over when the replica has caught up). In `fsync` mode, and for `kill -9`, pauses and partitions, there is no limit.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from oncelog_runtime.cluster import PARTITIONS, Partition
from oncelog_runtime.sim.faults import FaultDriver, FaultPlan
from oncelog_runtime.sim.node import SimNode
from tests.simulation.cluster import SimCluster

_STOP_MAX_S: Final = 5.0


class ClusterFaults(FaultDriver):
    """`durable`: every topic is in `fsync` mode."""

    def __init__(
        self,
        cluster: SimCluster,
        plan: FaultPlan,
        random: Random,
        max_down: int,
        *,
        durable: bool,
        blackout_every_ms: float = 0.0,
        etcd_outage_every_ms: float = 0.0,
    ) -> None:
        super().__init__(cluster.world, plan, random, max_down)
        self._cluster = cluster
        self._durable = durable
        self._rates = {"blackout": blackout_every_ms, "etcd_outage": etcd_outage_every_ms}

    def start(self) -> None:
        """Also stops and restarts nodes in peace now and then, if they are disturbed at all."""
        super().start()
        rates = [r for r in (self._plan.kill_every_ms, self._plan.crash_every_ms, self._plan.pause_every_ms) if r]
        if rates:
            self._rates["clean_restart"] = min(rates)
        inject = {"clean_restart": self._restart_cleanly, "blackout": self._blackout, "etcd_outage": self._lose_etcd}
        for name, mean_ms in self._rates.items():
            if mean_ms:
                self._tasks.append(self._world.spawn(self._repeat(name, mean_ms, inject[name]), name=name))

    async def _restart_cleanly(self) -> bool:
        node = self._pick()
        if node is None:
            return False
        self._disturbed += 1
        try:
            self._cluster.ask_to_stop(node.name)
            if node.main_task is not None:
                await asyncio.wait([node.main_task], timeout=_STOP_MAX_S)
            await asyncio.sleep(self._random.random() * self._plan.restart_after_max_ms / 1000)
        finally:  # also when the faults are over: nobody else brings a node back that stopped by itself
            node.restart()
            self._disturbed -= 1
        return True

    async def _blackout(self) -> bool:
        """Every process ends at the same moment: by a power cut in fsync mode, else by kill -9."""
        nodes = list(self._world.nodes.values())
        for node in nodes:
            if not node.life.dead:
                node.crash(silent=True) if self._durable else node.kill()
        self._random.shuffle(nodes)
        for node in nodes:
            await asyncio.sleep(self._random.random() * self._plan.restart_after_max_ms / 3000)
            if node.life.dead:
                node.restart()
        return True

    async def _lose_etcd(self) -> bool:
        """Nobody reaches etcd for a while; its leases run out meanwhile."""
        for name in self._world.nodes:
            self._world.metadata.cut(name)
        await asyncio.sleep(self._random.random() * self._plan.partition_max_ms / 1000)
        self._world.metadata.heal()
        return True

    async def _crash(self) -> bool:
        node = self._pick()
        if node is None or not self._may_cut_power(node):
            return False
        node.crash(silent=self._random.random() < 0.5)
        await self._down_and_up(node)
        return True

    def _may_cut_power(self, node: SimNode) -> bool:
        if self._durable or not node.name.startswith("broker-"):
            return True
        living = {broker.me() for _, broker in self._cluster.brokers()}
        states = [Partition.decode(item.value) for item in self._world.metadata.list(PARTITIONS).items]
        return all(len(state.isr) == len(state.replicas) and living.issuperset(state.isr) for state in states)
