"""One broker process: makes all its parts, connects them, and starts and stops them in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial

from oncelog.errors import MetadataUnavailableError, NotControllerError, StorageError
from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.broker_contacts import Contacts
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.cluster.controller import Controller
from oncelog_partition_leader.cluster.failure_detector import Peers
from oncelog_partition_leader.cluster.in_sync_watch import InSyncWatch
from oncelog_partition_leader.cluster.liveness_probe import Prober
from oncelog_partition_leader.cluster.registration import Registration
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.capacity import partitions_for
from oncelog_partition_leader.core.log.folders import Folder
from oncelog_partition_leader.log.data_dir.custody import Custody
from oncelog_partition_leader.log.data_dir.forgotten_partitions import forgotten, held_logs
from oncelog_partition_leader.partition.channels.coordinator_calls import ChannelCoordinators
from oncelog_partition_leader.partition.channels.dead_letters import LetterWriter
from oncelog_partition_leader.partition.channels.doubts import Doubts
from oncelog_partition_leader.partition.channels.ephemeral import EphemeralChannels
from oncelog_partition_leader.partition.channels.host import ChannelHost
from oncelog_partition_leader.partition.channels.led_channel import Surroundings
from oncelog_partition_leader.partition.channels.pause_clock import PauseClock
from oncelog_partition_leader.partition.channels.reading.batch_cutting import Unpacked
from oncelog_partition_leader.partition.compactor import Compactor
from oncelog_partition_leader.partition.coordinator_client import Coordinators
from oncelog_partition_leader.partition.delays.delay_host import DelayHost
from oncelog_partition_leader.partition.delays.scheduler_run import DelaySurroundings
from oncelog_partition_leader.partition.delays.troubles import Troubles
from oncelog_partition_leader.partition.disk_confirmation import DiskConfirmation
from oncelog_partition_leader.partition.hanging_transactions import Healer
from oncelog_partition_leader.partition.scrubber import Scrubber
from oncelog_partition_leader.replication.drainer import Drainer
from oncelog_partition_leader.replication.follower import Follower
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_partition_leader.rpc.admin_service import AdminService
from oncelog_partition_leader.rpc.broker_collector import BrokerCollector
from oncelog_partition_leader.rpc.channels.channel_admin_service import ChannelAdminService
from oncelog_partition_leader.rpc.channels.channel_collector import ChannelCollector
from oncelog_partition_leader.rpc.channels.channel_inspection import ChannelInspection
from oncelog_partition_leader.rpc.channels.channel_service import ChannelService
from oncelog_partition_leader.rpc.channels.delay_collector import DelayCollector
from oncelog_partition_leader.rpc.channels.delay_service import DelayService
from oncelog_partition_leader.rpc.coordinator_signpost import CoordinatorSignpost
from oncelog_partition_leader.rpc.fetch import Reader
from oncelog_partition_leader.rpc.get_metadata import MetadataService
from oncelog_partition_leader.rpc.operations_service import OperationsService
from oncelog_partition_leader.rpc.produce.payload_checks import PayloadChecks
from oncelog_partition_leader.rpc.produce.produce_service import ProduceService
from oncelog_partition_leader.rpc.quota_service import QuotaService
from oncelog_partition_leader.rpc.records_service import RecordsService
from oncelog_partition_leader.rpc.replica_service import ReplicaService
from oncelog_partition_leader.rpc.security_service import SecurityService
from oncelog_partition_leader.rpc.transaction_service import TransactionService
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.metadata.restore_guard import RestoreGuard
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.observability import health
from oncelog_runtime.ports import KeyValue
from oncelog_runtime.process.bugs import Bugs, keep_running
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.security.quota_watch import follow_quotas
from oncelog_runtime.serving.once import Once
from oncelog_runtime.serving.session_tokens import SessionTokens
from oncelog_runtime.serving.signpost import Signpost

_log = logging.getLogger(__name__)
_START_TIMEOUT_S = 60.0
_CLAIM_RETRY_S = 1.0
_TRIES_PER_WARNING = 5


class Broker:
    """One broker process. `start` returns when it is registered; `stop` hands its leaderships over first.

    Its fields are the parts of the process, which is why there are some 25.
    """

    def __init__(self, config: BrokerConfig, ports: NodePorts) -> None:
        self.config = config
        self.ports = ports
        self.view = ClusterView()
        self.bugs = Bugs(ports.metrics, ports.clock)
        self.tasks = TaskOwner(self._failed)
        self.view.on_fault = lambda error: self.bugs.met("task", error, "a change in etcd")
        self.registration = Registration(
            ports.metadata,
            self.view,
            ports.random,
            broker_id=config.broker_id,
            ttl_ms=config.session_timeout_ms,
            on_incarnation=self._incarnation_is,
            on_replaced=self._replaced,
        )
        self.contacts = Contacts(config, self.view, ports.clock)
        prober = Prober(ports.transport, self.view, self.contacts, config.probe_timeout_ms)
        self.custody = Custody(ports.disk, config.log_dir, ports.random)
        tokens = SessionTokens(self.view, required=config.asks_for_session_tokens)
        self.coordinators = Coordinators(
            ports.transport, self.view, self.tasks, config.coordinator_timeout_ms, self.bugs, tokens
        )
        signpost = Signpost(self.view, client_listener=config.has_client_listener, broker_id=config.broker_id)
        cluster = ClusterContext(self.view, self.registration, self.contacts, signpost)
        self.controller = Controller(config, ports, cluster, prober, self.tasks, forgotten=self._contradicted)
        self.peers = Peers(
            config, ports.transport, self.view, self.controller, self.contacts, prober, self.tasks, self.me
        )
        self.replicas = ReplicaManager(
            config,
            ports,
            cluster,
            self.coordinators,
            self.custody,
            self.tasks,
            unreachable=self.peers.unreachable,
            bugs=self.bugs,
        )
        self.scrubber = Scrubber(config, ports.clock, ports.random, self.replicas.partitions)
        self.compactor = Compactor(
            config, self.contacts.cluster_now_ms, self.replicas.partitions, self.bugs, ports.helpers
        )
        self.drainer = Drainer(
            ports.metadata,
            self.view,
            ports.clock,
            self.tasks,
            self.replicas,
            me=self.me,
            resign=self.controller.resign,
            draining_is=lambda draining: ports.health.set(health.READINESS, not draining, health.NOT_DRAINING),
        )
        replicas = self.replicas
        follower = Follower(
            replicas.partitions, self.me, self.tasks, self.bugs, replicas.disk_watch, replicas.disk_room
        )
        self.healer = Healer(self.replicas.partitions, self.coordinators, config, ports.clock, self.bugs)
        observer = self.replicas.observer
        checks = PayloadChecks(config.check_inline_bytes, ports.threads, self.tasks, self.bugs)
        self.producing = ProduceService(config, ports.clock, self.view, self.replicas, tokens, checks)
        self.producing.register(ports.server)
        reader = Reader(config, ports.clock, self.replicas, observer)
        reader.register(ports.server)
        disks = DiskConfirmation(ports.transport, self.view, self.me, self.tasks, config.coordinator_timeout_ms // 3)
        TransactionService(config, ports.clock, self.replicas, self.coordinators, disks).register(ports.server)
        MetadataService(config, self.view).register(ports.server)
        once = Once(lambda: NotControllerError("the call was meant for another term of the controller"))
        AdminService(config, self.view, self.replicas, self.controller, ports.transport, once, ports.clock).register(
            ports.server
        )
        ChannelAdminService(self.view, self.controller, ports.transport, once).register(ports.server)
        self.records = RecordsService(
            config, ports.clock, ports.transport, self.view, self.producing, reader, ports.disk
        )
        self.records.register(ports.server)
        self.delays = self._make_delays()
        OperationsService(self.view, self.drainer, self.controller, self.me, once).register(ports.server)
        SecurityService(
            ports.metadata, self.view, self.controller, ports.security, once, ports.random, config.super_users
        ).register(ports.server)
        CoordinatorSignpost(self.view, signpost).register(ports.server)
        QuotaService(ports.metadata, self.view, self.controller, ports.security, once).register(ports.server)
        self.channels = self._make_channels()
        self.guard = RestoreGuard(
            ports.metadata,
            self.view,
            disk=ports.disk,
            beats=lambda: self.controller.is_controller,
            before_restart=self._etcd_was_restored,
            forgets=self._forgotten,
        )
        ReplicaService(ports.clock, cluster, self.replicas, follower, self.controller, observer, self.guard).register(
            ports.server
        )
        self._joins = asyncio.Event()
        self._registered = asyncio.Event()
        self._recovered = False
        self._in_sync = InSyncWatch(self.view, self.me)
        self._held: Mapping[Folder, int] = {}
        collector = BrokerCollector(
            config, ports.clock, ports.disk, self.view, self.replicas, self.controller, self.compactor
        )
        ports.metrics.collect_with(collector.collect)

    def _make_delays(self) -> DelayHost:
        ports, now_ms, troubles = self.ports, self.contacts.cluster_now_ms, Troubles()
        defaults = self.replicas.defaults
        around = DelaySurroundings(
            ports.transport, self.view, ports.clock, now_ms, ports.disk, ports.random, defaults, troubles
        )
        host = DelayHost(self.replicas.partitions, around, self.tasks, self.bugs)
        ports.metrics.collect_with(DelayCollector(host, troubles, now_ms).collect)
        self.replicas.on_role(host.role_changed)
        DelayService(self.replicas, host).register(ports.server)
        return host

    def _make_channels(self) -> ChannelHost:
        config, ports, view = self.config, self.ports, self.view
        timeout_ms = config.coordinator_timeout_ms
        unpacked = Unpacked(ports.disk)
        around = Surroundings(
            PauseClock(ports.clock, self.contacts.cluster_now_ms),
            self.tasks,
            self.bugs,
            ChannelCoordinators(ports.transport, view, timeout_ms),
            unpacked,
            LetterWriter(ports.transport, view, ports.clock, unpacked, timeout_ms),
            Doubts(ports.clock, config.harmless_pause_ms, self._may_be_replaced),
        )
        ephemeral = EphemeralChannels(ports.transport, view, around)
        host = ChannelHost(view, self.replicas.partitions, around, ephemeral)
        host.deposed = self.replicas.deposed
        self.replicas.on_role(host.role_changed)
        service = ChannelService(config, view, self.replicas, host)
        service.register(ports.server)
        ChannelInspection(config, service, host).register(ports.server)
        ports.metrics.collect_with(ChannelCollector(host).collect)
        return host

    def _may_be_replaced(self) -> bool:
        """Whether the others may have given this broker up: they do not reach it, or its registration may have run out."""
        config = self.config
        return (
            self.contacts.may_be_given_up(config.cut_off_after_ms)
            or self.registration.unrenewed_ms() > config.session_timeout_ms * 4 // 5
        )

    def me(self) -> BrokerRef:
        """This process's incarnation; 0 = not registered yet."""
        return self.registration.ref

    async def start(self) -> None:
        """Listens, follows etcd, registers. Raises `MetadataUnavailableError` when it cannot register in time."""
        await self.ports.server.start()
        await self._take_over_directory()
        self.registration.announce(
            self.config.announced(self.ports.server.listening),
            self.config.rack,
            self.custody.directory_id,
            partitions_for(self.ports.descriptors, self.config.partitions_per_broker_max),
        )
        self._keep(partial(self.view.follow, self.ports.metadata), "follow-etcd")
        if self.ports.security is not None:
            self.ports.security.policy.topic_name = self.view.topic_name
            self._keep(partial(self.ports.security.follow, self.ports.metadata), "access-rules")
        elif self.config.has_client_door:
            self._keep(partial(follow_quotas, self.ports.quotas, self.ports.metadata), "quotas")
        self._keep(self._join, "registration")
        self._keep(self._guard, "restore-guard")
        self._keep(self.controller.run, "controller")
        self._keep(self.healer.run, "healer")
        self._keep(self._tick, "tick")
        self._keep(self._keep_house, "housekeeping")
        self._keep(self._retain, "retention")
        self._keep(self.scrubber.run, "scrub")
        self._keep(self.compactor.run, "compaction")
        self._look_at_health()
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await self._registered.wait()
        except TimeoutError:
            raise MetadataUnavailableError("the broker could not be registered in etcd") from None

    async def _take_over_directory(self) -> None:
        """Waits while the disk is full: who starts this process again could do no more. Raises `StorageError` for all else."""
        tries = 0
        while True:
            try:
                await self.replicas.prepare()
                self._held = held_logs(self.ports.disk, self.config.log_dir)
                return await self.custody.open()
            except StorageError as error:
                if error.context.get("reason") != "full":
                    raise
                if tries % _TRIES_PER_WARNING == 0:
                    _log.warning("the data directory cannot be taken over before there is room: %s", error)
            tries += 1
            await asyncio.sleep(_CLAIM_RETRY_S)

    async def _join(self) -> None:
        """Registers once it is known whether etcd was restored from a backup while this broker was down."""
        await self.guard.begin()
        self._joins.set()
        await self.registration.run()

    async def _guard(self) -> None:
        await self._joins.wait()
        await self.guard.run()

    async def stop(self, grace_ms: int) -> None:
        """Drains, leaves the cluster, finishes running requests, closes every log cleanly. See `Drainer.leave`."""
        await self.drainer.leave(grace_ms * 3 // 4)
        self.producing.draining = True
        await self.registration.withdraw()
        await self.ports.server.stop(grace_ms // 4)
        await self.tasks.stop()
        await self.replicas.close(clean=True)

    # ------------------------------------------------------------ what happens to it

    def _incarnation_is(self, ref: BrokerRef) -> None:
        if self.custody.adopted(ref.incarnation):
            self.tasks.spawn(self._store_claim(), "store-claim")
        self.replicas.incarnation_is(ref)
        self.drainer.look()
        self._registered.set()

    async def _store_claim(self) -> None:
        """Tries until it is written: if the file does not name this incarnation, the next process takes the directory for an
        older image of the disk.
        """
        tries = 0
        while True:
            try:
                return await self.custody.store()
            except StorageError as error:
                if tries % _TRIES_PER_WARNING == 0:
                    _log.warning("the claim of the data directory cannot be written yet, it says less: %s", error)
            tries += 1
            await asyncio.sleep(_CLAIM_RETRY_S)

    def _forgotten(self, items: Sequence[KeyValue], away_ms: float) -> Iterator[str]:
        return forgotten(self._held, items, away_ms, self.config.deleted_topics_retention_ms)

    def _contradicted(self, what: str) -> None:
        self.guard.contradicted(what)

    def _etcd_was_restored(self) -> None:
        self.registration.begin_anew()
        self.replicas.etcd_was_restored()

    def _replaced(self) -> None:
        """Stops taking part, since another process is registered under this broker's id."""
        _log.critical(
            "another process is registered as broker %d; this one takes no part any more", self.config.node_id
        )
        self.producing.draining = True
        self.registration.retire()
        self.replicas.incarnation_is(self.registration.ref)
        self.ports.health.failed()

    def _keep(self, run: Callable[[], Awaitable[None]], name: str) -> None:
        """Starts a loop that the broker cannot do without: after a bug it is started again."""
        self.tasks.spawn(keep_running(self.bugs, run, name), name)

    def _failed(self, error: BaseException) -> None:
        """Reports a task that ended by a bug; it has released its resources. Everything else continues."""
        self.bugs.met("task", error)

    # ------------------------------------------------------------ housekeeping

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.config.tick_ms / 1000)
            self.contacts.tick()
            self.controller.look_at_role()
            self.replicas.upkeep.tick()

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(self.config.isr_check_interval_ms / 1000)
            self.replicas.upkeep.look_at_isrs()
            self._look_at_health()

    def _look_at_health(self) -> None:
        """Sets the health: started when the logs are recovered, ready when this incarnation is in all ISRs of its replicas."""
        state, me = self.ports.health, self.me()
        listed = self.view.revision > 0 and me.incarnation > 0
        self._recovered = self._recovered or (listed and self.replicas.recovered)
        state.set(health.STARTUP, self._recovered, health.RECOVERED)
        state.set(health.READINESS, not self.replicas.disk_watch.stalled, health.DISK_ANSWERS)
        state.set(health.READINESS, listed and self._in_sync.is_in_sync(), health.IN_SYNC)

    async def _retain(self) -> None:
        while True:
            await asyncio.sleep(self.config.retention_interval_ms / 1000)
            await self.replicas.upkeep.trim()
