"""Rows of a group: who reads a partition, members, and what stands above the table."""

from __future__ import annotations

import dataclasses

from oncelog.client.admin.descriptions import GroupDescription, GroupListing, GroupMemberDescription, GroupOffset
from oncelog.types import TopicPartition
from oncelog_cli.cluster.group_rows import described, heading, listing_row

MEMBER = GroupMemberDescription(
    "m", "till-3", "app", "", 3, "UNREVOKED", ("t",), "",
    (TopicPartition("t", 0), TopicPartition("t", 2)), (TopicPartition("t", 1),), (TopicPartition("t", 0),),
)  # fmt: skip
LISTING = GroupListing("g", "RECONCILING", 2, 0, "c0:1", 0, members=1)


def offset(partition: int) -> GroupOffset:
    return GroupOffset("t", "0a", partition, 5, -1, "", 0, "earlier")


def test_a_partition_shows_who_has_it_now_also_before_the_first_commit() -> None:
    found = described(GroupDescription(LISTING, (offset(0), offset(1), offset(3)), (), (MEMBER,), 5, 4, "range"), {})
    shown = [
        (row["partition"], row["current_offset"], row["consumer_id"], row["client_id"]) for row in found["offsets"]
    ]
    assert shown == [(0, 5, "m", "app"), (1, 5, "m", "app"), (3, 5, "earlier", None), (2, None, "m", "app")]
    assert found["total_lag"] is None, "of partition 2 nothing is known"


def test_a_member_is_a_row_with_partitions_as_the_command_line_takes_them() -> None:
    (row,) = described(GroupDescription(LISTING, (), (), (MEMBER,)), {})["membership"]
    assert (row["assigned"], row["revoking"], row["target"]) == (["t/0", "t/2"], ["t/1"], ["t/0"])
    assert (row["instance_id"], row["rack"], row["partitions"], row["member_epoch"]) == ("till-3", None, 2, 3)


def test_the_heading_shows_epochs_with_members_and_the_expiry_without() -> None:
    group = GroupDescription(LISTING, (), (), (MEMBER,), 5, 4, "range")
    assert "EPOCH        5 (assigned: 4)\n" in heading(described(group, {}))
    empty = dataclasses.replace(group, members=(), expires_ms=1_767_225_600_000)
    assert "EXPIRES      2026-01-01T00:00:00.000Z at the earliest" in heading(described(empty, {}))
    assert "EPOCH" not in heading(described(empty, {}))


def test_a_listed_group_has_its_members() -> None:
    row = listing_row(LISTING)
    assert (row["members"], row["partitions"], row["state"]) == (1, 2, "RECONCILING")
