"""Time, and who is who in the cluster of a script."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from oncelog import errors
from oncelog.client.client import Client
from oncelog.core.batch.hashing import shard_for
from oncelog.types import BrokerRef
from oncelog_coordinator.coordinator import CoordinatorNode
from oncelog_coordinator.shard.shard import Shard
from oncelog_partition_leader.broker import Broker
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from oncelog_runtime.metadata.cluster_keys import Partition as PartitionState
from tests.conformance.names import Place
from tests.simulation.cluster import SHARDS, SimCluster

T = TypeVar("T")


class Looking:
    """Looks and waits; changes nothing but topics."""

    def __init__(self, started: SimCluster) -> None:
        self.cluster = started
        self.world = started.world

    # ------------------------------------------------------------ time

    @property
    def now_ms(self) -> int:
        """Virtual milliseconds."""
        return int(self.world.loop.time() * 1000)

    async def sleep(self, seconds: float) -> None:
        """Virtual time passes."""
        await asyncio.sleep(seconds)

    def start(self, work: Awaitable[T]) -> asyncio.Task[T]:
        """Something that goes on beside the script; its exception is taken when it is awaited."""

        async def run() -> T:
            return await work

        task = asyncio.ensure_future(run())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def until(self, condition: Callable[[], Any], what: str = "", within_s: float = 30) -> None:
        """Waits until the condition holds."""
        deadline = self.world.loop.time() + within_s
        while not condition():
            assert self.world.loop.time() < deadline, f"not within {within_s} s: {what or condition}"
            await asyncio.sleep(0.005)

    async def retry(self, attempt: Callable[[], Awaitable[T]], within_s: float = 30) -> T:
        """Repeats what may be repeated, as every caller does."""
        deadline = self.world.loop.time() + within_s
        while True:
            try:
                return await attempt()
            except errors.OncelogError as error:
                if not error.retriable or self.world.loop.time() >= deadline:
                    raise
                await asyncio.sleep(0.02)

    # ------------------------------------------------------------ who is who

    async def topic(self, name: str = "work", partitions: int = 1, **config: str) -> list[Place]:
        """A new topic's partitions. Options as `min_insync_replicas="2"`."""
        async with self.client() as client:
            created = await client.admin.create_topic(name, partitions=partitions, config=config)
        return [Place(name, created.topic_id, number) for number in range(partitions)]

    async def place(self, name: str = "work", **config: str) -> Place:
        """The one partition of a new topic; two of three replicas must be in sync."""
        (found,) = await self.topic(name, **{"min_insync_replicas": "2", **config})
        return found

    def client(self, **config: Any) -> Client:
        """An SDK client."""
        return self.cluster.client(**{"default_api_timeout_ms": 20_000, **config})

    def state(self, place: Place) -> PartitionState:
        """What etcd says of a partition now."""
        item = self.world.metadata.get(keys.partition_key(*place.id))
        assert item is not None
        return PartitionState.decode(item.value)

    def leader(self, place: Place) -> str:
        """The node that etcd names as leader."""
        ref = self.state(place).leader
        assert ref is not None
        return f"broker-{ref.broker_id}"

    def followers(self, place: Place) -> list[str]:
        """The other replicas, in the order in which they would be elected."""
        names = [f"broker-{number}" for number in self.state(place).replicas]
        return [name for name in names if name != self.leader(place)]

    def isr(self, place: Place) -> set[str]:
        """Node names of the members that are registered as the ISR names them."""
        return {f"broker-{ref.broker_id}" for ref in self.state(place).isr if self.incarnation_of(ref) == ref}

    def incarnation_of(self, ref: BrokerRef) -> BrokerRef:
        """The broker's registration of now; incarnation 0 = none."""
        item = self.world.metadata.get(keys.broker_key(ref.broker_id))
        return BrokerRef(ref.broker_id, item.mod_revision if item is not None else 0)

    async def new_leader(self, place: Place, old: str) -> str:
        """Waits for an election after which another node leads and serves."""
        await self.until(lambda: self.leader(place) != old and self.leads(self.leader(place), place), "a new leader")
        return self.leader(place)

    def leads(self, node: str, place: Place) -> bool:
        """The node's process believes that it leads."""
        if self.world.nodes[node].life.dead or node not in self.cluster.services:
            return False
        partition = self.broker(node).replicas.partitions.get(place.id)
        return partition is not None and partition.leadership is not None

    def broker(self, node: str) -> Broker:
        """A living broker's service object, to look at."""
        service = self.cluster.services[node]
        assert isinstance(service, Broker)
        return service

    def replica(self, node: str, place: Place) -> LocalPartition:
        """A replica, to look at."""
        return self.broker(node).replicas.partitions[place.id]

    def coordinator(self, node: str) -> CoordinatorNode:
        """A living coordinator's service object, to look at."""
        service = self.cluster.services[node]
        assert isinstance(service, CoordinatorNode)
        return service

    def _owner(self, kind: str, shard: int) -> str:
        item = self.world.metadata.get(keys.shard_owner_key(kind, shard))
        return "" if item is None else keys.ShardOwner.decode(item.value).address.partition(":")[0]

    def owner(self, transactional_id: str) -> str:
        """The node that owns an id's shard, as etcd says; empty while nobody does."""
        return self._owner(KIND_TXN, shard_for(transactional_id, SHARDS))

    def group_owner(self, group_id: str) -> str:
        """The node that owns a group's shard."""
        return self._owner(KIND_GROUP, shard_for(group_id, SHARDS))

    def shard_of(self, node: str, transactional_id: str) -> Shard:
        """The shard object of an id at a node."""
        return self.coordinator(node)._owned[KIND_TXN, shard_for(transactional_id, SHARDS)]

    def lives(self) -> dict[str, int]:
        """How many lives each shard of a living coordinator had."""
        found: dict[str, int] = {}
        for name, service in sorted(self.cluster.services.items()):
            if isinstance(service, CoordinatorNode) and not self.world.nodes[name].life.dead:
                shards = [*service.shards.all_owned("txn"), *service.shards.all_owned("group")]
                found |= {f"{name} {shard.name}": shard.lives for shard in shards}
        return found

    def runs_shard(self, node: str, transactional_id: str) -> bool:
        """The node knows that it owns an id's shard; it may still be loading."""
        return (KIND_TXN, shard_for(transactional_id, SHARDS)) in self.coordinator(node)._owned

    def shard_log(self, transactional_id: str) -> Place:
        """The internal partition that holds an id's shard."""
        return self.internal(keys.TRANSACTION_TOPIC, shard_for(transactional_id, SHARDS))

    def internal(self, topic: str, partition: int) -> Place:
        """A partition of an internal topic."""
        item = self.world.metadata.get(keys.topic_key(topic))
        assert item is not None
        return Place(topic, keys.Topic.decode(item.value).topic_id, partition)
