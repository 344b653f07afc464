"""Plans which replicas move when a broker is new, or when one is to be decommissioned, with as few moves as possible.

Rule 1: the broker that takes a replica gets the place of the old one in the replica list, so a preferred leadership moves
        with a replica exactly when the new broker has too few of them.
Rule 2: `evacuate` empties brokers; `balance` levels the others, from the fullest to the emptiest, until no two differ by more
        than one replica. Each of its moves is one that any plan would need.
Rule 3: of the replicas that could move, one of the topic that is most unequal between the two brokers moves. None moves
        that would put two replicas of a partition into one rack where they were not: safety comes before balance.
Rule 4: small differences are left alone: `balance` is called only when some broker `is_short`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from oncelog.types import PartitionId
from oncelog_partition_leader.core.cluster.assignment import Candidate

Assignment = Mapping[PartitionId, tuple[int, ...]]
SHORT: Final = 0.8
"""A broker with less than this part of its fair share is short of replicas."""


def is_short(assignment: Assignment, brokers: Sequence[Candidate]) -> bool:
    """Returns True when some broker holds clearly less than its fair share."""
    counts = _counts(assignment, [broker.broker_id for broker in brokers])
    fair = sum(counts.values()) // max(len(counts), 1)
    return any(count < fair * SHORT for count in counts.values())


def evacuate(
    assignment: Assignment, leaving: Collection[int], brokers: Sequence[Candidate], moves_max: int
) -> dict[PartitionId, tuple[int, ...]]:
    """Plans new replicas of at most `moves_max` partitions, without the leaving brokers. `brokers`: those that may take them.

    A partition that no remaining broker can take is left out of the plan.
    """
    stay = [broker for broker in brokers if broker.broker_id not in leaving]
    plan = _Plan(assignment, stay)
    for partition, replicas in sorted(assignment.items()):
        if len(plan.changed) >= moves_max:
            break
        for broker_id in replicas:
            if broker_id in leaving:
                plan.replace_with_emptiest(partition, broker_id)
    return plan.changed


def balance(
    assignment: Assignment, brokers: Sequence[Candidate], moves_max: int, busy: Collection[PartitionId] = ()
) -> dict[PartitionId, tuple[int, ...]]:
    """Plans new replicas of at most `moves_max` partitions, to level the brokers. `busy`: partitions to leave alone."""
    plan = _Plan(assignment, brokers, busy)
    while len(plan.changed) < moves_max and plan.level_once():
        pass
    return plan.changed


def _counts(assignment: Assignment, brokers: Collection[int]) -> dict[int, int]:
    counts = dict.fromkeys(sorted(brokers), 0)
    for replicas in assignment.values():
        for broker_id in replicas:
            if broker_id in counts:
                counts[broker_id] += 1
    return counts


class _Plan:
    """The assignment as it will be. `changed` holds the partitions whose replicas differ."""

    def __init__(
        self, assignment: Assignment, brokers: Sequence[Candidate], busy: Collection[PartitionId] = ()
    ) -> None:
        self.changed: dict[PartitionId, tuple[int, ...]] = {}
        self._replicas = dict(assignment)
        self._racks = {broker.broker_id: broker.rack for broker in brokers}
        self._busy = busy
        self._counts = _counts(assignment, list(self._racks))
        self._leads = dict.fromkeys(self._counts, 0)
        self._held: dict[tuple[int, str], dict[PartitionId, None]] = defaultdict(dict)
        self._topics: dict[str, None] = {}
        for partition, replicas in sorted(assignment.items()):
            self._topics[partition.topic_id] = None
            for broker_id in replicas:
                self._held[broker_id, partition.topic_id][partition] = None
            if replicas and replicas[0] in self._leads:
                self._leads[replicas[0]] += 1

    def replace_with_emptiest(self, partition: PartitionId, leaving: int) -> None:
        """Gives a replica of a leaving broker to the emptiest broker, if any can take it."""
        there = self._replicas[partition]
        free = [broker_id for broker_id in self._counts if broker_id not in there]
        if free:
            crowded = {broker_id: self._crowds(partition, leaving, broker_id) for broker_id in free}
            counts = self._leads if there[0] == leaving else self._counts
            self._move(partition, leaving, min(free, key=lambda b: (crowded[b], counts[b], self._counts[b], b)))

    def level_once(self) -> bool:
        """Moves one replica from a fullest broker to an emptiest one. False: level, or nothing can move."""
        by_count = sorted(self._counts, key=lambda b: (self._counts[b], b))
        for emptiest in by_count:
            for fullest in reversed(by_count):
                if self._counts[fullest] - self._counts[emptiest] < 2:
                    break
                partition = self._choose(fullest, emptiest)
                if partition is not None:
                    self._move(partition, fullest, emptiest)
                    return True
        return False

    def _choose(self, source: int, target: int) -> PartitionId | None:
        wants_lead = self._leads[source] > self._leads[target] + 1
        best: tuple[tuple[int, int], PartitionId] | None = None
        for topic_id in self._topics:
            held = self._held.get((source, topic_id))
            if not held:
                continue
            surplus = len(held) - len(self._held.get((target, topic_id), ()))
            for partition in held:
                if target in self._replicas[partition] or partition in self._busy or partition in self.changed:
                    continue
                if self._crowds(partition, source, target):
                    continue
                leads = self._replicas[partition][0] == source
                score = (int(leads != wants_lead), -surplus)
                if best is None or score < best[0]:
                    best = (score, partition)
                if leads == wants_lead:
                    break  # the best of this topic
        return best[1] if best is not None else None

    def _crowds(self, partition: PartitionId, source: int, target: int) -> int:
        """Returns 1 when the move puts two replicas into one rack where they were not, else 0."""
        others = [self._racks.get(b, "") for b in self._replicas[partition] if b != source]
        rack = self._racks.get(target, "")
        return int(bool(rack) and rack in others and self._racks.get(source, "") not in others)

    def _move(self, partition: PartitionId, source: int, target: int) -> None:
        replicas = self._replicas[partition]
        if replicas[0] == source:
            if source in self._leads:
                self._leads[source] -= 1
            self._leads[target] += 1
        self._replicas[partition] = self.changed[partition] = tuple(target if b == source else b for b in replicas)
        if source in self._counts:
            self._counts[source] -= 1
        self._counts[target] += 1
        self._held[source, partition.topic_id].pop(partition, None)
        self._held[target, partition.topic_id][partition] = None
