"""The work on all replicas that is due from time to time: time-outs, ISRs, syncs, retention, and giving way."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from oncelog.errors import StorageError
from oncelog_partition_leader.log.data_dir.leftovers import Leftovers
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.replication.replicas.broker_host import BrokerHost
from oncelog_partition_leader.replication.replicas.local_replicas import LocalReplicas, ReplicationContext
from oncelog_partition_leader.replication.sealing import Sealer
from oncelog_partition_leader.replication.stalled_disk import give_way

_log = logging.getLogger(__name__)
_LEASE_LATE_MS: Final = 500
"""etcd ends leases twice a second."""
_TRIMMED_AT_ONCE: Final = 20


class Upkeep:
    """Does this work; the broker calls each method at its own interval."""

    def __init__(
        self,
        context: ReplicationContext,
        here: LocalReplicas,
        host: BrokerHost,
        sealer: Sealer,
        leftovers: Leftovers,
    ) -> None:
        self._context = context
        self._contacts = context.cluster.contacts
        self._bugs = context.bugs
        self._here = here
        self._host = host
        self._sealer = sealer
        self._leftovers = leftovers
        self._leaves_disk = False
        self._live_before: dict[int, int] = {}

    def tick(self) -> None:
        """Fails the requests that have waited too long, for followers or for the disk."""
        self._context.disk_watch.look()
        self._context.disk_room.look()
        now_ms = self._context.ports.clock.monotonic_ms()
        for leadership in list(self._here.waiting):
            try:
                leadership.expire(now_ms)
            except Exception as error:
                self._bugs.met("task", error, f"time-outs of {leadership.partition}")
            if not leadership.is_waiting:
                self._here.waiting.pop(leadership, None)

    def look_at_isrs(self) -> None:
        """Shrinks and grows ISRs, seals and unseals logs, and starts syncs that are due."""
        self._give_way()
        live = self._context.cluster.view.live()
        for leadership in self._unsettled(live):
            try:
                self._look_at_isr(leadership, live)
            except Exception as error:
                self._bugs.met("task", error, f"the ISR of {leadership.partition}")
        for partition in list(self._here.changed):
            if partition.failed is None and partition.log.failed is not None:
                partition.fail(partition.log.failed)  # found by a read, which could not act on it
            elif partition.failed is None and partition.log.wants_sync:
                partition.sync.request()
                continue  # looked at again, since the sync may fail to store a checkpoint
            del self._here.changed[partition]

    def _unsettled(self, live: dict[int, int]) -> list[Leadership]:
        """Returns the leaderships that need a look (`ReplicaSet`, rule 8)."""
        is_calm = live == self._live_before and not self._contacts.silent(self._context.config.replica_silence_max_ms)
        self._live_before = live
        return [led for led in self._here.led if not (is_calm and led.replicas.is_settled)]

    def _look_at_isr(self, leadership: Leadership, live: dict[int, int]) -> None:
        self._host.isr.look(leadership)
        partition = self._here.leadership_of(leadership)
        if partition is not None:
            self._sealer.look(partition)
        leadership.replicas.settle(live)

    def _give_way(self) -> None:
        """Hands over to members that are silent for longer than a dead one stays registered: this broker is cut off."""
        hand_over = self._host.hand_over
        now_ms = self._context.ports.clock.monotonic_ms()
        alive = self._contacts.silent(self._context.config.session_timeout_ms + _LEASE_LATE_MS)
        isolated = [led for led in self._here.led if led.replicas.must_give_way(now_ms, alive)] if alive else []
        isolated = [led for led in isolated if hand_over.is_due(led.partition)]
        if isolated:
            _log.warning("cut off from the followers of %d partitions: one of them is to lead", len(isolated))
            self._context.tasks.spawn(hand_over.give_away(isolated, leaves=False, to=alive), "give-way")

    async def trim(self) -> None:
        """Applies retention to all partitions, by most brokers' clocks: followers repeat a leader's deletions."""
        for number, partition in enumerate(list(self._here.partitions.values())):
            if number % _TRIMMED_AT_ONCE == 0:
                await asyncio.sleep(0)  # a log with nothing to delete awaits nothing, and there are thousands
            try:
                await partition.trim(self._contacts.cluster_now_ms())
            except StorageError as error:
                if partition.log.failed is not None:
                    partition.fail(error)
                _log.warning("retention of %s: %s", partition.id, error)
            except Exception as error:
                self._bugs.met("task", error, f"retention of {partition.id}")
        await self._leftovers.look()

    # ------------------------------------------------------------ the disk

    def disk_stalled(self, stalled: bool) -> None:
        """Is called when the disk does not answer, and when it answers again: see `stalled_disk`."""
        if stalled and not self._here.closing:
            for partition in self._here.partitions.values():
                partition.sync.stalled()
            if not self._leaves_disk:
                self._leaves_disk = True
                self._context.tasks.spawn(self._leave_disk(), "leave-disk")

    async def _leave_disk(self) -> None:
        here, cluster = self._here, self._context.cluster
        try:
            watch, hand_over = self._context.disk_watch, self._host.hand_over
            await give_way(watch, hand_over, cluster.view, here.partitions, here.led, cluster.me)
        finally:
            self._leaves_disk = False
