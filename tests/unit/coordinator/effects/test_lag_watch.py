"""The coordinator asks leaders for ends, and a scrape says how far groups are behind."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.errors import NotLeaderError
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.offsets.offset_records import CommittedOffset, OffsetValue
from oncelog_coordinator.core.offsets.offset_table import Group
from oncelog_coordinator.effects.lag_watch import LagWatch
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP
from oncelog_runtime.observability.metrics import Histogram
from tests.unit.coordinator.fake_cluster import BROKER, OTHER_BROKER, USER_TOPIC_ID, Cluster, FakeTransport


class World:
    """Two leaders, and one group shard with what it has committed."""

    def __init__(self, *, per_partition: bool = True, groups_max: int = 100) -> None:
        self.cluster = Cluster()
        self.transport = FakeTransport()
        self.now_ms = 1_000_000
        self.ends: dict[int, tuple[int, int]] = {}
        """Partition -> (last stable offset, end of data)."""
        self.table = GroupShardTable()
        self.shard = SimpleNamespace(is_serving=True, life=SimpleNamespace(table=self.table))
        for address in (BROKER, OTHER_BROKER):
            self.transport.serve(address, methods.LIST_OFFSETS, self._list_offsets)
        self.watch = LagWatch(
            cast(Any, self.transport),
            self.cluster.view,
            cast(Any, SimpleNamespace(now_ms=lambda: self.now_ms)),
            cast(Any, {(KIND_GROUP, 0): self.shard}),
            1_000,
            per_partition=per_partition,
            groups_max=groups_max,
        )

    async def _list_offsets(self, request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        reply = pa.ListOffsetsReply()
        for item in request.partitions:
            answer = reply.partitions.add(topic_id=item.topic_id, partition=item.partition)
            if item.partition in self.ends:
                answer.offset, answer.data_end_offset = self.ends[item.partition]
            else:
                answer.error.CopyFrom(to_detail(NotLeaderError()))
        return reply, b""

    def commit(self, group_id: str, partition: int, offset: int, topic_id: str = USER_TOPIC_ID) -> None:
        value = OffsetValue(topic_id, "user", partition, offset)
        group = self.table.offsets.groups.setdefault(group_id, Group())
        group.offsets[PartitionId(topic_id, partition)] = CommittedOffset(group_id, value, 1)

    def look(self) -> None:
        asyncio.run(self.watch.look())

    def told(self) -> dict[str, float]:
        return {
            f"{family.metric.name.removeprefix('oncelog_consumer_group_')}{{{labels}}}": value
            for family in self.watch.collect()
            if family is not None
            for labels, value in family.rows
            if not isinstance(value, Histogram)
        }


def test_lag_is_what_can_be_read_and_is_not_committed() -> None:
    world = World()
    world.commit("g", 0, 40)
    world.commit("g", 1, 10)
    world.ends = {0: (100, 120), 1: (10, 10)}
    world.look()
    world.now_ms += 2_500
    assert world.told() == {
        'committed_offset{group="g",topic="user",partition="0"}': 40,
        'committed_offset{group="g",topic="user",partition="1"}': 10,
        'lag_offsets{group="g",topic="user",partition="0"}': 60,
        'lag_offsets{group="g",topic="user",partition="1"}': 0,
        'lag_max{group="g",topic="user"}': 60,
        'lag_sum_offsets{group="g",topic="user"}': 60,
        'lag_seconds{group="g",topic="user"}': 2.5,
        "topics{}": 1,
    }


def test_a_marker_at_the_end_of_the_log_is_no_lag() -> None:
    world = World()
    world.commit("g", 0, 10)
    world.ends = {0: (11, 10)}
    world.look()
    assert world.told()['lag_max{group="g",topic="user"}'] == 0


def test_an_older_broker_does_not_tell_where_data_ends() -> None:
    world = World()
    world.commit("g", 0, 10)
    world.ends = {0: (11, 0)}
    world.look()
    assert world.told()['lag_max{group="g",topic="user"}'] == 1


def test_one_call_per_leader_for_all_groups() -> None:
    world = World()
    world.cluster.lead("user", USER_TOPIC_ID, 1, 1)
    world.cluster.lead("user", USER_TOPIC_ID, 2, None)
    for group in ("a", "b", "c"):
        for partition in range(3):
            world.commit(group, partition, 0)
    world.ends = {0: (1, 1), 1: (2, 2)}
    world.look()
    asked = {address: [item.partition for item in request.partitions] for address, _, request in world.transport.calls}
    assert len(world.transport.calls) == 2
    assert asked == {BROKER: [0], OTHER_BROKER: [1]}


def test_a_leader_that_does_not_answer_leaves_what_is_known() -> None:
    world = World()
    world.commit("g", 0, 10)
    world.ends = {0: (30, 30)}
    world.look()
    world.ends = {}
    world.look()
    world.transport.peers.clear()
    world.look()
    assert world.told()['lag_max{group="g",topic="user"}'] == 20


@pytest.mark.parametrize("how", ["not serving", "topic deleted", "never told"])
def test_what_is_not_known_is_not_said(how: str) -> None:
    world = World()
    world.commit("g", 0, 10, "f" * 32 if how == "topic deleted" else USER_TOPIC_ID)
    world.ends = {} if how == "never told" else {0: (30, 30)}
    world.shard.is_serving = how != "not serving"
    world.look()
    assert not [name for name in world.told() if name.startswith("lag")]


def test_series_of_partitions_can_be_switched_off_and_the_worst_stays() -> None:
    world = World(per_partition=False)
    world.commit("g", 0, 10)
    world.ends = {0: (30, 30)}
    world.look()
    assert {name for name in world.told() if name.startswith("lag")} == {
        f'{name}{{group="g",topic="user"}}' for name in ("lag_max", "lag_sum_offsets", "lag_seconds")
    }


@pytest.mark.parametrize("groups_max", [0, 1, 2])
def test_the_worst_groups_have_series_and_all_others_are_one(groups_max: int) -> None:
    world = World(groups_max=groups_max)
    for group, offset in (("a", 90), ("b", 40), ("c", 70)):
        world.commit(group, 0, offset)
        world.commit(group, 1, 0, "f" * 32)  # of a topic that is gone
    world.ends = {0: (100, 100)}
    world.look()
    told = world.told()
    worst = ["b", "c"][:groups_max]
    rest = {"a": 10, "b": 60, "c": 30}
    for group in worst:
        assert told[f'lag_max{{group="{group}",topic="user"}}'] == rest.pop(group)
        assert f'committed_offset{{group="{group}",topic="user",partition="0"}}' in told
    assert told['lag_max{group="(others)",topic=""}'] == max(rest.values())
    assert told['lag_sum_offsets{group="(others)",topic=""}'] == sum(rest.values())
    assert len([name for name in told if name.startswith("lag_sum_offsets")]) == groups_max + 1
    assert len([name for name in told if name.startswith("committed_offset")]) == groups_max
    assert told["topics{}"] == 3
