"""Gives partitions of this broker away, by the same compare-and-swap as any election: while it drains, or when its disk is
full, stalled, or has lost a log.

Rule 1: partitions given away together are written together: that stops writes for one commit, not for one per partition.
        When one of them has changed meanwhile, each is tried by itself. Partitions of users come first: producers wait.
Rule 2: a draining broker stays in the ISR as a follower; a broker whose disk takes no more writes leaves it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from oncelog.errors import OncelogError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.cluster.registration import learned
from oncelog_partition_leader.core.cluster.election import give_up, hand_over
from oncelog_partition_leader.core.cluster.leaving import forgotten, without
from oncelog_partition_leader.core.cluster.proposals import Proposal, chunks
from oncelog_partition_leader.core.replication.replica_set import Isr
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, Partition, broker_key, partition_key
from oncelog_runtime.metadata.cluster_view import ClusterView, Versioned
from oncelog_runtime.ports import Compare, MetadataStore, Put, WallClock

_log = logging.getLogger(__name__)
_AT_ONCE = 50
_AGAIN_MS = 10_000
_RETRY_S = 0.2
_Decide = Callable[[Partition, BrokerRef, Mapping[int, int], int], Partition | None]


class HandOver:
    """Hands partitions over. Only members of the ISR are elected; a leader that is the only member stays."""

    def __init__(
        self,
        metadata: MetadataStore,
        view: ClusterView,
        clock: WallClock,
        me: Callable[[], BrokerRef],
        min_insync_of: Callable[[str], int],
    ) -> None:
        self._metadata = metadata
        self._view = view
        self._clock = clock
        self._me = me
        self._min_insync_of = min_insync_of
        self._last_ms: dict[PartitionId, int] = {}

    async def give_away(
        self, led: Sequence[Leadership], *, leaves: bool, to: Collection[BrokerRef] | None = None
    ) -> None:
        """Tries once for each. `leaves`: this broker leaves the ISR too. `to`: the only new leaders allowed, if it stays."""
        decide: _Decide = hand_over if leaves else partial(give_up, among=to)
        await self._change_all([leadership.partition for leadership in led], decide)

    def is_due(self, partition: PartitionId) -> bool:
        """Returns False when this partition was given away a moment ago: with every disk full it would go round in circles."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._last_ms.get(partition, -_AGAIN_MS) < _AGAIN_MS:
            return False
        self._last_ms[partition] = now_ms
        return True

    async def leave(self, partitions: Sequence[PartitionId]) -> None:
        """Tries once for each: this broker gives up leadership and ISR membership, unless it is the last member."""
        await self._change_all(partitions, without)

    async def forget(self, partition: PartitionId) -> bool:
        """Repeats until etcd no longer names this broker's log.

        False: it is the last replica, its value is older than a restore of etcd, or this broker has a new incarnation.
        """
        me = self._me()
        while self._me() == me:
            try:
                found = await self._metadata.get(partition_key(*partition))
                if found is None:
                    return True
                self._view.learn([found])
                state = Partition.decode(found.value)
                if self._view.is_doubtful(Versioned(state, found.mod_revision)):
                    return False  # from before a restore of etcd: written again it would be believed
                wanted = forgotten(state, me, self._view.live(), self._min_insync_of(state.topic))
                if wanted is None:
                    return False
                if await self._write([(partition, found.mod_revision, wanted)]):
                    return True
            except OncelogError as error:
                _log.warning("leaving %s, whose log failed: %s", partition, error)
            await asyncio.sleep(_RETRY_S)
        return False

    async def _change_all(self, partitions: Sequence[PartitionId], decide: _Decide) -> None:
        """Writes the decisions about the view's entries, where etcd still holds these entries."""
        decided = [self._decided(partition, decide) for partition in partitions]
        proposals = [proposal for proposal in decided if proposal is not None]
        for is_internal in (False, True):
            for chunk in chunks([one for one in proposals if (one[2].topic in INTERNAL_TOPICS) is is_internal]):
                if len(chunk) == 1 or not await self._change_together(chunk):
                    await self._change_each(chunk)

    async def _change_together(self, chunk: Sequence[Proposal]) -> bool:
        try:
            return await self._write(chunk)
        except OncelogError as error:
            _log.warning("handing over %d partitions: %s", len(chunk), error)
            return False

    async def _change_each(self, proposals: Sequence[Proposal]) -> None:
        for start in range(0, len(proposals), _AT_ONCE):
            await asyncio.gather(*(self._change(*proposal) for proposal in proposals[start : start + _AT_ONCE]))

    def _decided(self, partition: PartitionId, decide: _Decide) -> Proposal | None:
        entry = self._view.partitions.get(partition)
        if entry is None:
            return None
        wanted = decide(entry.value, self._me(), self._view.live(), self._min_insync_of(entry.value.topic))
        return None if wanted is None else (partition, entry.mod_revision, wanted)

    async def _change(self, partition: PartitionId, mod_revision: int, wanted: Partition) -> None:
        """Writes one partition by itself; updates the view with the value that etcd then holds."""
        try:
            if not await self._write([(partition, mod_revision, wanted)]):
                found = await self._metadata.get(partition_key(*partition))
                self._view.learn([] if found is None else [found])
        except OncelogError as error:
            _log.warning("handing over %s: %s", partition, error)

    async def _write(self, proposals: Sequence[Proposal]) -> bool:
        """Writes proposals in one commit; True when it succeeded. Raises `MetadataUnavailableError`."""
        compares = [Compare(partition_key(*partition), mod_revision) for partition, mod_revision, _ in proposals]
        compares.append(self._view.restored_is())
        elected = dict.fromkeys(ref for partition, _, wanted in proposals for ref in self._elects(partition, wanted))
        compares += [Compare(broker_key(ref.broker_id), ref.incarnation) for ref in elected]
        puts = [Put(partition_key(*partition), wanted.encode()) for partition, _, wanted in proposals]
        result = await self._metadata.commit(compares, puts)
        if result.succeeded:
            self._view.learn(learned(result.revision, puts))
        return result.succeeded

    def _elects(self, partition: PartitionId, wanted: Partition) -> Isr:
        """Returns the brokers that must be registered: the new ISR if the write is an election."""
        entry = self._view.partitions.get(partition)
        return () if entry is not None and entry.value.leader_epoch == wanted.leader_epoch else wanted.isr
