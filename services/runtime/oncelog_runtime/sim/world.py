"""A whole simulated cluster: one loop, one network, one etcd, and nodes. Everything follows from the seed.

Rule: each part draws from its own random stream, so that one more draw in one of them leaves the others as they were.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from random import Random
from typing import TypeVar

from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.loop import SimLoop, SimTask
from oncelog_runtime.sim.metadata import SimMetadata, SimMetadataClient
from oncelog_runtime.sim.network import SimNetwork
from oncelog_runtime.sim.node import Main, SimNode
from oncelog_runtime.sim.transport import SimTransport

T = TypeVar("T")


class SimWorld:
    """The world of one test, which adds nodes and runs a scenario. A context manager, which closes the loop."""

    def __init__(self, seed: int | str = 0, plan: FaultPlan | None = None) -> None:
        self.seed = seed
        self.plan = plan or FaultPlan()
        self.loop = SimLoop(seed)  # type: ignore[abstract]  # what is missing raises, as it should
        self.network = SimNetwork(self.loop, self.random("network"), self.plan)
        self.metadata = SimMetadata(self.loop, self.random("metadata"), self.plan)
        self.nodes: dict[str, SimNode] = {}

    def random(self, stream: str) -> Random:
        """Returns a separate random stream, for example "workload"."""
        return Random(f"{self.seed}:{stream}")

    def node(
        self, name: str, main: Main | None = None, port: int = 9092, more: Mapping[str, int] | None = None
    ) -> SimNode:
        """Adds a machine and starts its first process. `more`: listener name to port, beside the internal one's."""
        if name in self.nodes:
            raise ValueError(f"there is a node {name} already")
        self.nodes[name] = node = SimNode(self, name, main, port, more)
        return node

    def client(self, name: str = "client") -> SimTransport:
        """Returns a transport for the test itself, which never crashes; partitions may name it."""
        return self.network.transport(name)

    def metadata_client(self, name: str = "client") -> SimMetadataClient:
        """Returns a metadata handle for the test itself."""
        return self.metadata.client(name)

    def spawn(self, coro: Coroutine[object, None, T], name: str | None = None) -> SimTask[T]:
        """Starts a task of the world, which belongs to no node."""
        return self.loop.create_task(coro, name=name, context=self.loop.world.copy())

    def run(self, coro: Coroutine[object, None, T]) -> T:
        """Runs until the coroutine ends; raises errors of any task."""
        return self.loop.run(coro)

    def set_plan(self, plan: FaultPlan) -> None:
        """Injects other faults from now on."""
        self.plan = self.network.plan = self.metadata.plan = plan
        for node in self.nodes.values():
            node.disk.plan = plan

    def heal(self) -> None:
        """Ends partitions and disk hangs, and starts every node that is down."""
        self.network.heal()
        self.metadata.heal()
        for node in self.nodes.values():
            node.thaw_disk()
            if node.life.dead:
                node.restart()

    def __enter__(self) -> SimWorld:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every process as a power cut would, then the loop."""
        for node in self.nodes.values():
            node.unplug()
        self.loop.close()
