"""What `oncelog group` takes for the offsets of a group."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from oncelog.client.admin.descriptions import GroupDescription, GroupListing, GroupOffset, TopicDescription
from oncelog_cli.cluster import group

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
