"""A leader gives a partition away, by the same compare-and-swap as any election: while it drains, or when its disk is full.

Rule 1: who drains stays in the ISR (it goes on as a follower); who has no room left leaves it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from oncelog.errors import OncelogError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.core.election import give_up, hand_over
from oncelog_partition_leader.leadership import Leadership
from oncelog_partition_leader.registration import learned
from oncelog_runtime.cluster import broker_key, partition_key
from oncelog_runtime.cluster_view import ClusterView
from oncelog_runtime.ports import Compare, MetadataStore, Put, WallClock

_log = logging.getLogger(__name__)
_AT_ONCE = 50
_AGAIN_MS = 10_000


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

    async def give_away(self, led: Sequence[Leadership], *, leaves: bool) -> None:
        """Tries once for each. `leaves`: this broker leaves the ISR too."""
        for start in range(0, len(led), _AT_ONCE):
            await asyncio.gather(*(self._give_away(leadership, leaves) for leadership in led[start : start + _AT_ONCE]))

    def is_due(self, partition: PartitionId) -> bool:
        """False when this partition was given away a moment ago: with every disk full it would go round and round."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._last_ms.get(partition, -_AGAIN_MS) < _AGAIN_MS:
            return False
        self._last_ms[partition] = now_ms
        return True

    async def _give_away(self, leadership: Leadership, leaves: bool) -> None:
        entry = self._view.partitions.get(leadership.partition)
        if entry is None:
            return
        decide, min_insync = hand_over if leaves else give_up, self._min_insync_of(entry.value.topic)
        wanted = decide(entry.value, self._me(), self._view.live(), min_insync)
        if wanted is None:
            return
        key = partition_key(*leadership.partition)
        compares = [Compare(key, entry.mod_revision)]
        compares += [Compare(broker_key(ref.broker_id), ref.incarnation) for ref in wanted.isr]
        put = Put(key, wanted.encode())
        try:
            result = await self._metadata.commit(compares, [put])
            if result.succeeded:
                self._view.learn(learned(result.revision, [put]))
            elif (found := await self._metadata.get(key)) is not None:
                self._view.learn([found])
        except OncelogError as error:
            _log.warning("handing over %s: %s", leadership.partition, error)
