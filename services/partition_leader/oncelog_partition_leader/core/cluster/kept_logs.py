"""Decides where a partition is made that may have logs already, since etcd was restored from a backup that is older than it.

Theory of operation: after a restore every broker is asked which logs it keeps of partitions that etcd does not know. A
partition that is made again goes to the brokers that keep its logs, and the longest of these leads (`elect_restored`).

Rule 1: a partition is made when as many logs of it are known as it has replicas, or when every member has answered. A member
        is a broker that is registered, or that etcd names as a replica of anything; not one that was decommissioned.
Rule 2: all brokers that keep a log become replicas, also when these are more than the topic has; others fill up the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oncelog.types import PartitionId


@dataclass(frozen=True, slots=True)
class KeptLogs:
    """The answers of the brokers so far.

    `answers`: broker id -> the partitions of which it keeps a log and that etcd does not know. `missing`: the members that
    have not answered yet, by id.
    """

    answers: Mapping[int, frozenset[PartitionId]] = field(default_factory=dict)
    missing: frozenset[int] = frozenset()

    def keepers(self, partition: PartitionId) -> tuple[int, ...]:
        """Returns the brokers that keep a log of a partition, in the order of their ids."""
        return tuple(sorted(broker_id for broker_id, kept in self.answers.items() if partition in kept))

    def replicas_for(self, partition: PartitionId, planned: Sequence[int]) -> tuple[int, ...] | None:
        """Returns the replicas of a partition that may have logs; None until enough brokers have answered (rule 1).

        `planned`: where it would be made if it had none, the preferred leader first.
        """
        keepers = self.keepers(partition)
        if self.missing and len(keepers) < len(planned):
            return None
        kept = [broker_id for broker_id in planned if broker_id in keepers]
        kept += [broker_id for broker_id in keepers if broker_id not in kept]
        others = [broker_id for broker_id in planned if broker_id not in kept]
        return (*kept, *others[: max(0, len(planned) - len(kept))])

    def of_topics(self, topic_ids: Iterable[str]) -> frozenset[str]:
        """Returns those of these topics of which a broker keeps a log."""
        kept = {partition.topic_id for partitions in self.answers.values() for partition in partitions}
        return frozenset(topic_id for topic_id in topic_ids if topic_id in kept)


def members(
    registered: Iterable[int], replicas: Iterable[Sequence[int]], decommissioned: Iterable[int]
) -> frozenset[int]:
    """Returns the brokers whose answers count (rule 1), by id."""
    named = {broker_id for one in replicas for broker_id in one}
    return frozenset({*registered, *named} - {*decommissioned})
