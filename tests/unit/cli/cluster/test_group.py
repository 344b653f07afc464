"""`oncelog group`: where a group stands, who its members are, and what is refused while they are there."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.client.admin.descriptions import GroupDescription, GroupListing, GroupOffset, TopicDescription
from oncelog.v1 import coordinator_pb2 as co
from oncelog_cli.cluster import group
from tests.unit.cli.conftest import Oncelog
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster

OLD, NEW = "0a" * 16, "0b" * 16


def offset(topic: str, topic_id: str, at: int) -> GroupOffset:
    return GroupOffset(topic, topic_id, 0, at, -1, "", 0, "")


def test_offsets_of_an_earlier_topic_of_the_name_are_not_where_the_group_stands() -> None:
    async def list_topics() -> list[TopicDescription]:
        return [TopicDescription(name, NEW, False, (), {}) for name in ("again", "later")]

    client = SimpleNamespace(admin=SimpleNamespace(list_topics=list_topics))
    offsets = (
        offset("again", NEW, 1), offset("again", OLD, 1_000), offset("later", OLD, 7), offset("gone", OLD, 9),
    )  # fmt: skip
    described = GroupDescription(GroupListing("g", "EMPTY", 4, 0, "c0:1", 0), offsets, ())
    before = asyncio.run(group._before(cast(Any, client), described))
    assert before == {("again", 0): 1, ("gone", 0): 9}


def group_with(*member_ids: str) -> co.DescribeGroupReply:
    members = [co.GroupMemberInfo(member_id=name, instance_id=f"i-{name}", state="STABLE") for name in member_ids]
    return co.DescribeGroupReply(
        group=co.GroupListing(group_id="g", state="STABLE", members=len(members)), members=members, group_epoch=2
    )


def test_a_group_with_members_is_listed_and_described(cluster: FakeCluster, oncelog: Oncelog) -> None:
    listed = co.GroupListing(group_id="g", state="STABLE", members=2)
    cluster.answers["ListGroups"] = co.ListGroupsReply(groups=[listed], answered=[co.ShardAnswer(shard=0, epoch=1)])
    assert oncelog("group", "list").table == [
        ["GROUP", "STATE", "MEMBERS", "PARTITIONS", "OPEN-TRANSACTIONS"], ["g", "STABLE", "2", "0", "0"],
    ]  # fmt: skip
    cluster.answers["DescribeGroup"] = group_with("a", "b")
    said = oncelog("group", "describe", "g", "--members")
    assert [line.split()[:3] for line in said.out.splitlines()[-2:]] == [["g", "a", "i-a"], ["g", "b", "i-b"]]
    (data,) = oncelog("group", "describe", "g", "--format", "json").data
    assert (data["members"], [row["member_id"] for row in data["membership"]]) == (2, ["a", "b"])


def test_lag_in_time_has_a_column_when_it_is_asked_for(cluster: FakeCluster, oncelog: Oncelog) -> None:
    cluster.answers["DescribeGroup"] = group_with("a")
    titles = [oncelog("group", "describe", "g", *flags).out.splitlines()[-1].split() for flags in ((), ("--time",))]
    assert ["LAG-TIME" in line for line in titles] == [False, True]
    assert titles[1].index("LAG-TIME") == titles[1].index("LAG") + 1


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_group_with_members_is_not_moved(cluster: FakeCluster, oncelog: Oncelog, more: tuple[str, ...]) -> None:
    cluster.answers["DescribeGroup"] = group_with("a")
    said = oncelog("group", "seek", "g", TOPIC, "--to", "start", *more)
    assert (said.code, cluster.requests("CommitOffsets")) == (1, [])
    assert "NON_EMPTY_GROUP" in said.err
    assert "stop them first (`oncelog group describe g --members` shows them)" in said.err


def removing(cluster: FakeCluster) -> list[str]:
    cluster.answers["DescribeGroup"] = group_with("a", "b")
    cluster.answers["GroupHeartbeat"] = co.GroupHeartbeatReply(member_epoch=-1)
    return [request.member_id for request in cluster.requests("GroupHeartbeat")]


def test_members_are_removed_by_id_by_instance_or_all(cluster: FakeCluster, oncelog: Oncelog) -> None:
    removing(cluster)
    assert oncelog("group", "member-remove", "g", "b", "--format", "json").data == [
        {"group": "g", "member_id": "b", "removed": True}
    ]
    assert oncelog("group", "member-remove", "g", "--instance-id", "i-a").code == 0
    assert oncelog("group", "member-remove", "g", "--all", "--yes").code == 0
    assert removing(cluster) == ["b", "a", "a", "b"]


def test_a_member_that_is_not_there_is_named(cluster: FakeCluster, oncelog: Oncelog) -> None:
    removing(cluster)
    said = oncelog("group", "member-remove", "g", "gone", "--instance-id", "i-gone")
    assert (said.code, removing(cluster)) == (1, [])
    assert said.err == "g has no member gone (any more)\ng has no member i-gone (any more)\n"


@pytest.mark.parametrize("words", [(), ("a", "--all"), ("--instance-id", "i", "--all")])
def test_members_are_named_or_all(cluster: FakeCluster, oncelog: Oncelog, words: tuple[str, ...]) -> None:
    said = oncelog("group", "member-remove", "g", *words)
    assert (said.code, cluster.calls) == (2, [])
    assert "name members, or instance ids, or --all" in said.err
