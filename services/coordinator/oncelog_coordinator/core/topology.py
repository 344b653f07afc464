"""The topics of the cluster as a process last saw them, and the command that shows them to a group shard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Command, Note


@dataclass(frozen=True, slots=True)
class Topology:
    """The cluster's topics, as this process last saw them. `metadata`: (restored at, revision); see `is_older_than`."""

    metadata: tuple[int, int]
    topic_ids: Mapping[str, str]
    """Name -> topic id; topics of the cluster itself are left out."""
    partitions: Mapping[str, int]
    """Topic id -> number of partitions."""
    racks: Mapping[PartitionId, frozenset[str]] = field(default_factory=dict)

    @property
    def content(self) -> tuple[object, ...]:
        """Everything but the revision: two with the same content mean the same topics."""
        return self.topic_ids, self.partitions, self.racks

    def is_older_than(self, metadata: tuple[int, int]) -> bool:
        """True when a group was assigned from newer metadata. After a restore of etcd, revisions begin again."""
        return self.metadata[0] == metadata[0] and self.metadata[1] < metadata[1]


@dataclass(frozen=True, slots=True)
class SeeTopics(Command[None]):
    """Shows the shard which topics there are."""

    topology: Topology


@dataclass(frozen=True, slots=True)
class TopicsSeen(Note):
    """Note: the topics of the cluster."""

    topology: Topology
