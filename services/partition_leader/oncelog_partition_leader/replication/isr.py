"""ISR changes: one compare-and-swap in flight per partition, repeated until its outcome is known.

Rule 1: every write compares the partition key's mod revision, and the registration of each broker that joins.
Rule 2: a lost answer is neither yes nor no: the same write is repeated until the store says which (the larger ISR
        counts meanwhile). It can succeed once at most, since it names the revision that it replaces.
Rule 3: writes of many partitions at the same time go in few transactions (`merged_commits`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from oncelog.errors import OncelogError
from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.election import reshaped
from oncelog_partition_leader.core.replication.replica_set import Isr
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.replication.merged_commits import MergedCommits
from oncelog_runtime.metadata.cluster_keys import Partition, broker_key, partition_key
from oncelog_runtime.metadata.cluster_view import ClusterView, Versioned
from oncelog_runtime.ports import Compare, KeyValue, MetadataStore, Put, WallClock
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_RETRY_S = 0.1
_AT_ONCE = 1_000


class IsrKeeper:
    """Proposes and writes the ISR changes of all partitions led here."""

    def __init__(
        self,
        metadata: MetadataStore,
        view: ClusterView,
        clock: WallClock,
        tasks: TaskOwner,
        silent: Callable[[], Collection[BrokerRef]],
    ) -> None:
        self._metadata = metadata
        self._view = view
        self._clock = clock
        self._tasks = tasks
        self._silent = silent
        self._commits = MergedCommits(metadata, tasks)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def look(self, leadership: Leadership) -> None:
        """Proposes a change if one is due."""
        if leadership.ended is not None or leadership.updating_isr:
            return
        isr = leadership.replicas.proposal(self._clock.monotonic_ms(), self._view.live(), self._silent())
        if isr is None:
            return
        entry = self._view.partitions.get(leadership.partition)
        replicas = leadership.replicas
        if entry is None or entry.mod_revision != replicas.mod_revision:
            return  # the view is ahead or behind: the next look decides
        _log.info("ISR of %s: %s -> %s", leadership.partition, replicas.committed, isr)
        replicas.propose(isr)
        leadership.updating_isr = True
        self._tasks.spawn(self._update(leadership, entry, isr), "isr-update")

    async def _update(self, leadership: Leadership, before: Versioned[Partition], isr: Isr) -> None:
        """Writes a proposal. `before` is the entry that it was made from: the view may have a later one by now."""
        key = partition_key(*leadership.partition)
        value = reshaped(before.value, isr, leadership.replicas.min_insync_replicas).encode()
        compares = [Compare(key, before.mod_revision), self._view.restored_is()]
        compares += [Compare(broker_key(r.broker_id), r.incarnation) for r in isr if r not in before.value.isr]
        try:
            found = await self._settle(leadership, key, value, compares)
        finally:
            leadership.updating_isr = False
        if found is not None:
            self._view.learn([found])
            state = Partition.decode(found.value)
            if state.leader_epoch == leadership.epoch:
                leadership.isr_is(state, found.mod_revision)
        leadership.isr_settled()

    async def _settle(self, leadership: Leadership, key: str, value: bytes, compares: list[Compare]) -> KeyValue | None:
        """Repeats the write until it has happened, or can no longer happen; returns the key as it then is."""
        async with self._slots:
            while leadership.ended is None:
                try:
                    result = await self._commits.commit(compares, Put(key, value))
                    if result.succeeded:
                        return KeyValue(key, value, result.revision)
                    return await self._metadata.get(key)
                except OncelogError as error:
                    _log.warning("ISR update of %s: %s", leadership.partition, error)
                    await asyncio.sleep(_RETRY_S)
        return None
