"""Sessions, the time to let go, ids that are kept for a while, and groups that nobody uses."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog_coordinator.core.group_shard.group_views import DescribeGroup
from oncelog_coordinator.core.groups.states import GroupState, MemberState
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_commands import CommitOffsets, GroupMarker, Member, SendOffsets
from oncelog_coordinator.core.offsets.offset_records import OffsetValue
from oncelog_coordinator.core.transactions.commands import Tick, TxnName
from tests.unit.coordinator.group_driver import GROUP, Groups, Reader, part, settle, topic_id

OFFSET = OffsetValue(topic_id("t"), "t", 0, 5)
DAY_MS = 86_400_000


def test_a_session_ends_without_a_sign_of_life() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    groups.wait(44_000)
    a.beat()
    groups.wait(44_000)
    assert groups.member("a").state is MemberState.STABLE
    groups.wait(2_000)
    with pytest.raises(errors.FencedMemberEpochError):
        a.beat()


def test_a_fail_over_begins_sessions_again() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    groups.wait(44_000)
    groups.fail_over()
    groups.wait(44_000)
    a.beat()


@pytest.mark.parametrize(("given_ms", "held_ms"), [(0, 300_000), (10_000, 10_000)])
def test_who_takes_too_long_to_let_go_is_out(given_ms: int, held_ms: int) -> None:
    groups = Groups()
    a, b = Reader(groups, "a", holds=True), Reader(groups, "b")
    a.join(rebalance_timeout_ms=given_ms)
    groups.wait(1_000)
    b.join()
    a.beat()
    for _ in range(held_ms // 1_000 - 1):
        groups.wait(1_000)
        a.beat()
        b.beat()
    assert groups.member("a").state is MemberState.UNREVOKED
    groups.wait(2_000)
    b.beat()
    assert len(b.reading) == 4
    with pytest.raises(errors.FencedMemberEpochError):
        a.beat()


def test_who_goes_away_instead_of_letting_go_has_its_whole_session_to_come_back() -> None:
    groups = Groups()
    a, b = Reader(groups, "a", instance_id="i", holds=True), Reader(groups, "b")
    a.join(rebalance_timeout_ms=10_000)
    groups.wait(1_000)
    b.join()
    a.beat()
    assert groups.member("a").state is MemberState.UNREVOKED
    a.leave(-2)
    for _ in range(40):
        groups.wait(1_000)
        b.beat()
    assert groups.member("a").state is MemberState.AWAY
    groups.wait(5_000)
    assert "a" not in groups.owned()


def test_a_second_revocation_has_its_own_time() -> None:
    groups = Groups(t=6)
    a, b, c = Reader(groups, "a", holds=True), Reader(groups, "b"), Reader(groups, "c")
    a.join(rebalance_timeout_ms=10_000)
    groups.wait(1_000)
    b.join()
    a.beat()
    groups.wait(9_000)
    c.join()
    groups.wait(500)
    a.let_go()
    a.beat()
    assert groups.member("a").state is MemberState.UNREVOKED, "the next assignment takes more from it"
    groups.wait(9_000)
    a.beat()
    groups.wait(2_000)
    with pytest.raises(errors.FencedMemberEpochError):
        a.beat()


def test_ids_of_ended_memberships_are_kept_in_bounds() -> None:
    groups = Groups(Limits(max_left_members=3))
    keeper = Reader(groups, "keeper")
    keeper.join()
    for n in range(6):
        one = Reader(groups, f"m{n}")
        one.join()
        one.leave()
        groups.wait(500)
        keeper.beat()
    assert list(groups.table.groups.groups[GROUP].left) == ["m3", "m4", "m5"]
    groups.fail_over()


def test_a_group_without_members_is_removed_with_its_offsets_after_its_time() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    groups.do(CommitOffsets(Member(GROUP, "a", a.epoch), 0, (OFFSET,)))
    a.leave()
    groups.wait(6 * DAY_MS)
    assert GROUP in groups.table.groups.groups
    groups.wait(2 * DAY_MS)
    assert GROUP not in groups.table.groups.groups
    assert GROUP not in groups.table.offsets.groups
    groups.fail_over()
    assert GROUP not in groups.table.groups.groups


def test_operators_see_when_a_group_without_members_goes() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    groups.do(CommitOffsets(Member(GROUP, "a", a.epoch), 0, (OFFSET,)))
    assert groups.do(DescribeGroup(GROUP)).membership.expires_ms == 0, "members are there"
    a.leave()
    promised_ms = groups.now_ms + 7 * DAY_MS
    assert groups.do(DescribeGroup(GROUP)).membership.expires_ms == promised_ms
    groups.wait(5 * DAY_MS)
    groups.do(CommitOffsets(Member(GROUP), 0, (OFFSET,)))
    promised_ms = groups.now_ms + 7 * DAY_MS
    assert groups.do(DescribeGroup(GROUP)).membership.expires_ms == promised_ms, "a commit counts as use"
    groups.now_ms = promised_ms - 1
    groups.do(Tick())
    assert GROUP in groups.table.offsets.groups
    groups.now_ms = promised_ms + 1_000
    groups.do(Tick())
    assert GROUP not in groups.table.offsets.groups, "not earlier, and about then"
    assert groups.do(DescribeGroup(GROUP)).membership.expires_ms == 0


def test_a_group_stays_while_its_offsets_are_used() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    a.leave()
    groups.wait(5 * DAY_MS)
    groups.do(CommitOffsets(Member(GROUP), 0, (OFFSET,)))
    groups.wait(3 * DAY_MS)
    assert GROUP in groups.table.offsets.groups
    groups.do(SendOffsets(TxnName("x", 1, 1, 0), 0, Member(GROUP), 1, (OFFSET,)))
    assert groups.table.offsets.expiry_of(GROUP, groups.now_ms) is None
    b = Reader(groups, "b")
    b.join()
    settle(groups, b)
    for _ in range(3):
        groups.wait(40_000)
        b.beat()
    assert b.reading == {part("t", n) for n in range(4)}


def looks(groups: Groups, ms: int) -> int:
    """The looks at groups of a time in which nothing else happens."""
    end_ms, count = groups.now_ms + ms, 0
    while (due_ms := groups.table.groups.next_deadline_ms()) is not None and due_ms <= end_ms:
        groups.now_ms = max(groups.now_ms, due_ms)
        groups.do(Tick())
        count += 1
        assert count < 1_000, "the group is looked at again and again"
    groups.now_ms = end_ms
    return count


def test_a_group_that_is_kept_by_commits_is_looked_at_when_it_may_expire() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    a.leave()
    count = 0
    for _ in range(30):
        groups.do(CommitOffsets(Member(GROUP), 0, (OFFSET,)))
        count += looks(groups, DAY_MS)
    assert count <= 7, "one for the id of the member that left, and one in about a week"
    count = looks(groups, 6 * DAY_MS - 1)
    assert GROUP in groups.table.offsets.groups
    assert count + looks(groups, 2) <= 2
    assert GROUP not in groups.table.offsets.groups


def test_a_group_that_a_transaction_keeps_is_looked_at_now_and_then_and_goes_after_it() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    a.leave()
    groups.do(SendOffsets(TxnName("x", 1, 1, 0), 0, Member(GROUP), 1, (OFFSET,)))
    looks(groups, 7 * DAY_MS)
    assert looks(groups, 60_000) <= 2 * 60_000 // groups.limits.group_resolve_after_ms + 1
    groups.do(GroupMarker(GROUP, 1, 1, False, 0, 1))
    looks(groups, groups.limits.group_resolve_after_ms)
    assert GROUP not in groups.table.groups.groups


def test_a_group_that_cannot_be_assigned_yet_is_not_asked_about_again_and_again() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    groups.fail_over(sees_topics=False)
    groups.revision = -5
    groups.see(t=4, u=1)
    Reader(groups, "b").join()
    assert looks(groups, 9_000) <= 3, "its topics seem to be older than those of the assignment"
    assert groups.table.groups.view(GROUP).state is GroupState.ASSIGNING
    assert looks(groups, 3_000) <= 3
    assert groups.table.groups.view(GROUP).state is GroupState.RECONCILING


def test_offsets_of_a_group_that_never_had_members_do_not_expire() -> None:
    groups = Groups()
    groups.do(CommitOffsets(Member("simple"), 0, (OFFSET,)))
    groups.wait(30 * DAY_MS)
    assert "simple" in groups.table.offsets.groups
