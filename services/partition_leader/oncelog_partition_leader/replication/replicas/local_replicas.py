"""The state and the surroundings that all parts of replication share.

Rule: a step looks at `LocalReplicas` and changes it without an await in between, so that no other task sees half a change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from oncelog.errors import OncelogError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.log.data_dir.disk_room import DiskRoom
from oncelog_partition_leader.log.data_dir.disk_watch import DiskWatch
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.observe.observer import BrokerObserver
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.process.tasks import TaskOwner


@dataclass(slots=True)
class LocalReplicas:
    """The replicas of this broker. One per broker."""

    partitions: dict[PartitionId, LocalPartition] = field(default_factory=dict)
    """Those whose log is open, or has failed and was not opened again yet."""
    led: dict[Leadership, None] = field(default_factory=dict)
    waiting: dict[Leadership, None] = field(default_factory=dict)
    """Those of `led` in which something may time out; others need no look at the clock."""
    changed: dict[LocalPartition, None] = field(default_factory=dict)
    """Those whose log may want a sync, or may have failed, since it was looked at (`SegmentedLog.tell_changes`)."""
    unopened: dict[PartitionId, OncelogError] = field(default_factory=dict)
    """Those whose log could not be opened, with the error; they are tried again."""
    busy: dict[PartitionId, None] = field(default_factory=dict)
    """Those whose log is being opened, closed or removed: one step at a time."""
    failed_under: dict[PartitionId, BrokerRef] = field(default_factory=dict)
    """Those whose log failed, with this broker's incarnation at that time."""
    role_listeners: list[Callable[[PartitionId], None]] = field(default_factory=list)
    """Called when the leadership of a partition has begun or ended here."""
    closing: bool = False
    """The process is about to end: no step begins any more."""

    def role_changed(self, partition_id: PartitionId) -> None:
        """Tells the listeners that the leadership of a partition has begun or ended here."""
        for listener in self.role_listeners:
            listener(partition_id)

    def is_used(self, partition_id: PartitionId) -> bool:
        """Returns True when the folder of this partition may be in use."""
        return partition_id in self.partitions or partition_id in self.busy

    def leadership_of(self, leadership: Leadership) -> LocalPartition | None:
        """Returns the replica of a leadership, while that is the present one."""
        partition = self.partitions.get(leadership.partition)
        return partition if partition is not None and partition.leadership is leadership else None


@dataclass(frozen=True, slots=True)
class ReplicationContext:
    """The parts of the broker that all parts of replication use, given to them as one object. One per broker."""

    config: BrokerConfig
    ports: NodePorts
    cluster: ClusterContext
    tasks: TaskOwner
    bugs: Bugs
    observer: BrokerObserver
    disk_watch: DiskWatch
    disk_room: DiskRoom
    defaults: TopicConfig
    """The options of a topic that sets none."""
