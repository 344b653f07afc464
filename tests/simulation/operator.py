"""A simulated operator: drains nodes, moves leaders and replicas, takes brokers out of use, adds one.

Rule 1: it speaks the wire contract, as the command line does, and gives up when it is refused.
Rule 2: what it began may be left as it is: a cluster must be sound with a broker that drains, or one that is empty.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import placement_pb2 as pl
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_runtime.metadata.cluster_keys import CONTROLLER_KEY, PARTITIONS, Partition, decode_ref
from oncelog_runtime.metadata.cluster_view import partition_of
from tests.simulation.cluster import SimCluster

_TIMEOUT_MS: Final = 1_000
_TRIES: Final = 3


class Operator:
    """`grows`: one more broker is added on the way."""

    def __init__(self, cluster: SimCluster, random: Random, every_ms: float, *, grows: bool) -> None:
        self._cluster = cluster
        self._random = random
        self._every_ms = every_ms
        self._grows = grows
        self._transport = cluster.world.client("operator")

    async def main(self) -> None:
        """For ever."""
        acts = {
            "drain": self._drain,
            "drain_coordinator": self._drain_coordinator,
            "transfer": self._transfer,
            "reassign": self._reassign,
            "decommission": self._decommission,
        }
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._every_ms) / 1000)
            if self._grows:
                self._grows = False
                self._cluster.add_broker()
                self._note("scale_out")
                continue
            name = self._random.choice(sorted(acts))
            try:
                if await acts[name]():
                    self._note(name)
            except errors.OncelogError:
                pass  # refused, or nobody answered: an operator who gives up must leave nothing broken

    def _note(self, name: str) -> None:
        self._cluster.world.loop.note_fault(name)

    # ------------------------------------------------------------ calls

    async def _call(self, node: str, spec: methods.MethodSpec[Any, Any], request: Any) -> Any:
        reply, _ = await spec.call(self._transport, self._cluster.node(node).address, request, _TIMEOUT_MS)
        return reply

    async def _controller(self, spec: methods.MethodSpec[Any, Any], request: Any) -> Any:
        for _ in range(_TRIES):
            item = self._cluster.world.metadata.get(CONTROLLER_KEY)
            if item is not None:
                try:
                    return await self._call(f"broker-{decode_ref(item.value).broker_id}", spec, request)
                except errors.NotControllerError:
                    pass
            await asyncio.sleep(0.2)
        raise errors.NotControllerError("nobody is the controller")

    def _brokers(self) -> list[int]:
        names = [name for name in self._cluster.world.nodes if name.startswith("broker-")]
        return sorted(int(name.rpartition("-")[2]) for name in names)

    def _some_partition(self) -> tuple[str, int, Partition]:
        item = self._random.choice(self._cluster.world.metadata.list(PARTITIONS).items)
        topic_id, number = partition_of(item.key)
        return topic_id, number, Partition.decode(item.value)

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.random() * 2)

    # ------------------------------------------------------------ acts

    async def _drain(self) -> bool:
        node = f"broker-{self._random.choice(self._brokers())}"
        await self._call(node, methods.DRAIN_BROKER, pa.DrainBrokerRequest(action=types_pb2.DRAIN_ACTION_START))
        await self._pause()
        if self._random.random() < 0.7:
            await self._call(node, methods.DRAIN_BROKER, pa.DrainBrokerRequest(action=types_pb2.DRAIN_ACTION_CANCEL))
        return True

    async def _drain_coordinator(self) -> bool:
        node = self._random.choice([name for name in self._cluster.world.nodes if name.startswith("coordinator-")])
        spec = methods.DRAIN_COORDINATOR
        await self._call(node, spec, co.DrainCoordinatorRequest(action=types_pb2.DRAIN_ACTION_START))
        await self._pause()
        if self._random.random() < 0.7:
            await self._call(node, spec, co.DrainCoordinatorRequest(action=types_pb2.DRAIN_ACTION_CANCEL))
        return True

    async def _transfer(self) -> bool:
        topic_id, number, state = self._some_partition()
        to = self._random.choice(state.isr).broker_id
        request = pl.TransferLeadershipRequest(topic_id=topic_id, partition=number, broker_id=to)
        await self._controller(methods.TRANSFER_LEADERSHIP, request)
        return True

    async def _reassign(self) -> bool:
        topic_id, number, state = self._some_partition()
        target = self._random.sample(self._brokers(), min(3, len(self._brokers())))
        if self._random.random() < 0.2:
            target = []  # cancels, if there is anything
        item = pl.PartitionReplicas(topic_id=topic_id, partition=number, replicas=target)
        reply = await self._controller(methods.REASSIGN_PARTITIONS, pl.ReassignPartitionsRequest(partitions=[item]))
        return not reply.errors and tuple(target) != state.replicas

    async def _decommission(self) -> bool:
        brokers = self._brokers()
        if len(brokers) < 4:
            return False
        request = pl.DecommissionBrokersRequest(
            action=pl.DECOMMISSION_ACTION_START, broker_ids=[self._random.choice(brokers)]
        )
        await self._controller(methods.DECOMMISSION_BROKERS, request)
        await self._pause()
        if self._random.random() < 0.6:
            request.action = pl.DECOMMISSION_ACTION_CANCEL
            await self._controller(methods.DECOMMISSION_BROKERS, request)
        return True
