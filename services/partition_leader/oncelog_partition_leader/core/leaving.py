"""A broker takes itself out of a partition's in-sync replicas, when it can no longer vouch for its log or its disk.

Rule 1: it leaves by the partition's own key, so nothing that it does elsewhere changes.
Rule 2: a leader that leaves hands over by an election; a follower that leaves changes neither leader nor epoch.
Rule 3: the last one does not leave: then nobody else is known to hold what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.election import hand_over, reshaped
from oncelog_runtime.cluster import Partition


def is_named(partition: Partition, ref: BrokerRef) -> bool:
    """The partition counts on this broker's log, under this incarnation."""
    return ref in partition.isr or partition.leader == ref


def without(partition: Partition, leaving: BrokerRef, live: Mapping[int, int], min_insync: int) -> Partition | None:
    """The partition without this replica; None when it is not named, or nobody else can take its place."""
    if partition.leader == leaving:
        return hand_over(partition, leaving, live, min_insync)
    isr = tuple(ref for ref in partition.isr if ref != leaving)
    return reshaped(partition, isr, min_insync) if isr and isr != partition.isr else None
