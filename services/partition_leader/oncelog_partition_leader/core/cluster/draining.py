"""Responsibilities that a draining broker must still hand over before it may be stopped, and its readiness.

Rule 1: leaderships move only to members of the ISR, so giving them away lowers no ISR. Stopping does: a broker may be
        stopped when each partition of which it is in the ISR keeps `min_insync_replicas` without it, or all others,
        where there are fewer (a partition with one replica cannot be saved from the stop of its broker).
Rule 2: a drain does not wait in vain: `can_improve` is False when no registered broker could change anything.
Rule 3: a drain is skipped in a cluster of fewer than three brokers, and by the last one that is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from oncelog.types import BrokerRef, PartitionId
from oncelog_runtime.metadata.cluster_keys import Partition

BROKERS_MIN: Final = 3


@dataclass(frozen=True, slots=True)
class Remaining:
    """Counts of partitions. `leaderships`: led here and replicated elsewhere; `needed`: too few in sync without it (rule 1)."""

    leaderships: int = 0
    needed: int = 0
    can_improve: bool = False

    @property
    def done(self) -> bool:
        """True when the broker is safe to stop."""
        return not self.leaderships and not self.needed

    def __str__(self) -> str:
        parts = []
        if self.leaderships:
            parts.append(f"{self.leaderships} leaderships to hand over")
        if self.needed:
            parts.append(f"{self.needed} partitions that would have too few in-sync replicas")
        return " and ".join(parts) or "nothing left"


def remaining(
    me: BrokerRef,
    partitions: Iterable[Partition],
    live: Mapping[int, int],
    min_insync_of: Callable[[str], int],
) -> Remaining:
    """Counts what keeps this broker from being stopped. `min_insync_of(topic)`: the topic's option."""
    leaderships = needed = 0
    can_improve = False
    for partition in partitions:
        if me not in partition.isr or len(partition.replicas) < 2:
            continue
        others = [ref for ref in partition.isr if ref != me and live.get(ref.broker_id) == ref.incarnation]
        inside = {me.broker_id, *(ref.broker_id for ref in others)}
        may_join = any(broker_id in live and broker_id not in inside for broker_id in partition.replicas)
        leads = partition.leader == me
        short = len(others) < min(min_insync_of(partition.topic), len(partition.replicas) - 1)
        leaderships += leads
        needed += short
        can_improve = can_improve or (leads and bool(others)) or ((leads or short) and may_join)
    return Remaining(leaderships, needed, can_improve)


def why_skipped(me: BrokerRef, known: Collection[int], live: Mapping[int, int]) -> str:
    """Says why a drain would be useless; empty when it is useful. `known`: every broker with replicas or a registration."""
    if len(known) < BROKERS_MIN:
        return f"a cluster of {len(known)} brokers has nobody to spare"
    if not any(broker_id != me.broker_id for broker_id in live):
        return "no other broker is registered"
    return ""


def known_brokers(partitions: Iterable[Partition], live: Mapping[int, int]) -> set[int]:
    """Returns the ids of all brokers that have replicas or are registered."""
    return {broker_id for partition in partitions for broker_id in partition.replicas} | live.keys()


def out_of_sync(
    me: BrokerRef, partitions: Iterable[tuple[PartitionId, Partition]], adding: Callable[[PartitionId], Collection[int]]
) -> int:
    """Counts the partitions of which this broker has a replica but is not in the ISR under its present incarnation.

    A replica that is being added (`adding`) does not count: no acknowledgement depends on it yet.
    """
    return sum(
        me.broker_id in partition.replicas and me not in partition.isr and me.broker_id not in adding(partition_id)
        for partition_id, partition in partitions
    )
