"""Decides where the replicas of a partition are that is newer than the backup from which etcd was restored, or was moved since.

Theory of operation: after a restore every broker is asked which logs it keeps of which etcd does not know. A partition that
is made again goes to the brokers that keep its logs; one that is known has them as replicas too (`found_elsewhere`). Then all
replicas are asked, and the longest log leads (`elect_restored`).

Rule 1: a partition is made when every member has answered: as many logs as it has replicas may be old ones, of brokers that
        it was moved away from. A member is a broker that is registered; or that etcd names as a replica of anything, or that
        one that answers has ever seen registered, and that was not decommissioned.
Rule 2: all brokers that keep a log become replicas, also when these are more than the topic has; others fill up the number.
Rule 3: for a partition that etcd knows, those must have answered that are registered. One that is away holds up only the
        partitions of which it is a replica, as ever: after a restore most brokers are there, and a few partitions were moved.
Rule 4: nothing is decided in the first seconds, in which brokers register that the restored etcd does not name (`is_early`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oncelog.types import PartitionId


@dataclass(frozen=True, slots=True)
class KeptLogs:
    """The answers of the brokers so far.

    `answers`: broker id -> the partitions of which it keeps a log, and etcd knows no replica there. `missing`: the members
    that have not answered yet, by id; `registered`: those of all brokers that are registered. `is_early`: the restore has only
    just been noticed.
    """

    answers: Mapping[int, frozenset[PartitionId]] = field(default_factory=dict)
    missing: frozenset[int] = frozenset()
    registered: frozenset[int] = frozenset()
    is_early: bool = False

    def keepers(self, partition: PartitionId) -> tuple[int, ...]:
        """Returns the brokers that keep a log of a partition, in the order of their ids."""
        return tuple(sorted(broker_id for broker_id, kept in self.answers.items() if partition in kept))

    def replicas_for(self, partition: PartitionId, planned: Sequence[int]) -> tuple[int, ...] | None:
        """Returns the replicas of a partition that may have logs; None until enough brokers have answered (rule 1).

        `planned`: where it would be made if it had none, the preferred leader first.
        """
        keepers = self.keepers(partition)
        if self.is_early or self.missing:
            return None
        kept = [broker_id for broker_id in planned if broker_id in keepers]
        kept += [broker_id for broker_id in keepers if broker_id not in kept]
        others = [broker_id for broker_id in planned if broker_id not in kept]
        return (*kept, *others[: max(0, len(planned) - len(kept))])

    def elsewhere(self, partition: PartitionId, dead: Container[int]) -> tuple[int, ...] | None:
        """Returns the brokers that keep a log of a partition of which etcd names others; None until that is known (rule 3).

        `dead`: registered brokers that were found dead.
        """
        if self.is_early or any(one not in self.answers and one not in dead for one in self.registered):
            return None
        return self.keepers(partition)

    def of_topics(self, topic_ids: Iterable[str]) -> frozenset[str]:
        """Returns those of these topics of which a broker keeps a log."""
        kept = {partition.topic_id for partitions in self.answers.values() for partition in partitions}
        return frozenset(topic_id for topic_id in topic_ids if topic_id in kept)


def members(registered: Iterable[int], named: Iterable[int], decommissioned: Iterable[int]) -> frozenset[int]:
    """Returns the brokers whose answers count (rule 1), by id. `named`: by etcd, or by brokers that have seen them."""
    return frozenset({*registered, *({*named} - {*decommissioned})})
