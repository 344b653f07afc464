"""Responsibilities that a draining broker must still hand over before it may be stopped, and its readiness.

Rule 1: leaderships move only to members of the ISR, so giving them away lowers no ISR. Stopping does: a broker may be
        stopped when each partition of which it is in the ISR keeps `min_insync_replicas` without it, or all others,
        where there are fewer (a partition with one replica cannot be saved from the stop of its broker).
Rule 2: a drain does not wait in vain: `can_improve` is False when no registered broker could change anything.
Rule 3: a drain is skipped in a cluster of fewer than three brokers, and by the last one that is registered.
Rule 4: one broker drains at a time: the key in etcd names the incarnation that does. A broker that finds it held by a living
        one waits; a key that a former incarnation of this broker left is removed.
Rule 5: users' partitions are handed over before the cluster's own, on which they depend.
Rule 6: a process that is about to end does not wait for brokers that end as well: when all that it leads has come back, it
        stops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from oncelog.types import BrokerRef, PartitionId
from oncelog_runtime.metadata.cluster_keys import Partition

BROKERS_MIN: Final = 3
TOGETHER: Final = 5
"""Leaderships given away in one commit; more if there would be more than `PAUSES_MAX` pauses between commits."""
PAUSES_MAX: Final = 100
T = TypeVar("T")


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


# ---------------------------------------------------------------- steps


class Start(Enum):
    """The next step of a broker that is asked to drain."""

    NOT_REGISTERED = "it has no incarnation yet that the key could name"
    DRAINS = "it drains already"
    WAIT = "another broker drains"
    WRITE_KEY = "it writes the key"


class DrainFacts(NamedTuple):
    """The facts at one instant. `holder`: the broker of the key in etcd; it counts only while it is registered."""

    me: BrokerRef
    holder: BrokerRef | None
    holder_is_registered: bool
    has_listing: bool
    """This broker has read etcd once."""


def drains(facts: DrainFacts) -> bool:
    """Returns True while this incarnation drains."""
    return facts.me.incarnation > 0 and facts.holder == facts.me and facts.holder_is_registered


def start_step(facts: DrainFacts) -> Start:
    """Returns the step that starts the drain."""
    if not facts.me.incarnation or not facts.has_listing:
        return Start.NOT_REGISTERED
    if drains(facts):
        return Start.DRAINS
    return Start.WAIT if facts.holder is not None and facts.holder_is_registered else Start.WRITE_KEY


def is_left_over(facts: DrainFacts) -> bool:
    """Returns True when a former incarnation of this broker left the key (rule 4)."""
    me, holder = facts.me, facts.holder
    return holder is not None and holder.broker_id == me.broker_id and holder.incarnation < me.incarnation


class Leaving(Enum):
    """Whether a process that is about to end may stop now."""

    WAIT = "others can still take something over"
    SAFE = "nothing depends on it any more"
    ALONE = "no broker that stays could take over what is left: waiting is useless"


def leaving(left: Remaining, came_back: int) -> Leaving:
    """Returns whether the process may stop, by what it must still hand over.

    `came_back`: leaderships that it has handed over and got back, from brokers that stop as well (rule 6).
    """
    if left.done:
        return Leaving.SAFE
    nobody_stays = 0 < left.leaderships <= came_back
    return Leaving.WAIT if left.can_improve and not nobody_stays else Leaving.ALONE


def turns(led: Sequence[T], is_internal: Callable[[T], bool]) -> Iterator[Sequence[T]]:
    """Yields the leaderships that are given away together, in order (rule 5)."""
    ordered = sorted(led, key=is_internal)
    together = max(TOGETHER, -(-len(ordered) // PAUSES_MAX))
    for start in range(0, len(ordered), together):
        yield ordered[start : start + together]
