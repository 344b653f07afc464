"""All partitions of this broker: opens and closes their logs, and gives each the role that etcd names.

Theory of operation: the view of etcd calls `_saw` with each changed key; `apply` compares a partition's value with the replica
here and starts the missing step: open, lead, follow, close, or remove (`core/replication/placement.py`). It may be called at
any time, since it looks only at the present values. Steps that await run as tasks, one per partition, and end with another
`apply`. The parts are in `replicas/`: `log_keeper` and `failed_logs` for the logs, `roles` for leading and following,
`broker_host` for what leaderships and links ask for, `upkeep` for the rest.
What can go wrong: this process takes a role that etcd gave to an earlier one (rule 1); a failed disk loses records that the ISR
counts on (rule 2, hole 3); an outdated view, or a restored etcd, has a needed log deleted (rule 3, hole 27).

Rule 1: a process acts only on entries that name its own incarnation (hole 2). With a new incarnation every leadership
        of the old one ends at once.
Rule 2: a log that may have lost records is opened again only after etcd names its replica nowhere any more (`failed_logs`).
Rule 3: a log is removed only when etcd says so, and then it goes to the trash (`log_keeper`).
Rule 4: a handler only looks a partition up and waits; the state changes only here and in the partition itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from oncelog.errors import NotLeaderError, OncelogError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.election import holders
from oncelog_partition_leader.core.log.disk_levels import Thresholds
from oncelog_partition_leader.core.replication.placement import Placement, PlacementFacts, placement
from oncelog_partition_leader.core.replication.replica_state import ReplicaState
from oncelog_partition_leader.log.data_dir.custody import Custody
from oncelog_partition_leader.log.data_dir.disk_room import DiskRoom
from oncelog_partition_leader.log.data_dir.disk_watch import DiskWatch
from oncelog_partition_leader.log.data_dir.leftovers import Leftovers
from oncelog_partition_leader.log.data_dir.replica_deletion import sweep
from oncelog_partition_leader.log.data_dir.trash import Trash
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.tail_cache import TailMemory
from oncelog_partition_leader.log.topic_config import TopicConfig, min_insync_of
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_partition_leader.partition.coordinator_client import Coordinators
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.log_opening import LogOpener
from oncelog_partition_leader.replication.observe.metrics_observer import MetricsObserver
from oncelog_partition_leader.replication.observe.trace_observer import observed_by
from oncelog_partition_leader.replication.replicas.broker_host import BrokerHost
from oncelog_partition_leader.replication.replicas.failed_logs import FailedLogs
from oncelog_partition_leader.replication.replicas.follower_reads import FollowerReads
from oncelog_partition_leader.replication.replicas.local_replicas import LocalReplicas, ReplicationContext
from oncelog_partition_leader.replication.replicas.log_keeper import LogKeeper
from oncelog_partition_leader.replication.replicas.roles import Roles
from oncelog_partition_leader.replication.replicas.upkeep import Upkeep
from oncelog_partition_leader.replication.sealing import Sealer
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_view import partition_of
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)


class ReplicaManager:
    """Owns every local partition. Its fields are its parts and the states that handlers and operators' services look at,
    which is why there are some 20.
    """

    def __init__(
        self,
        config: BrokerConfig,
        ports: NodePorts,
        cluster: ClusterContext,
        coordinators: Coordinators,
        custody: Custody,
        tasks: TaskOwner,
        *,
        unreachable: Callable[[BrokerRef, OncelogError], None],
        bugs: Bugs,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._view = cluster.view
        self._disk = ports.disk
        self._tasks = tasks
        self._custody = custody
        self._looking = False
        self.bugs = bugs
        self.defaults = TopicConfig(
            min_insync_replicas=config.min_insync_replicas,
            log=LogConfig(max_message_bytes=config.message_max_bytes, tail_cache_bytes=config.tail_cache_bytes),
        )
        self.metrics = BrokerMetrics(ports.metrics)
        self.observer = observed_by(ports.tracer, MetricsObserver(self.metrics))
        self.disk_watch = DiskWatch(ports.clock, config.disk_stall_max_ms, self._disk_stalled)
        self.disk_room = DiskRoom(
            ports.disk, ports.clock, Thresholds(config.disk_low_bytes, config.disk_reserved_bytes)
        )
        context = ReplicationContext(
            config, ports, cluster, tasks, bugs, self.observer, self.disk_watch, self.disk_room, self.defaults
        )
        self._here = here = LocalReplicas()
        self.partitions, self.led, self.unopened = here.partitions, here.led, here.unopened
        self._host = BrokerHost(context, here, self, coordinators, self.metrics, unreachable, self.min_insync_of)
        self.hand_over = self._host.hand_over
        self.deposed = self._host.deposed
        self.follower_reads = FollowerReads(cluster)
        self.trash = Trash(ports.disk, config.log_dir, config.trash_retention_ms)
        now_ms = cluster.contacts.cluster_now_ms
        self.leftovers = Leftovers(
            ports.disk, config.log_dir, self.trash, ports.metadata, self._view, ports.clock, now_ms, here.is_used
        )
        self._opener = LogOpener(
            ports.disk,
            config.log_dir,
            self.trash,
            ports.clock,
            custody,
            lambda: self._newest_incarnation,
            TailMemory(config.tail_memory_bytes),
        )
        sealer = Sealer(ports.disk, self.disk_watch, tasks)
        self._logs = LogKeeper(context, here, self._host, self._opener, self.leftovers, self.apply)
        self._failed = FailedLogs(context, here, self.hand_over, self._opener, self._logs)
        self._roles = Roles(context, here, self._host, self._opener, sealer, self.apply)
        self.upkeep = Upkeep(context, here, self._host, sealer, self.leftovers)
        self._view.listen(self._saw)

    def on_role(self, role_changed: Callable[[PartitionId], None]) -> None:
        """Has this called when the leadership of a partition has begun or ended here."""
        self._here.role_listeners.append(role_changed)

    # ------------------------------------------------------------ following etcd

    def incarnation_is(self, ref: BrokerRef) -> None:
        """Takes over a new incarnation: roles that etcd gave to the old one end."""
        for partition in list(self.partitions.values()):
            partition.stop_leading()
        self._opener.registered()
        self._failed.incarnation_is(ref)
        for partition_id in list(self.partitions):
            self.apply(partition_id)

    def etcd_was_restored(self) -> None:
        """Steps down everywhere: all roles were given by etcd as it was before the restore."""
        for partition in self.partitions.values():
            partition.etcd_was_restored()

    def _saw(self, keys: list[str]) -> None:
        if not self._looking and self._view.revision:
            self._looking = True  # the first listing: a topic may have been deleted while this broker was down
            self._tasks.spawn(self.leftovers.look(), "leftovers")
        for key in keys:
            if key.startswith(cluster_keys.PARTITIONS):
                self.apply(partition_of(key))
            elif key.startswith(cluster_keys.TOPICS):
                self._topic_changed(key.removeprefix(cluster_keys.TOPICS))
            elif key.startswith(cluster_keys.BROKERS):
                broker_id = int(key.removeprefix(cluster_keys.BROKERS))
                entry = self._view.brokers.get(broker_id)
                if entry is not None:
                    self._host.replicator.incarnation_is(BrokerRef(broker_id, entry.mod_revision))

    def _topic_changed(self, name: str) -> None:
        entry = self._view.topics.get(name)
        if entry is None:
            return
        topic = entry.value
        for number in range(topic.partitions):
            self.apply(PartitionId(topic.topic_id, number))

    def apply(self, partition_id: PartitionId) -> None:
        """Gives one partition the state that the view says."""
        here = self._here
        if here.closing:
            return
        entry = self._view.partitions.get(partition_id)
        topic = self._view.topic_by_id(partition_id.topic_id)
        partition = here.partitions.get(partition_id)
        is_mine = entry is not None and self._config.broker_id in entry.value.replicas
        is_open, is_busy = partition is not None, partition_id in here.busy
        step = placement(PlacementFacts(entry is not None, is_mine, topic is not None, is_open, is_busy))
        if step is Placement.OPEN:
            self._logs.open(partition_id)
        elif step is Placement.CLOSE and partition is not None:
            self._logs.close_without_topic(partition)
        elif step is Placement.LEAVE and entry is not None:
            if partition is not None:
                partition.saw_epoch(entry.value.leader_epoch)
            self._logs.remove(partition_id, entry.value.topic)
        elif step is Placement.SERVE and partition is not None and topic is not None and entry is not None:
            self._roles.configure(partition, topic)
            self._roles.give(partition, entry)

    # ------------------------------------------------------------ logs

    async def prepare(self) -> None:
        """Prepares the folder of logs, before any is opened. Raises `StorageError`."""
        self._disk.make_dirs(self._config.log_dir)
        sweep(self._disk, self._config.log_dir)
        await self._disk.sync_dir("")  # else a power cut could take every log with the folder's name

    def directory_of(self, topic: str, partition_id: PartitionId) -> str:
        """Returns the directory of a partition's log."""
        return self._opener.directory_of(topic, partition_id)

    def log_failed(self, partition: LocalPartition, error: OncelogError) -> None:
        """Takes a replica out of the ISR, since its log may have lost records."""
        self._failed.failed(partition, error)

    async def lower_claim(self, partition: LocalPartition) -> None:
        """Lowers the claim of a log before it is copied again from its leader. Raises `StorageError`."""
        await self._opener.will_be_reset(partition)

    def _disk_stalled(self, stalled: bool) -> None:
        self.upkeep.disk_stalled(stalled)

    @property
    def _newest_incarnation(self) -> int:
        """This process's incarnation, or, before it has one, the lowest that it can get."""
        return self._cluster.me().incarnation or self._view.revision + 1

    async def close(self, *, clean: bool) -> None:
        """Closes every log."""
        if await self._logs.close_all(clean=clean):
            try:
                await self._custody.close()
            except OncelogError as error:
                _log.warning("that all logs are whole cannot be written down: %s", error)

    # ------------------------------------------------------------ asked by handlers

    def find(self, partition_id: PartitionId) -> LocalPartition:
        """Returns a local partition. Raises `NotLeaderError` when it is not here, or as `require_leader` does."""
        partition = self.partitions.get(partition_id)
        if partition is None:
            self._view.require_leader(partition_id)
            raise NotLeaderError(
                "this broker does not lead the partition",
                partition=partition_id.partition,
                go_to=self._cluster.signpost.leader(partition_id),
            )
        return partition

    def status(self, partition_id: PartitionId) -> ReplicaState:
        """Returns the end of a log, and its claims. Raises `StorageError`."""
        entry, broker_id = self._view.partitions.get(partition_id), self._config.broker_id
        named = [] if entry is None else [ref for ref in holders(entry.value) if ref.broker_id == broker_id]
        partition = self._logs.require_open(partition_id)
        return self._opener.status(partition, max((ref.incarnation for ref in named), default=0))

    def min_insync_of(self, topic: str) -> int:
        """Returns `min_insync_replicas` of a topic by name."""
        return min_insync_of(self._view, topic, self.defaults)

    @property
    def recovered(self) -> bool:
        """True when every replica that etcd gives this broker is open, or was tried once; False before the first listing."""
        if not self._view.revision:
            return False
        mine = (p for p, entry in self._view.partitions.items() if self._config.broker_id in entry.value.replicas)
        known = self._view.topic_names
        return all(p in self.partitions or p in self.unopened or p.topic_id not in known for p in mine)
