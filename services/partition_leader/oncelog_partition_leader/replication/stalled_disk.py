"""Lets other brokers lead and acknowledge while this broker's disk is stalled, until the disk answers again.

Rule 1: the broker leaves partitions that acknowledge synced records (`flush_mode=fsync`), as leader and as member of the
        ISR: no write of theirs could be acknowledged meanwhile. Of the others it gives the leaderships away, and stays in
        their ISRs: their acknowledgements never waited for this disk.
Rule 2: nothing is claimed about unsynced records. The sync that does not end continues; when it ends, the broker follows
        the new leaders and joins their ISRs as every follower does. A restart meanwhile is an unclean one.
Rule 3: where no other replica can lead it stays leader, and refuses requests that it could not acknowledge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.core.cluster.leaving import is_named
from oncelog_partition_leader.log.data_dir.disk_watch import DiskWatch
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.handover import HandOver
from oncelog_runtime.metadata.cluster_view import ClusterView

_AGAIN_S = 0.25


async def give_way(
    watch: DiskWatch,
    hand_over: HandOver,
    view: ClusterView,
    partitions: Mapping[PartitionId, LocalPartition],
    led: Mapping[Leadership, None],
    me: Callable[[], BrokerRef],
) -> None:
    """Gives away the leaderships of `me`, and leaves the ISRs of rule 1; returns when the disk answers again."""
    while watch.stalled:
        await hand_over.leave(
            [name for name, partition in list(partitions.items()) if _must_leave(partition, view, me())]
        )
        others = [one for one in list(led) if not one.topic_config.fsync and hand_over.is_due(one.partition)]
        await hand_over.give_away(others, leaves=False)
        await asyncio.sleep(_AGAIN_S)


def _must_leave(partition: LocalPartition, view: ClusterView, me: BrokerRef) -> bool:
    entry = view.partitions.get(partition.id)
    return partition.topic_config.fsync and entry is not None and is_named(entry.value, me)
