"""A broker takes itself out of a partition's in-sync replicas, when it can no longer vouch for its log or its disk.

Rule 1: it leaves by a write of the partition's own key, so its role in other partitions does not change.
Rule 2: a leader that leaves hands over by an election; a follower that leaves changes neither leader nor epoch.
Rule 3: the last member does not leave: no other replica is known to hold what was acknowledged.
Rule 4: a broker whose log may have lost records is named nowhere afterwards, and writes the key even if it was not named
        before: a leader that learns of the write begins new sessions, and forgets what that log had acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.election import hand_over, reshaped
from oncelog_runtime.metadata.cluster_keys import Partition


def is_named(partition: Partition, ref: BrokerRef) -> bool:
    """Returns True when the ISR or the leader of the partition is this broker, under this incarnation."""
    return ref in partition.isr or partition.leader == ref


def without(partition: Partition, leaving: BrokerRef, live: Mapping[int, int], min_insync: int) -> Partition | None:
    """Returns the partition without this replica; None when it is not named, or no other can take its place."""
    if partition.leader == leaving:
        return hand_over(partition, leaving, live, min_insync)
    isr = tuple(ref for ref in partition.isr if ref != leaving)
    return reshaped(partition, isr, min_insync) if isr and isr != partition.isr else None


def forgotten(partition: Partition, lost: BrokerRef, live: Mapping[int, int], min_insync: int) -> Partition | None:
    """Returns the partition without any trust in this replica's log; None when it is the last replica that can lead."""
    changed: Partition | None = partition
    if is_named(partition, lost):
        changed = without(partition, lost, live, min_insync)
    if changed is None:
        return None
    return replace(changed, eligible=tuple(ref for ref in changed.eligible if ref.broker_id != lost.broker_id))
