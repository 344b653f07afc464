"""The services of one coordinator over shards on fake logs, with peers that are functions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from oncelog.types import Buffer
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import pid_allocator_pb2 as al
from oncelog.wire import methods
from oncelog_coordinator.config import ShardConfig
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_coordinator.effects.group_effects import GroupEffects
from oncelog_coordinator.effects.heartbeat_waits import HeartbeatWaits
from oncelog_coordinator.effects.known_topics import KnownTopics
from oncelog_coordinator.effects.markers import MarkerSender
from oncelog_coordinator.effects.topic_watch import TopicWatch
from oncelog_coordinator.rpc.channel_service import ChannelService
from oncelog_coordinator.rpc.enrolling import Enrolling
from oncelog_coordinator.rpc.group_service import GroupService
from oncelog_coordinator.rpc.offset_service import OffsetService
from oncelog_coordinator.rpc.shard_registry import NodeShards
from oncelog_coordinator.rpc.transaction_service import TransactionService
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.pid_pool import PidPool
from oncelog_coordinator.shard.shard import EffectRunner, LifeParts, Shard
from oncelog_coordinator.shard.shard_runtime import ShardLife, Table
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from oncelog_runtime.metadata.cluster_view import ShardKey
from oncelog_runtime.serving.quotas import Quotas
from oncelog_runtime.serving.session_tokens import SessionTokens
from oncelog_runtime.serving.signpost import Signpost
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import BROKER, COORDINATOR, PARTITIONS, Cluster, FakeTransport
from tests.unit.coordinator.fake_log import FakePartition

ALLOCATOR = "allocator-0:9092"
HERE = "coordinator-1:9092"
"""This process; `COORDINATOR` is another one."""


class Serving:
    """`own` takes a shard. Brokers take every marker, unless `markers_wait`."""

    def __init__(self, world: SimWorld, *, tokens: bool = False, visible_wait_ms: int = 1_000) -> None:
        self.cluster = Cluster()
        self.cluster.put(cluster_keys.SESSION_KEY, cluster_keys.SessionKey(b"k" * 16).encode())
        self.cluster.put(f"{cluster_keys.ALLOCATORS}{ALLOCATOR}", b"")
        self.view = self.cluster.view
        self.transport = FakeTransport()
        self.transport.serve(ALLOCATOR, methods.ALLOCATE_PRODUCER_IDS, self._allocate)
        self.transport.serve(BROKER, methods.WRITE_TXN_MARKERS, self._take_markers)
        self.markers_wait = False
        self.next_producer_id = 100
        self.clock = SteadyClock(world.node("here").clock)
        self.owned: dict[ShardKey, Shard] = {}
        self.partitions: dict[ShardKey, FakePartition] = {}
        self.tasks: dict[ShardKey, asyncio.Task[None]] = {}
        self.shards = NodeShards(self.view, self.owned, HERE, Signpost(self.view, client_listener=False))
        self.tokens = SessionTokens(self.view, required=tokens)
        self.topics = KnownTopics(self.cluster, self.view)  # type: ignore[arg-type]
        self.ids = PidPool(self.transport, self.view, "here", prefetch=10)
        self.quotas = Quotas()
        self.transactions = TransactionService(
            self.shards, self.ids, visible_wait_ms, self.topics, 4, self.tokens, self.quotas
        )
        enrolling = Enrolling(self.transport, self.view, 1_000)
        self.offsets = OffsetService(self.shards, enrolling, self.tokens)
        self.channels = ChannelService(self.shards, enrolling, self.tokens)
        self.waits = HeartbeatWaits()
        self.members = GroupService(self.shards, self.waits, Limits())
        self.topic_watch = TopicWatch(self.view, self.owned)

    async def own(self, kind: str, number: int, epoch: int = 1) -> Shard:
        """Takes a shard, and waits until it serves."""
        key = (kind, number)
        self.partitions.setdefault(key, FakePartition())
        shard = self.owned[key] = Shard(
            kind=kind,
            number=number,
            config=ShardConfig(check_invariants=True),
            clock=self.clock,
            parts=LifeParts(
                make_table=self._table_of(kind),
                open_log=lambda kind, number, epoch: self.partitions[kind, number].open(epoch),
                make_runner=self._runner,
                next_epoch=self._next_epoch,
            ),
        )
        self.tasks[key] = asyncio.get_running_loop().create_task(shard.run(epoch))
        while not shard.is_serving:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        return shard

    async def own_all(self) -> None:
        """Every shard there is."""
        for kind in (KIND_TXN, KIND_GROUP):
            for number in range(PARTITIONS):
                await self.own(kind, number)

    async def lose(self, kind: str, number: int, *, to_another: bool = False) -> None:
        """The shard is somebody else's, or nobody's."""
        del self.owned[kind, number]
        task = self.tasks.pop((kind, number))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if to_another:
            self.cluster.own(kind, number, epoch=9)

    async def close(self) -> None:
        for key in list(self.owned):
            await self.lose(*key)
        await self.ids.close()

    @staticmethod
    def _table_of(kind: str) -> Callable[[], Table]:
        def make() -> Table:
            limits = Limits()
            return TransactionTable(limits) if kind == KIND_TXN else GroupShardTable(limits)

        return make

    def _runner(self, shard: Shard, life: ShardLife) -> EffectRunner:
        if shard.kind == KIND_GROUP:
            return GroupEffects(life, shard.number, self.transport, self.view, 1_000, self.waits)
        sender = MarkerSender(life, shard.number, self.transport, self.view, self.topics, 1_000)
        return self.shards.follow(life, sender)

    async def _next_epoch(self, kind: str, number: int, above: int) -> int | None:
        shard = self.owned.get((kind, number))
        return None if shard is None else max(shard.epoch, above) + 1

    async def _allocate(self, request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        first, self.next_producer_id = self.next_producer_id, self.next_producer_id + request.count
        return al.AllocateProducerIdsReply(ranges=[al.ProducerIdRange(first=first, count=request.count)]), b""

    async def _take_markers(self, request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        while self.markers_wait:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return pa.WriteTxnMarkersReply(markers=[pa.TxnMarkerReply() for _ in request.markers]), b""

    # ------------------------------------------------------------ short forms

    async def begin(self, transactional_id: str = "t", **more: Any) -> co.TransactionName:
        """A session, as the name of its next transaction."""
        request = co.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000, **more)
        reply = await self.transactions.init_producer_id(request)
        return co.TransactionName(
            transactional_id=transactional_id,
            txn_shard=reply.txn_shard,
            txn_producer_id=reply.producer_id,
            txn_no=reply.next_txn_no,
            producer_epoch=reply.producer_epoch,
            session_token=reply.session_token,
        )


Scenario = Callable[[Serving], Awaitable[None]]


def serve(scenario: Scenario, **options: Any) -> None:
    """Runs a scenario, with every shard owned here."""
    with SimWorld(3) as world:

        async def whole() -> None:
            here = Serving(world, **options)
            await here.own_all()
            await scenario(here)
            await here.close()

        world.run(whole())


__all__ = ["COORDINATOR", "HERE", "Serving", "serve"]
