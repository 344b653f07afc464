"""An ISR change compares the revision that it was made from, whatever was seen meanwhile (hole 18)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.core.replication.replica_set import Ends, Registered, ReplicaSet
from oncelog_partition_leader.replication.isr import IsrKeeper
from oncelog_runtime.metadata.cluster_keys import Partition, partition_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import CommitResult, Compare, KeyValue, Put
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.sim import SimWorld

WHERE = PartitionId("0" * 32, 0)
A, B, C = BrokerRef(1, 11), BrokerRef(2, 12), BrokerRef(3, 13)


class FakeMetadata:
    """One key: another hand has written it since the leader looked."""

    def __init__(self, found: KeyValue) -> None:
        self.found = found
        self.compared: list[Compare] = []

    async def commit(self, compares: list[Compare], puts: list[Put]) -> CommitResult:
        self.compared = compares
        return CommitResult(False, self.found.mod_revision)

    async def get(self, key: str) -> KeyValue:
        return self.found


class FakeLeadership:
    """What an ISR change touches of a leadership."""

    def __init__(self, replicas: ReplicaSet) -> None:
        self.partition = WHERE
        self.epoch = 3
        self.ended = None
        self.updating_isr = False
        self.replicas = replicas

    def isr_is(self, state: Partition, mod_revision: int) -> None:
        self.replicas.resolve(state.isr, mod_revision, 0, state.eligible)

    def isr_settled(self) -> None:
        self.replicas.settled()


def test_a_change_by_another_hand_between_look_and_write_is_not_undone() -> None:
    key = partition_key(*WHERE)
    before = Partition("t", (1, 2, 3), A, 3, (A, B, C))
    after = Partition("t", (1, 2, 3), A, 3, (A, B))  # the controller has dropped C
    with SimWorld(1) as world:
        clock = world.node("a").clock
        replicas = ReplicaSet(
            A,
            Registered((1, 2, 3), (A, B, C), mod_revision=5),
            Ends(high_watermark=0, log=1, own=1),
            min_insync_replicas=2,
            lag_max_ms=0,
            now_ms=-1,
        )
        leadership = FakeLeadership(replicas)
        metadata = FakeMetadata(KeyValue(key, after.encode(), 6))
        view = ClusterView()
        view.learn([KeyValue(key, before.encode(), 5)])

        async def scenario() -> None:
            tasks = TaskOwner(lambda error: None)
            keeper = IsrKeeper(cast(Any, metadata), view, clock, tasks, lambda: ())
            keeper.look(cast(Any, leadership))
            assert replicas.proposed == (A,)
            leadership.isr_is(after, 6)  # seen before the task that writes has begun
            await asyncio.sleep(1)
            await tasks.stop()

        world.run(scenario())
    assert metadata.compared[0] == Compare(key, 5)
    assert replicas.committed == (A, B)
