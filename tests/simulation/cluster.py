"""A whole simulated cluster: brokers, coordinators, producer id services and SDK clients, all production classes.

Rule: nothing here decides anything of the protocol; it only builds, starts and looks. A process that cannot start (its
disk failed, etcd did not answer) is started again, as Kubernetes would; it counts as the fault "could_not_start".
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from oncelog_coordinator.config import CoordinatorConfig
from oncelog_coordinator.coordinator import CoordinatorNode
from oncelog_partition_leader.broker import Broker
from oncelog_partition_leader.config import BrokerConfig
from oncelog_pid_allocator.config import PidAllocatorConfig
from oncelog_pid_allocator.service import PidAllocator
from oncelog_runtime.core.listeners import CLIENT, EXTERNAL
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.node import SimNode
from oncelog_runtime.sim.server import SimServer
from oncelog_runtime.sim.world import SimWorld

SHARDS: Final = 2
DOORS: Final = {CLIENT: 9192, EXTERNAL: 9292}
_GRACE_MS: Final = 2_000
_START_AGAIN_S: Final = 1.0
Service = Broker | CoordinatorNode | PidAllocator


class SimCluster:
    """`services[name]` is the living service object of a node, absent while the node is down or starts.

    `coordinator`: options of coordinators; all others are brokers'.

    `doors`: brokers and coordinators have a listener for clients and one for clients outside, on ports of `DOORS`.
    `super_users`: access rules are on, and these principals may do everything. A client is `User:` and its name.
    """

    def __init__(
        self,
        seed: int | str,
        plan: FaultPlan | None = None,
        *,
        brokers: int = 3,
        coordinators: int = 2,
        allocators: int = 1,
        doors: bool = False,
        coordinator: Mapping[str, int] | None = None,
        super_users: tuple[str, ...] = (),
        **broker: Any,
    ) -> None:
        self.world = SimWorld(seed, plan)
        self.services: dict[str, Service] = {}
        self._broker_options = broker
        self._coordinator_options = coordinator or {}
        more = DOORS if doors else {}
        self._ports = more
        self._door_options: dict[str, Any] = {f"{name}_listen_port": port for name, port in more.items()}
        self._super_users = super_users
        self._security_options: dict[str, Any] = (
            {"authorization": "acl", "super_users": super_users} if super_users else {}
        )
        self._stop: dict[str, asyncio.Event] = {}
        self._clients = 0
        self._more = more
        for _ in range(brokers):
            self.add_broker()
        for i in range(coordinators):
            main = self._main(f"coordinator-{i}", self._make_coordinator)
            self.world.node(f"coordinator-{i}", main, more=more)
        for i in range(allocators):
            self.world.node(f"allocator-{i}", self._main(f"allocator-{i}", self._make_allocator))

    # ------------------------------------------------------------ making services

    def _make_broker(self, broker_id: int) -> Callable[[NodePorts], Service]:
        options: dict[str, Any] = {
            "rack": f"rack-{broker_id}",
            "transaction_shards": SHARDS,
            "group_shards": SHARDS,
            "transaction_resolve_after_ms": 3_000,
            "transaction_resolve_interval_ms": 1_000,
            "replica_lag_time_max_ms": 4_000,
            "check_inline_bytes": 1,  # every compressed batch waits for its check
            **self._door_options,
            **self._security_options,
            **self._broker_options,
        }
        config = BrokerConfig(node_id=broker_id, **options)
        return lambda ports: Broker(config, ports)

    def _make_coordinator(self, ports: NodePorts) -> Service:
        options: dict[str, Any] = {**self._door_options, **self._security_options, **self._coordinator_options}
        config = CoordinatorConfig(check_invariants=True, group_resolve_after_ms=3_000, **options)
        return CoordinatorNode(config, ports)

    @staticmethod
    def _make_allocator(ports: NodePorts) -> Service:
        return PidAllocator(PidAllocatorConfig(), ports)

    def _main(self, name: str, make: Callable[[NodePorts], Service]) -> Callable[[NodePorts], Awaitable[None]]:
        async def main(ports: NodePorts) -> None:
            service = make(self._secured(ports))
            self.services[name] = service
            self._stop[name] = stop = asyncio.Event()
            try:
                await service.start()
            except errors.OncelogError as error:
                self._ended_by_itself(name, error)
                return
            ports.health.started()
            await stop.wait()
            ports.health.draining()
            await service.stop(_GRACE_MS)

        return main

    def _secured(self, ports: NodePorts) -> NodePorts:
        if not self._super_users:
            return ports
        security = Authorizer(Policy(self._super_users), ports.quotas)
        assert isinstance(ports.server, SimServer)
        ports.server.security = security
        return dataclasses.replace(ports, security=security)

    def _ended_by_itself(self, name: str, error: errors.OncelogError) -> None:
        """The watchdog, as Kubernetes: a process that could not start ends, and is started again after a while."""
        loop, node = self.world.loop, self.node(name)
        life = node.life
        loop.note_fault("could_not_start")
        loop.trace(f"{life.name} could not start: {type(error).__name__}")
        del self.services[name]

        def end() -> None:
            if node.life is life and not life.dead:
                node.kill()
                loop.call_later(_START_AGAIN_S, again, context=loop.world)

        def again() -> None:
            if node.life is life:  # else somebody else has restarted it
                node.restart()

        loop.call_soon(end, context=loop.world)

    # ------------------------------------------------------------ using it

    def add_broker(self) -> str:
        """One more broker, with the next id; its node's name."""
        broker_id = sum(name.startswith("broker-") for name in self.world.nodes)
        name = f"broker-{broker_id}"
        self.world.node(name, self._main(name, self._make_broker(broker_id)), more=self._more)
        return name

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses."""
        return ",".join(node.address for name, node in self.world.nodes.items() if name.startswith("broker-"))

    def node(self, name: str) -> SimNode:
        """A machine of the cluster."""
        return self.world.nodes[name]

    def ask_to_stop(self, name: str) -> None:
        """A clean stop, as SIGTERM: leaderships and shards are handed over. `node(name).stopped()` waits for its end."""
        if name in self._stop:
            self._stop[name].set()

    def client(self, name: str = "", door: str = "", **config: Any) -> Client:
        """An SDK client of the world: its process never crashes. Partitions may name it.

        It comes in by `door`; empty = the clients' one.
        """
        self._clients += 1
        name = name or f"client-{self._clients}"
        port = self._ports.get(door or CLIENT, 9092)
        return Client(
            self.bootstrap.replace(":9092", f":{port}"),
            client_id=name,
            transport=self.world.client(name),
            clock=self.node("allocator-0").clock,
            random=self.world.random(name),
            **{"bootstrap_timeout_ms": 30_000, **config},  # faults may keep a cluster away for long
        )

    def brokers(self) -> Iterator[tuple[str, Broker]]:
        """Living brokers by node name."""
        for name, service in sorted(self.services.items()):
            if isinstance(service, Broker) and not self.node(name).life.dead:
                yield name, service

    async def healthy(self, within_ms: int = 60_000) -> None:
        """Waits until every partition has a leader and its full ISR and every shard an owner.

        Raises `AssertionError` with what is wrong after `within_ms` of virtual time.
        """
        brokers = sum(name.startswith("broker-") for name in self.world.nodes)
        deadline = self.world.loop.time() + within_ms / 1000
        problem: object = "nobody answered"
        async with AsyncExitStack() as stack:
            client: Client | None = None
            while self.world.loop.time() < deadline:
                try:
                    if client is None:
                        client = await stack.enter_async_context(self.client("health", default_api_timeout_ms=2_000))
                    health = await client.admin.cluster_health()
                    if health.healthy and len(health.brokers) == brokers:
                        return
                    problem = health
                except Exception as error:  # whatever it is, it is what stood in the way
                    problem = repr(error)
                await asyncio.sleep(0.2)
        raise AssertionError(f"the cluster did not become healthy within {within_ms} ms: {problem}")

    def __enter__(self) -> SimCluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.world.__exit__(*exc)
