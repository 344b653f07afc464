"""The broker as its leaderships, replicas and links to followers see it.

Rule: nothing is decided here: an event goes to the part that acts on it. So leaderships and links know none of these parts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from oncelog.errors import OncelogError, StorageError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.core.producers.transactions import TxnSession
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_partition_leader.partition.coordinator_client import Coordinators
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.handover import HandOver
from oncelog_partition_leader.replication.isr import IsrKeeper
from oncelog_partition_leader.replication.leader import Replicator
from oncelog_partition_leader.replication.moved_replicas import MovedReplicas
from oncelog_partition_leader.replication.replicas.local_replicas import LocalReplicas, ReplicationContext

_log = logging.getLogger(__name__)


class ReplicaOwner(Protocol):
    """The part that takes steps for single replicas (`ReplicaManager`)."""

    def apply(self, partition_id: PartitionId) -> None:
        """Gives one partition the state that the view says."""

    def log_failed(self, partition: LocalPartition, error: OncelogError) -> None:
        """Takes a replica out of the ISR, since its log may have lost records."""

    async def lower_claim(self, partition: LocalPartition) -> None:
        """Lowers the claim of a log before it is copied again from its leader. Raises `StorageError`."""


class BrokerHost:
    """Implements the ports `leadership.Host`, `partition.PartitionHost` and `follower_link.LinkHost`, which share most of
    their members: that is why it has some 20 fields. Each passes one event on.
    """

    def __init__(
        self,
        context: ReplicationContext,
        here: LocalReplicas,
        owner: ReplicaOwner,
        coordinators: Coordinators,
        metrics: BrokerMetrics,
        unreachable: Callable[[BrokerRef, OncelogError], None],
        min_insync_of: Callable[[str], int],
    ) -> None:
        ports, cluster, config = context.ports, context.cluster, context.config
        self.view, self.signpost, self.me = cluster.view, cluster.signpost, cluster.me
        self.config = config
        self.clock, self.transport = ports.clock, ports.transport
        self.tasks, self.bugs, self.disk_watch = context.tasks, context.bugs, context.disk_watch
        self.disk_room = context.disk_room
        self.observer = context.observer
        self.tracer = ports.tracer
        self.metrics = metrics
        self.unreachable = unreachable
        self._here = here
        self._owner = owner
        self._coordinators = coordinators
        self._contacts = cluster.contacts
        self.moved = MovedReplicas(config.move_bytes_per_s, ports.clock, self.view)
        self.replicator = Replicator(self, context.tasks)
        self.hand_over = HandOver(ports.metadata, self.view, ports.clock, cluster.me, min_insync_of)
        self.isr = IsrKeeper(ports.metadata, self.view, ports.clock, context.tasks, self._silent)

    def _silent(self) -> Collection[BrokerRef]:
        return self._contacts.silent(self.config.replica_silence_max_ms)

    # ------------------------------------------------------------ of leaderships

    def appended(self, leadership: Leadership) -> None:
        """See `leadership.Host`."""
        self.replicator.appended(leadership)

    def watermark_moved(self, leadership: Leadership) -> None:
        """See `leadership.Host`."""
        self.replicator.watermark_moved(leadership)

    def gone(self, brokers: Iterable[int]) -> Collection[int]:
        """See `leadership.Host`."""
        live = self.view.live()
        return {id_ for id_ in brokers if id_ not in live or self._contacts.is_gone(BrokerRef(id_, live[id_]))}

    def waits(self, leadership: Leadership) -> None:
        """See `leadership.Host`."""
        self._here.waiting[leadership] = None

    def isr_may_change(self, leadership: Leadership) -> None:
        """See `leadership.Host`."""
        self.isr.look(leadership)

    def taken_out(self, leadership: Leadership, broker_id: int) -> None:
        """See `leadership.Host`."""
        self.replicator.restart(leadership, broker_id)

    def enrol(self, leadership: Leadership, session: TxnSession, txn_shard: int, transactional_id: str) -> None:
        """See `leadership.Host`."""
        self._coordinators.enrol_soon(leadership, session, txn_shard, transactional_id)

    def hand_over_full(self, leadership: Leadership) -> None:
        """See `partition.PartitionHost`. A full disk loses nothing, so the log stays and another broker is to write."""
        if self.hand_over.is_due(leadership.partition):
            self.tasks.spawn(self.hand_over.give_away([leadership], leaves=True), "hand-over")

    def hand_over_nearly_full(self, leadership: Leadership) -> None:
        """See `leadership_effects.EffectHost`. It stays in the ISR: markers still find room here."""
        if self.hand_over.is_due(leadership.partition):
            self.tasks.spawn(self.hand_over.give_away([leadership], leaves=False), "hand-over")

    def broken(self, leadership: Leadership) -> None:
        """See `leadership.Host`."""
        partition = self._here.partitions.get(leadership.partition)
        if partition is not None:
            partition.fail(StorageError("the leader's state may contradict its log", reason="bug"))

    # ------------------------------------------------------------ of links and replicas

    def fenced(self, leadership: Leadership, error: OncelogError) -> None:
        """See `follower_link.LinkHost`."""
        self.deposed(leadership, int(error.context["known_epoch"]))

    def deposed(self, leadership: Leadership, epoch: int) -> None:
        """Acts on another process that knows a newer epoch. If etcd still names this broker, it takes a higher one."""
        partition = self._here.leadership_of(leadership)
        if partition is not None:
            _log.info("%s: another process knows epoch %d, newer than ours", leadership.partition, epoch)
            partition.saw_epoch(epoch)
            self._owner.apply(partition.id)

    def leadership_ended(self, leadership: Leadership) -> None:
        """See `partition.PartitionHost`."""
        self.replicator.ended(leadership)
        self._here.led.pop(leadership, None)
        self._here.waiting.pop(leadership, None)
        self._here.role_changed(leadership.partition)

    def log_failed(self, partition: LocalPartition, error: OncelogError) -> None:
        """See `partition.PartitionHost`."""
        self._owner.log_failed(partition, error)

    async def lower_claim(self, partition: LocalPartition) -> None:
        """See `partition.PartitionHost`."""
        await self._owner.lower_claim(partition)
