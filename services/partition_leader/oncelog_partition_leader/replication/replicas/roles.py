"""Gives an open replica the role that etcd names: it leads, follows, or raises an epoch that is behind.

Rule: which role it is, is decided in `core/replication/placement.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from oncelog.errors import OncelogError
from oncelog.types import PartitionId
from oncelog_partition_leader.core.cluster.election import is_guess
from oncelog_partition_leader.core.replication.placement import Role, RoleFacts, ends_leadership, role
from oncelog_partition_leader.log.topic_config import effective
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.epoch_raising import raise_epoch
from oncelog_partition_leader.replication.log_opening import LogOpener
from oncelog_partition_leader.replication.replicas.broker_host import BrokerHost
from oncelog_partition_leader.replication.replicas.local_replicas import LocalReplicas, ReplicationContext
from oncelog_partition_leader.replication.sealing import Sealer
from oncelog_runtime.metadata.cluster_keys import Partition, Topic
from oncelog_runtime.metadata.cluster_view import Versioned

_log = logging.getLogger(__name__)
_RETRY_S: Final = 0.5


class Roles:
    """Gives roles. `apply(partition_id)` looks at a partition again, after a step that waited."""

    def __init__(
        self,
        context: ReplicationContext,
        here: LocalReplicas,
        host: BrokerHost,
        opener: LogOpener,
        sealer: Sealer,
        apply: Callable[[PartitionId], None],
    ) -> None:
        self._metadata = context.ports.metadata
        self._view = context.cluster.view
        self._me = context.cluster.me
        self._tasks = context.tasks
        self._observer = context.observer
        self._defaults = context.defaults
        self._here = here
        self._host = host
        self._opener = opener
        self._sealer = sealer
        self._apply = apply
        self._raising: dict[PartitionId, None] = {}

    def configure(self, partition: LocalPartition, topic: Topic) -> None:
        """Puts the topic's options in force; options that this version does not take leave the old ones."""
        try:
            partition.configure(effective(topic.config, self._defaults))
        except OncelogError as error:
            _log.error("the options of %s are not legal here and not taken: %s", topic.name, error)

    def give(self, partition: LocalPartition, entry: Versioned[Partition]) -> None:
        """Takes the step to the role that `entry` gives this replica."""
        state, me = entry.value, self._me()
        if state.leader == me and partition.isr_seen is not None:
            self._observer.isr_changed(partition.isr_seen, state.isr)
        partition.isr_seen = state.isr
        leadership = partition.leadership
        leads_in = leadership.epoch if leadership is not None else None
        given = role(state, me, RoleFacts(partition.failed is not None, leads_in, partition.exclusive.locked()))
        if given is Role.NONE:
            return
        if me in state.isr and not is_guess(state) and self._opener.owes(partition.id):
            self._tasks.spawn(self._opener.in_sync(partition), "in-sync-again")
        if given is Role.FOLLOW:
            partition.saw_epoch(state.leader_epoch)
            leads_in = partition.leadership.epoch if partition.leadership is not None else None
            if ends_leadership(state, leads_in):
                partition.stop_leading()
        elif given is Role.LEAD_ON and leadership is not None:
            leadership.isr_is(state, entry.mod_revision)
            self._host.isr.look(leadership)
            self._sealer.look(partition)
        elif given is Role.WAIT_TO_LEAD:
            self._tasks.spawn(self._when_free(partition), "wait-to-lead")
        else:
            self._lead(partition, entry)

    async def _when_free(self, partition: LocalPartition) -> None:
        async with partition.exclusive:
            pass
        self._apply(partition.id)

    def _lead(self, partition: LocalPartition, entry: Versioned[Partition]) -> None:
        state = entry.value
        leadership = partition.lead(self._me(), state, entry.mod_revision, partition.topic_config.min_insync_replicas)
        if leadership is None:
            if partition.failed is None and partition.id not in self._raising:
                self._raising[partition.id] = None
                self._tasks.spawn(self._raise_epoch(partition, entry), "raise-epoch")
            return
        _log.info("leading %s-%d in epoch %d", partition.topic, partition.id.partition, state.leader_epoch)
        self._here.led[leadership] = None
        self._observer.leads()
        self._host.replicator.began(leadership)
        self._sealer.look(partition)
        self._here.role_changed(partition.id)

    async def _raise_epoch(self, partition: LocalPartition, entry: Versioned[Partition]) -> None:
        above = max(partition.known_epoch, partition.log.last_epoch, entry.value.leader_epoch)
        if entry.value.leader == self._me():
            await raise_epoch(self._metadata, self._view, self._me(), partition.id, entry, above)
        await asyncio.sleep(_RETRY_S)
        del self._raising[partition.id]
        self._apply(partition.id)
