"""Takes replicas whose log has failed out of the cluster, and has their logs opened again.

Rule: a log that may have lost records is opened again only after etcd names its replica nowhere any more (hole 3), so that
        other partitions of this broker are not affected; if no other replica can lead it, under a new incarnation. A rotten
        one is set aside, and its replica is not electable until it was in an ISR again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from oncelog.errors import OncelogError
from oncelog.types import BrokerRef
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.handover import HandOver
from oncelog_partition_leader.replication.log_opening import LogOpener
from oncelog_partition_leader.replication.replicas.local_replicas import LocalReplicas, ReplicationContext
from oncelog_partition_leader.replication.replicas.log_keeper import LogKeeper

_log = logging.getLogger(__name__)
_CLAIM_S: Final = 1.0


class FailedLogs:
    """The replicas whose log has failed (`LocalReplicas.failed_under`)."""

    def __init__(
        self,
        context: ReplicationContext,
        here: LocalReplicas,
        hand_over: HandOver,
        opener: LogOpener,
        logs: LogKeeper,
    ) -> None:
        self._me = context.cluster.me
        self._registration = context.cluster.registration
        self._tasks = context.tasks
        self._here = here
        self._hand_over = hand_over
        self._opener = opener
        self._logs = logs

    def failed(self, partition: LocalPartition, error: OncelogError) -> None:
        """Begins to leave the partition, once per failure."""
        _log.error("the log of %s %s failed: %s", partition.topic, partition.id, error)
        if partition.id not in self._here.failed_under and not self._here.closing:
            self._here.failed_under[partition.id] = self._me()
            self._tasks.spawn(self._leave_failed(partition), "leave-failed")

    async def _leave_failed(self, partition: LocalPartition) -> None:
        """Applies the rule. The claim is lowered first: this process may end before etcd is written."""
        here, name = self._here, partition.id
        under = here.failed_under[name]
        try:
            async with asyncio.timeout(_CLAIM_S):
                await self._opener.lower_claim(partition.log.directory, under.incarnation + 1)
        except (OncelogError, TimeoutError) as error:
            _log.warning("what is left of the log of %s cannot be written down: %r", name, error)
        forgotten = under.incarnation > 0 and await self._hand_over.forget(name)
        if here.closing or here.failed_under.get(name) != under:
            return  # opened again under a new incarnation
        if forgotten:
            del here.failed_under[name]
            self._opener.left(name)
            await self._logs.reopen(name)
        else:
            self._registration.renew(
                f"the log of {partition.topic}-{name.partition} failed, and nobody else can lead it"
            )

    def incarnation_is(self, ref: BrokerRef) -> None:
        """Has the logs opened again that failed under an earlier incarnation."""
        for partition_id, under in list(self._here.failed_under.items()):
            if under != ref:
                del self._here.failed_under[partition_id]
                self._tasks.spawn(self._logs.reopen(partition_id), "reopen")
