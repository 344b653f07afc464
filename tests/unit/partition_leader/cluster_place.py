"""A simulated etcd with the keys of a small cluster, one broker's view of it, and peers that are functions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from oncelog.errors import OncelogError
from oncelog.types import BrokerRef, PartitionId
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import Broker, Partition, Topic, broker_key, partition_key, topic_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import CommitResult, Compare, Put
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import FakeTransport

TOPIC_ID = "a" * 32
P0, P1 = PartitionId(TOPIC_ID, 0), PartitionId(TOPIC_ID, 1)


class Moody:
    """A metadata store that fails, loses answers, or lets something happen before a commit."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.fail: list[OncelogError] = []
        """Calls fail with these first."""
        self.lose: list[OncelogError] = []
        """Commits take effect, and then fail with these."""
        self.before_commit: Callable[[], Awaitable[None]] | None = None
        self.commits: list[tuple[Sequence[Compare], Sequence[Put], Sequence[str]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, key: str) -> Any:
        if self.fail:
            raise self.fail.pop(0)
        return await self._store.get(key)

    async def commit(
        self, compares: Sequence[Compare] = (), puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> CommitResult:
        self.commits.append((compares, puts, deletes))
        if self.fail:
            raise self.fail.pop(0)
        if self.before_commit is not None:
            before, self.before_commit = self.before_commit, None
            await before()
        result: CommitResult = await self._store.commit(compares, puts, deletes)
        if self.lose:
            raise self.lose.pop(0)
        return result


class Place:
    """Broker 0's side of a cluster. `begin` registers the brokers and follows etcd."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.node = world.node("broker-0")
        self.ports = replace(self.node.ports, metadata=Moody(self.node.ports.metadata))  # type: ignore[arg-type]
        self.metadata: Any = self.ports.metadata
        self.clock = self.node.clock
        self.etcd = world.metadata_client("test")
        self.view = ClusterView()
        self.transport = FakeTransport()
        self.faults: list[BaseException] = []
        self.tasks = TaskOwner(self.faults.append)
        self.bugs = Bugs(self.ports.metrics, self.clock)

    @property
    def ports_with_transport(self) -> NodePorts:
        """The ports of broker 0, whose calls go to `transport`."""
        return replace(self.ports, transport=self.transport)

    async def begin(self, brokers: int = 3) -> None:
        for broker_id in range(brokers):
            await self.register(broker_id)
        self.tasks.spawn(self.view.follow(self.etcd), "follow")
        await self.seen()

    def me(self) -> BrokerRef:
        return self.ref(0)

    def ref(self, broker_id: int) -> BrokerRef:
        """A broker under its present incarnation; 0 = not registered."""
        return BrokerRef(broker_id, self.view.live().get(broker_id, 0))

    def refs(self, *broker_ids: int) -> tuple[BrokerRef, ...]:
        return tuple(map(self.ref, broker_ids))

    # ------------------------------------------------------------ keys

    async def put(self, key: str, value: bytes) -> None:
        await self.etcd.commit(puts=[Put(key, value)])
        await self.seen()

    async def delete(self, *keys: str) -> None:
        await self.etcd.commit(deletes=keys)
        await self.seen()

    async def seen(self) -> None:
        """Until the view has everything."""
        revision = (await self.etcd.list(cluster_keys.ROOT)).revision
        while self.view.revision and self.view.revision < revision:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)

    async def register(self, broker_id: int, rack: str = "", partitions_max: int = 0) -> None:
        """A new incarnation."""
        address = f"broker-{broker_id}:9092"
        value = Broker(address, address, f"{broker_id}-{self.world.loop.time()}", rack, partitions_max=partitions_max)
        await self.put(broker_key(broker_id), value.encode())

    async def leave(self, broker_id: int) -> None:
        await self.delete(broker_key(broker_id))

    async def topic(self, name: str = "t", topic_id: str = TOPIC_ID, partitions: int = 1, **config: str) -> None:
        """A topic without its partitions."""
        await self.put(topic_key(name), Topic(name, topic_id, partitions, 3, config).encode())

    async def lead(
        self,
        partition: PartitionId = P0,
        *,
        isr: Sequence[int] = (0, 1, 2),
        leader: int | None = 0,
        epoch: int = 0,
        topic: str = "t",
        replicas: tuple[int, ...] = (0, 1, 2),
        **more: Any,
    ) -> None:
        """What etcd says of a partition."""
        named = None if leader is None else self.ref(leader)
        value = Partition(topic, replicas, named, epoch, self.refs(*isr), **more)
        await self.put(partition_key(*partition), value.encode())

    async def state(self, partition: PartitionId = P0) -> Partition:
        """As it stands in etcd."""
        found = await self.etcd.get(partition_key(*partition))
        assert found is not None
        return Partition.decode(found.value)

    async def commit(self, compares: list[Compare], puts: list[Put], deletes: list[str] | None = None) -> bool:
        """As the controller writes, without its fence."""
        result = await self.metadata.commit(compares, puts, deletes or [])
        if result.succeeded:
            await self.seen()
        return bool(result.succeeded)

    async def until(self, condition: Callable[[], bool], within_s: float = 30) -> None:
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def take_faults(self) -> None:
        """Faults of ours that a test has made are no violations."""
        self.world.loop.errors.clear()


Scenario = Callable[[Place], Awaitable[None]]


def run(scenario: Scenario, brokers: int = 3, seed: int | str = 1) -> None:
    """Runs a scenario as code of broker 0."""
    with SimWorld(seed) as world:
        place = Place(world)

        async def main() -> None:
            await place.begin(brokers)
            await scenario(place)
            await place.tasks.stop()

        async def whole() -> None:
            await place.node.spawn(main())

        world.run(whole())
