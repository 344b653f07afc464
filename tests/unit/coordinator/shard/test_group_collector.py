"""A scrape counts groups and members by state, and every state has its series."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.offsets.offset_commands import CommitOffsets, Member
from oncelog_coordinator.core.offsets.offset_records import OffsetValue
from oncelog_coordinator.shard.group_collector import GroupCollector
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP
from oncelog_runtime.observability.metrics import SLICE
from tests.unit.coordinator.group_driver import GROUP, Groups, Reader, settle, topic_id


def told(table: GroupShardTable, *, is_serving: bool = True) -> dict[str, Any]:
    shard = SimpleNamespace(is_serving=is_serving, life=SimpleNamespace(table=table))
    families = GroupCollector(cast(Any, {(KIND_GROUP, 0): shard})).collect()
    return {
        f"{family.metric.name.removeprefix('oncelog_consumer_group')}{{{labels}}}": value
        for family in families
        if family is not None
        for labels, value in family.rows
    }


def by_state(name: str, **states: int) -> dict[str, int]:
    return {f'{name}{{state="{state}"}}': count for state, count in states.items()}


def test_groups_and_members_are_counted_by_state() -> None:
    groups = Groups()
    groups.do(CommitOffsets(Member("only-offsets"), 0, (OffsetValue(topic_id("t"), "t", 0, 5),)))
    a, b, left = (
        Reader(groups, "a"),
        Reader(groups, "b", group_id="g2", instance_id="i"),
        Reader(groups, "c", group_id="g3"),
    )
    for reader in (a, b, left):
        reader.join()
    settle(groups, a, b, left)
    left.leave()
    expected = {
        **by_state("s", EMPTY=2, ASSIGNING=0, RECONCILING=0, STABLE=2),
        **by_state("_members", STABLE=2, UNREVOKED=0, UNRELEASED=0, AWAY=0),
    }
    assert told(groups.table) == expected
    assert not any(told(groups.table, is_serving=False).values()), "of a shard that does not serve nothing is said"


def test_a_scrape_of_many_groups_pauses() -> None:
    groups = Groups()
    Reader(groups, "a").join()
    group = groups.table.groups.groups[GROUP]
    groups.table.groups.groups.update({f"x{number}": group for number in range(2 * SLICE)})
    shard = SimpleNamespace(is_serving=True, life=SimpleNamespace(table=groups.table))
    pauses = [one for one in GroupCollector(cast(Any, {(KIND_GROUP, 0): shard})).collect() if one is None]
    assert len(pauses) >= 2
