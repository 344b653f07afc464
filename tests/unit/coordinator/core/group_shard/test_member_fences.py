"""Fences of commits: who may commit for which partition, and in which epochs."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.types import PartitionId
from oncelog_coordinator.core.offsets.offset_commands import CommitOffsets, FetchOffsets, Member, SendOffsets
from oncelog_coordinator.core.transactions.commands import TxnName
from tests.unit.coordinator.group_driver import GROUP, Groups, Reader, commit, committed, pair, part, settle, value

ALL = {part("t", number) for number in range(4)}


def test_a_commit_counts_from_the_partitions_epoch_to_the_members() -> None:
    groups = Groups()
    a, b = pair(groups)
    mine = min(a.reading)
    early = a.epoch
    commit(a, mine, 5)
    for name in ("c", "d"):
        other = Reader(groups, name)
        other.join()
        settle(groups, a, b, other)
    assert mine in a.reading
    commit(a, mine, 6, epoch=early)  # the member has moved on, and still owns it
    with pytest.raises(errors.FencedMemberEpochError):
        commit(a, mine, 7, epoch=a.epoch + 1)
    assert committed(groups, mine) == 6


def test_a_commit_for_a_partition_that_was_handed_over_is_refused() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    groups.wait(1_000)
    b = Reader(groups, "b")
    b.join()
    settle(groups, a, b)
    gone = min(b.reading)
    commit(b, gone, 9)
    with pytest.raises(errors.StaleMemberEpochError, match="does not own"):
        commit(a, gone, 5)
    assert committed(groups, gone) == 9


def test_a_partition_that_comes_back_has_a_new_epoch() -> None:
    groups = Groups(t=1)
    a = Reader(groups, "a")
    a.join()
    early = a.epoch
    b = Reader(groups, "b")
    b.join()
    settle(groups, a, b)
    groups.see(t=3)
    settle(groups, a, b)
    b.leave()
    settle(groups, a)
    late = max(a.reading, key=lambda partition: groups.member("a").assigned[partition])
    with pytest.raises(errors.StaleMemberEpochError):
        commit(a, late, 1, epoch=early)
    commit(a, late, 1)


def test_a_member_commits_what_it_lets_go_until_it_says_so() -> None:
    groups = Groups()
    a, b = Reader(groups, "a", holds=True), Reader(groups, "b")
    a.join()
    a.let_go()
    groups.wait(1_000)
    b.join()
    kept = set(a.beat().assigned or ())
    gone = min(ALL - kept)
    commit(a, gone, 3)
    a.let_go()
    a.beat()
    with pytest.raises(errors.StaleMemberEpochError):
        commit(a, gone, 4)


def test_only_members_commit_while_there_are_some() -> None:
    groups = Groups()
    simple = CommitOffsets(Member(GROUP), 0, (value(part("t", 0), 1),))
    groups.do(simple)
    a, b = pair(groups)
    with pytest.raises(errors.NonEmptyGroupError, match="stop them first"):
        groups.do(simple)
    with pytest.raises(errors.UnknownMemberError):
        groups.do(CommitOffsets(Member(GROUP, "x", 1), 0, (value(part("t", 0), 1),)))
    with pytest.raises(errors.UnknownMemberError):
        groups.do(CommitOffsets(Member("nobody", "x", 1), 0, (value(part("t", 0), 1),)))
    a.leave()
    with pytest.raises(errors.FencedMemberEpochError):
        commit(a, min(a.reading, default=part("t", 0)), 1)
    b.leave()
    groups.do(simple)


def test_a_member_of_a_group_that_has_expired_commits_nothing() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    commit(a, part("t", 0), 5)
    a.leave()
    groups.wait(groups.limits.group_retention_ms + 1_000)
    with pytest.raises(errors.UnknownMemberError, match="join it"):
        commit(a, part("t", 0), 6)
    assert groups.do(FetchOffsets(GROUP, (part("t", 0),))) == ()


def test_an_offset_in_a_transaction_is_fenced_like_a_plain_one() -> None:
    groups = Groups()
    a, b = Reader(groups, "a"), Reader(groups, "b")
    a.join()
    b.join()
    groups.wait(1_000)

    def send(member: Member, partition: PartitionId) -> None:
        groups.do(SendOffsets(TxnName("x", 1, 1, 0), 0, member, 1, (value(partition, 1),)))

    send(Member(GROUP, "a", a.epoch), part("t", 0))  # the group has not settled
    settle(groups, a, b)
    theirs = min(b.reading)
    with pytest.raises(errors.StaleMemberEpochError):
        send(Member(GROUP, "a", a.epoch), theirs)
    with pytest.raises(errors.NonEmptyGroupError):
        send(Member(GROUP), theirs)


def test_one_partition_that_is_not_owned_does_not_fail_the_others() -> None:
    groups = Groups()
    a, b = pair(groups)
    mine, theirs = min(a.reading), min(b.reading)
    both = (value(mine, 1), value(theirs, 1))
    member = Member(GROUP, "a", a.epoch)
    (failed,) = groups.do(CommitOffsets(member, 0, both))
    assert failed.value.id == theirs
    with pytest.raises(errors.StaleMemberEpochError):
        groups.do(CommitOffsets(member, 0, (value(mine, 2), value(theirs, 2)), all_or_nothing=True))
    assert committed(groups, mine) == 1
