"""The offsets of topics that are gone go, those of topics that are only not seen for a while stay."""

from __future__ import annotations

from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_commands import CommitOffsets, GroupMarker, Member, SendOffsets
from oncelog_coordinator.core.offsets.offset_records import OffsetValue
from oncelog_coordinator.core.transactions.commands import TxnName
from tests.unit.coordinator.group_driver import Groups, topic_id

GONE_MS = 1_000
KEPT_MS = 5_000
LIMITS = Limits(gone_topic_ms=GONE_MS, group_retention_ms=KEPT_MS, expire_per_tick=4, group_resolve_after_ms=10**9)


def shard(**topics: int) -> Groups:
    return Groups(LIMITS, **topics)


def commit(groups: Groups, topic: str, *partitions: int, group: str = "g") -> None:
    values = tuple(OffsetValue(topic_id(topic), topic, number, 7) for number in partitions)
    groups.do(CommitOffsets(Member(group), 0, values))


def kept(groups: Groups) -> set[str]:
    """The topics of which some group has an offset."""
    return {offset.value.topic for group in groups.table.offsets.groups.values() for offset in group.offsets.values()}


def test_offsets_go_when_their_topic_is_gone_and_they_are_old() -> None:
    groups = shard(a=9, b=9)
    commit(groups, "a", *range(9))
    commit(groups, "b", 0)
    commit(groups, "a", 0, group="other")
    groups.see(b=9)
    groups.wait(KEPT_MS - 1)
    assert kept(groups) == {"a", "b"}
    groups.wait(1)
    assert kept(groups) == {"b"}
    assert set(groups.table.offsets.groups) == {"g"}, "nothing is left of the other group"
    groups.wait(10 * KEPT_MS)
    assert kept(groups) == {"b"}
    groups.fail_over()
    assert kept(groups) == {"b"}


def test_old_offsets_go_some_time_after_the_topic() -> None:
    groups = shard(a=1, b=1)
    commit(groups, "a", 0)
    groups.wait(10 * KEPT_MS)
    groups.see(b=1)
    groups.wait(GONE_MS - 1)
    assert kept(groups) == {"a"}
    groups.wait(1)
    assert kept(groups) == set()


def test_a_topic_that_is_seen_again_keeps_its_offsets() -> None:
    """Whoever looked lagged behind, or etcd was restored from an old backup and mended."""
    groups = shard(a=1, b=1)
    commit(groups, "a", 0)
    groups.wait(10 * KEPT_MS)
    for _ in range(5):
        groups.see(b=1)
        groups.wait(GONE_MS - 1)
        groups.see(a=1, b=1)
        groups.wait(1)
    groups.wait(10 * KEPT_MS)
    assert kept(groups) == {"a"}


def test_a_new_owner_waits_as_long_again() -> None:
    groups = shard(a=1)
    commit(groups, "a", 0)
    groups.wait(10 * KEPT_MS)
    groups.see(b=1)
    groups.wait(GONE_MS - 1)
    groups.fail_over()
    groups.wait(GONE_MS - 1)
    assert kept(groups) == {"a"}
    groups.wait(1)
    assert kept(groups) == set()


def test_nothing_goes_while_the_shard_was_told_of_no_topics() -> None:
    groups = shard(a=1)
    commit(groups, "a", 0)
    groups.fail_over(sees_topics=False)
    groups.wait(10 * KEPT_MS)
    assert kept(groups) == {"a"}


def test_an_offset_that_is_committed_for_a_topic_that_is_gone_goes_too() -> None:
    groups = shard(a=1)
    commit(groups, "gone", 0)
    groups.wait(GONE_MS)
    commit(groups, "gone", 0, 1)
    groups.wait(KEPT_MS - 1)
    assert kept(groups) == {"gone"}
    groups.wait(1)
    assert kept(groups) == set()


def test_what_an_open_transaction_holds_stays_until_it_has_ended() -> None:
    groups = shard(a=1)
    values = (OffsetValue(topic_id("gone"), "gone", 0, 7),)
    groups.do(SendOffsets(TxnName("t", 1, 1, 0), 3, Member("g"), 1, values))
    groups.wait(10 * KEPT_MS)
    assert len(groups.table.offsets.groups["g"].pending) == 1
    groups.do(GroupMarker("g", 1, 1, True, 3, 1))
    assert kept(groups) == {"gone"}
    groups.wait(KEPT_MS)
    assert kept(groups) == set()
