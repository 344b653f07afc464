"""Groups as operators see them: listed, and described with members and offsets."""

from __future__ import annotations

from oncelog_coordinator.core.group_shard.group_views import DescribeGroup, ListGroups
from oncelog_coordinator.core.groups.states import GroupState
from oncelog_coordinator.core.offsets.offset_commands import CommitOffsets, DeleteOffsets, Member
from oncelog_coordinator.core.offsets.offset_records import OffsetValue
from tests.unit.coordinator.group_driver import GROUP, Groups, Reader, commit, part, topic_id

OFFSET = OffsetValue(topic_id("t"), "t", 0, 5)


def test_groups_are_listed_with_members_or_with_offsets() -> None:
    groups = Groups()
    groups.do(CommitOffsets(Member("only-offsets"), 0, (OFFSET,)))
    Reader(groups, "a", group_id="only-members").join()
    found = {view.group_id: view.membership.state for view in groups.do(ListGroups())}
    assert found == {"only-members": GroupState.STABLE, "only-offsets": GroupState.EMPTY}


def test_a_group_that_was_left_and_deleted_is_not_listed() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    commit(a, part("t", 0), 1)
    a.leave()
    assert [view.group_id for view in groups.do(ListGroups())] == [GROUP]
    groups.do(DeleteOffsets(GROUP))
    assert groups.do(ListGroups()) == ()


def test_a_group_is_described_with_its_members() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    view = groups.do(DescribeGroup(GROUP))
    assert [member.member_id for member in view.membership.members] == ["a"]
    assert groups.last.confirm
    assert groups.do(DescribeGroup("nobody")).membership.members == ()
