"""One replica over a real log on a simulated disk, and what it needs of the broker around it."""

from __future__ import annotations

from typing import Any, cast

from oncelog.errors import OncelogError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.log.data_dir.disk_watch import DiskWatch
from oncelog_partition_leader.log.log_config import FLUSH_FSYNC, FLUSH_REPLICATED, LogConfig
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.serving.signpost import Signpost
from oncelog_runtime.sim.world import SimWorld
from tests.unit.partition_leader.leading import FakeHost
from tests.unit.partition_leader.log_helpers import TOPIC_ID, open_log

ME = BrokerRef(1, 11)
PLACE = PartitionId(TOPIC_ID, 3)


class ReplicaHost(FakeHost):
    """A broker that remembers what its replica has told it. `stalled` is set by hand."""

    def __init__(self, world: SimWorld, node: str = "b") -> None:
        self.node = world.node(node)
        super().__init__(self.node.clock)
        self.faults: list[BaseException] = []
        self.tasks = TaskOwner(self.faults.append)
        self.signpost = Signpost(ClusterView(), client_listener=False)
        self.disk_watch = DiskWatch(self.node.clock, 1_000, lambda _stalled: None)
        self.failures: list[OncelogError] = []

    def leadership_ended(self, leadership: Leadership) -> None:
        self.told.append("leadership ended")

    def log_failed(self, partition: LocalPartition, error: OncelogError) -> None:
        self.failures.append(error)

    async def lower_claim(self, partition: LocalPartition) -> None:
        self.told.append("claim lowered")

    async def replica(self, *, fsync: bool = False) -> LocalPartition:
        """The replica of `orders`-3, empty."""
        log = await open_log(self.node.disk)
        config = TopicConfig(log=LogConfig(flush_mode=FLUSH_FSYNC if fsync else FLUSH_REPLICATED))
        return LocalPartition(cast(Any, self), PLACE, "orders", log, config)
