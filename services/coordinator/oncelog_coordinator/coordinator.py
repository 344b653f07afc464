"""One coordinator process: the cluster view, the ownership of shards, and the service over them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from oncelog.wire import methods
from oncelog_coordinator.config import CoordinatorConfig
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_coordinator.effects.channel_watch import ChannelWatch
from oncelog_coordinator.effects.group_effects import GroupEffects
from oncelog_coordinator.effects.heartbeat_waits import HeartbeatWaits
from oncelog_coordinator.effects.known_topics import KnownTopics
from oncelog_coordinator.effects.lag_watch import LagWatch
from oncelog_coordinator.effects.marker_observer import MarkerObserver, MarkerObservers, MarkerSpans, MarkerTimes
from oncelog_coordinator.effects.markers import MarkerSender
from oncelog_coordinator.effects.topic_watch import TopicWatch
from oncelog_coordinator.rpc.channel_service import ChannelService
from oncelog_coordinator.rpc.enrolling import Enrolling
from oncelog_coordinator.rpc.group_service import GroupService
from oncelog_coordinator.rpc.offset_service import OffsetService
from oncelog_coordinator.rpc.shard_registry import NodeShards
from oncelog_coordinator.rpc.transaction_service import TransactionService, register
from oncelog_coordinator.shard.channel_collector import ChannelCollector
from oncelog_coordinator.shard.coordinator_metrics import CoordinatorCollector, CoordinatorMetrics
from oncelog_coordinator.shard.drainer import CoordinatorDrain
from oncelog_coordinator.shard.group_collector import GroupCollector
from oncelog_coordinator.shard.log_port import LogPort
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.ownership import LeaseTimes, Owner, ShardOwnership
from oncelog_coordinator.shard.pid_pool import PidPool
from oncelog_coordinator.shard.shard import EffectRunner, LifeParts, Shard
from oncelog_coordinator.shard.shard_log import ShardLog
from oncelog_coordinator.shard.shard_observer import ShardObservers
from oncelog_coordinator.shard.shard_runtime import ShardLife, Table
from oncelog_coordinator.shard.shard_traces import ShardTraces
from oncelog_runtime.metadata.cluster_keys import KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.metadata.restore_guard import RestoreGuard
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.observability import health
from oncelog_runtime.process.bugs import Bugs, keep_running
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.security.quota_watch import follow_quotas
from oncelog_runtime.serving.session_tokens import SessionTokens
from oncelog_runtime.serving.signpost import Signpost

_log = logging.getLogger(__name__)


class CoordinatorNode:
    """Runs the coordinator. `start` returns when the process listens; shards follow as their ownership is won in etcd.

    Its fields are the parts of the process, which is why there are some 25.
    """

    def __init__(self, config: CoordinatorConfig, ports: NodePorts) -> None:
        self._config = config
        self._ports = ports
        self._clock = SteadyClock(ports.clock)
        self._limits = config.limits()
        self._shard_config = config.shard()
        self.bugs = Bugs(ports.metrics, ports.clock)
        self._tasks = TaskOwner(self._task_failed)
        self._ownership_task: asyncio.Task[None] | None = None
        self._ownership: ShardOwnership | None = None
        self.view = ClusterView()
        self.view.on_fault = self._task_failed
        self._topics = KnownTopics(ports.metadata, self.view)
        self.address = ""
        self._guard = RestoreGuard(ports.metadata, self.view, before_restart=self._etcd_was_restored)
        self.failure: BaseException | None = None
        self._was_registered = False
        owned: dict[tuple[str, int], Shard] = {}
        self._signpost = Signpost(self.view, client_listener=config.has_client_listener)
        self.shards = NodeShards(self.view, owned, "", self._signpost)
        self._owned = owned
        self._producer_ids = PidPool(
            ports.transport, self.view, f"coordinator-{config.node_id}", config.producer_ids_prefetch
        )
        self.drain = CoordinatorDrain(
            ports.metadata,
            self.view,
            ports.clock,
            owned,
            lambda draining: ports.health.set(health.READINESS, not draining, health.NOT_DRAINING),
        )
        register(ports.server, methods.DRAIN_COORDINATOR, self.drain.serve)
        self._metrics = CoordinatorMetrics(ports.metrics, self.bugs)
        self._observer = (
            self._metrics if ports.tracer is None else ShardObservers(self._metrics, ShardTraces(ports.tracer))
        )
        ports.metrics.collect_with(CoordinatorCollector(self._clock, owned, self._producer_ids).collect)
        ports.metrics.collect_with(GroupCollector(owned).collect)
        ports.metrics.collect_with(ChannelCollector(owned).collect)
        self._lag = LagWatch(
            ports.transport,
            self.view,
            self._clock,
            owned,
            config.lag_refresh_ms,
            per_partition=config.metrics_per_partition,
            groups_max=config.metrics_groups_max,
        )
        ports.metrics.collect_with(self._lag.collect)
        tokens = SessionTokens(self.view, required=config.asks_for_session_tokens)
        service = TransactionService(
            self.shards,
            self._producer_ids,
            config.visible_wait_max_ms,
            self._topics,
            self._limits.max_partitions,
            tokens,
            ports.quotas,
        )
        service.register(ports.server)
        enrolling = Enrolling(ports.transport, self.view, config.marker_timeout_ms)
        OffsetService(self.shards, enrolling, tokens).register(ports.server)
        ChannelService(self.shards, enrolling, tokens).register(ports.server)
        self._waits = HeartbeatWaits()
        self._topic_watch = TopicWatch(self.view, owned)
        self._channel_watch = ChannelWatch(self.view, owned)
        GroupService(self.shards, self._waits, self._limits).register(ports.server)

    async def start(self) -> None:
        """Listens and begins to take shards; afterwards `address` is what other processes connect to."""
        await self._ports.server.start()
        addresses = self._config.announced(self._ports.server.listening)
        self.address = self.shards.address = self._signpost.own_address = addresses.internal
        self._ownership = ShardOwnership(
            owner=Owner(addresses, f"{self._ports.random.getrandbits(64):016x}"),
            metadata=self._ports.metadata,
            view=self.view,
            clock=self._clock,
            make_shard=self._make_shard,
            times=LeaseTimes(self._config.lease_ttl_ms, self._config.handover_delay_ms),
            shards=self._owned,
            drain=self.drain,
        )
        self._look_at_health()
        self._keep(partial(self.view.follow, self._ports.metadata), "cluster view")
        if self._ports.security is not None:
            self._ports.security.policy.topic_name = self.view.topic_name
            self._keep(partial(self._ports.security.follow, self._ports.metadata), "access rules")
        elif self._config.has_client_door:
            self._keep(partial(follow_quotas, self._ports.quotas, self._ports.metadata), "quotas")
        self._keep(self._guard.run, "restore guard")
        self._keep(self._tick_for_ever, "ticker")
        if self._config.metrics_port:
            self._keep(self._lag.run, "lag of groups")
        self._ownership_task = self._keep(self._ownership.run, "shard ownership")

    async def stop(self, grace_ms: int) -> None:
        """Hands the shards over one by one (`CoordinatorDrain.leave`), drops the remaining ones, and finishes calls in
        progress.
        """
        await self.drain.leave(grace_ms // 2)
        if self._ownership_task is not None:
            self._ownership_task.cancel()
            await asyncio.gather(self._ownership_task, return_exceptions=True)
        if self._ownership is not None:
            await self._ownership.stop()
        await self._ports.server.stop(grace_ms // 2)
        await self._producer_ids.close()
        await self._tasks.stop()

    def _etcd_was_restored(self) -> None:
        if self._ownership is not None:
            self._ownership.etcd_was_restored()

    @property
    def is_ready(self) -> bool:
        """True when registered, and every shard assigned to this process is owned and serves."""
        settled = self._ownership is not None and self._ownership.settled
        return settled and all(shard.is_serving for shard in self._owned.values())

    def _look_at_health(self) -> None:
        state, registered = self._ports.health, self.address in self.view.coordinators
        self._was_registered = self._was_registered or registered
        state.set(health.STARTUP, self._was_registered, health.RECOVERED)
        state.set(health.READINESS, self.is_ready, health.IN_SYNC)

    def check(self) -> None:
        """Asserts the invariants of the core of every serving shard."""
        for shard in self._owned.values():
            if shard.is_serving:
                shard.life.table.check()

    # ------------------------------------------------------------ parts

    def _make_shard(self, kind: str, number: int) -> Shard:
        assert self._ownership is not None
        return Shard(
            kind=kind,
            number=number,
            config=self._shard_config,
            clock=self._clock,
            parts=LifeParts(
                make_table=self._make_transactions if kind == KIND_TXN else self._make_offsets,
                open_log=self._open_log,
                make_runner=self._make_runner,
                next_epoch=self._ownership.next_epoch,
            ),
            observer=self._observer,
        )

    def _make_transactions(self) -> Table:
        return TransactionTable(self._limits)

    def _make_offsets(self) -> Table:
        return GroupShardTable(self._limits)

    def _open_log(self, kind: str, number: int, epoch: int) -> LogPort:
        return ShardLog(self._ports.transport, self.view, kind, number, epoch, self._shard_config, self._clock)

    def _make_runner(self, shard: Shard, life: ShardLife) -> EffectRunner:
        transport, timeout_ms = self._ports.transport, self._config.marker_timeout_ms
        if shard.kind != KIND_TXN:
            return GroupEffects(
                life, shard.number, transport, self.view, timeout_ms, self._waits, self._metrics.rebalanced
            )
        sender = MarkerSender(
            life,
            shard.number,
            transport,
            self.view,
            self._topics,
            timeout_ms,
            self._marker_observer(),
        )
        return self.shards.follow(life, sender)

    def _marker_observer(self) -> MarkerObserver:
        """Makes the observer of one sender, which remembers what this sender has not finished."""
        times = MarkerTimes(self._metrics)
        return times if self._ports.tracer is None else MarkerObservers(times, MarkerSpans(self._ports.tracer))

    async def _tick_for_ever(self) -> None:
        """Drives all shards from one timer; each shard decides by itself whether something is due."""
        while True:
            await asyncio.sleep(self._config.tick_ms / 1000)
            if self.view.allocators:
                self._producer_ids.prefetch()
            self._look_at_health()
            self._topic_watch.look()
            self._channel_watch.look()
            for shard in list(self._owned.values()):
                shard.look_at_clock()

    def _keep(self, run: Callable[[], Awaitable[None]], name: str) -> asyncio.Task[None]:
        """Starts a loop that the process cannot do without; it is restarted after a fault."""
        return self._tasks.spawn(keep_running(self.bugs, run, name), name)

    def _task_failed(self, error: BaseException) -> None:
        """Records and reports that a task ended by a bug. Other tasks continue."""
        self.failure = error
        self.bugs.met("task", error)
