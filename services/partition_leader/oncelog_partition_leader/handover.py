"""A broker gives partitions away, by the same compare-and-swap as any election: while it drains, or when its disk is full,
stalled, or has lost a log.

Rule 1: who drains stays in the ISR (it goes on as a follower); whose disk takes nothing more leaves it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from oncelog.errors import OncelogError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.core.election import give_up, hand_over
from oncelog_partition_leader.core.leaving import forgotten, without
from oncelog_partition_leader.leadership import Leadership
from oncelog_partition_leader.registration import learned
from oncelog_runtime.cluster import Partition, broker_key, partition_key
from oncelog_runtime.cluster_view import ClusterView, Versioned
from oncelog_runtime.ports import Compare, MetadataStore, Put, WallClock

_log = logging.getLogger(__name__)
_AT_ONCE = 50
_AGAIN_MS = 10_000
_RETRY_S = 0.2
_Decide = Callable[[Partition, BrokerRef, Mapping[int, int], int], Partition | None]


class HandOver:
    """See the module. Nobody is elected who is not in the ISR; alone in it, a leader stays."""

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
        """Tries once for each. `leaves`: this broker leaves the ISR too. `to`: to nobody but these, while it stays."""
        decide: _Decide = hand_over if leaves else partial(give_up, among=to)
        for start in range(0, len(led), _AT_ONCE):
            chunk = led[start : start + _AT_ONCE]
            await asyncio.gather(*(self._change(leadership.partition, decide) for leadership in chunk))

    def is_due(self, partition: PartitionId) -> bool:
        """False when this partition was given away a moment ago: with every disk full it would go round and round."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._last_ms.get(partition, -_AGAIN_MS) < _AGAIN_MS:
            return False
        self._last_ms[partition] = now_ms
        return True

    async def leave(self, partitions: Sequence[PartitionId]) -> None:
        """Tries once for each: this broker is then neither leader nor member of the ISR, unless it is the last."""
        for start in range(0, len(partitions), _AT_ONCE):
            await asyncio.gather(*(self._change(name, without) for name in partitions[start : start + _AT_ONCE]))

    async def forget(self, partition: PartitionId) -> bool:
        """Repeats until nothing counts on this broker's log any more. False: it is the last one, or somebody else by now."""
        me = self._me()
        while self._me() == me:
            try:
                found = await self._metadata.get(partition_key(*partition))
                if found is None:
                    return True
                self._view.learn([found])
                state = Partition.decode(found.value)
                if self._view.is_doubtful(Versioned(state, found.mod_revision)):
                    return False  # from before a restore of etcd: written anew it would be believed
                wanted = forgotten(state, me, self._view.live(), self._min_insync_of(state.topic))
                if wanted is None:
                    return False
                if await self._write(partition, state, found.mod_revision, wanted):
                    return True
            except OncelogError as error:
                _log.warning("leaving %s, whose log failed: %s", partition, error)
            await asyncio.sleep(_RETRY_S)
        return False

    async def _change(self, partition: PartitionId, decide: _Decide) -> None:
        """Writes what is decided about the view's entry, if it is still that, and learns what etcd then holds."""
        entry = self._view.partitions.get(partition)
        if entry is None:
            return
        wanted = decide(entry.value, self._me(), self._view.live(), self._min_insync_of(entry.value.topic))
        if wanted is None:
            return
        try:
            if not await self._write(partition, entry.value, entry.mod_revision, wanted):
                found = await self._metadata.get(partition_key(*partition))
                self._view.learn([] if found is None else [found])
        except OncelogError as error:
            _log.warning("handing over %s: %s", partition, error)

    async def _write(self, partition: PartitionId, before: Partition, mod_revision: int, wanted: Partition) -> bool:
        """True when it is written. Raises `MetadataUnavailableError`."""
        key = partition_key(*partition)
        compares = [Compare(key, mod_revision), self._view.restored_is()]
        if wanted.leader_epoch != before.leader_epoch:  # an election: of the living
            compares += [Compare(broker_key(ref.broker_id), ref.incarnation) for ref in wanted.isr]
        put = Put(key, wanted.encode())
        result = await self._metadata.commit(compares, [put])
        if result.succeeded:
            self._view.learn(learned(result.revision, [put]))
        return result.succeeded
