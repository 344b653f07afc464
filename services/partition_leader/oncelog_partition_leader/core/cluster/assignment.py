"""Chooses the brokers that hold the replicas of a new topic.

Rule: a pure function of its arguments. Leaders go round robin over the brokers, followers are shifted a little more each
round, so that the load of a dead broker spreads over all others (the scheme of Kafka's AdminUtils).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Candidate(NamedTuple):
    """A live broker that may take replicas."""

    broker_id: int
    rack: str = ""


def alternate_racks(brokers: Sequence[Candidate]) -> list[int]:
    """Orders broker ids such that neighbours are in different racks as far as possible."""
    racks: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        racks.setdefault(broker.rack, []).append(broker.broker_id)
    columns = [racks[rack] for rack in sorted(racks)]
    longest = max((len(column) for column in columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def replicas_of(partition: int, replication_factor: int, order: Sequence[int], start: int) -> tuple[int, ...]:
    """Chooses the replicas of one partition, the preferred leader first. `start` spreads topics over brokers."""
    assert 1 <= replication_factor <= len(order), "as many brokers as replicas"
    count = len(order)
    first = (start + partition) % count
    if replication_factor == 1:
        return (order[first],)
    shift = (start + partition) // count
    rest = tuple(
        order[(first + 1 + (shift + replica) % (count - 1)) % count] for replica in range(replication_factor - 1)
    )
    return (order[first], *rest)


def assign(
    partitions: int, replication_factor: int, brokers: Sequence[Candidate], start: int = 0
) -> list[tuple[int, ...]]:
    """Chooses the replicas of each partition of a new topic."""
    order = alternate_racks(brokers)
    return [replicas_of(partition, replication_factor, order, start) for partition in range(partitions)]
