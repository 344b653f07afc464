"""Says which member may commit which offsets. It reads the members of a shard's groups and changes nothing.

Rule 1: an offset is committed for a partition by the member that owns it, in an epoch from the partition's own to the member's
        (KIP-1251).
Rule 2: while a group has members, only they commit.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.errors import FencedMemberEpochError, NonEmptyGroupError, OncelogError, StaleMemberEpochError
from oncelog.types import PartitionId
from oncelog_coordinator.core.groups import membership
from oncelog_coordinator.core.groups.group import Draft, Group
from oncelog_coordinator.core.groups.group_records import GroupRecord
from oncelog_coordinator.core.offsets.offset_commands import Member


class MemberFences:
    """Reads the groups of one shard by id, as they are at the moment of a call."""

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self._groups = groups

    def require_member(self, member: Member) -> None:
        """Raises the named error unless this member may commit offsets of the group."""
        group = self._groups.get(member.group_id)
        if not member.member_id:
            if group is not None and group.members:
                raise NonEmptyGroupError(
                    "the group has members, and only they commit its offsets: stop them first, or use another group id",
                    group=member.group_id,
                    members=len(group.members),
                )
            return
        found = membership.require_member(Draft(group or Group(GroupRecord(member.group_id))), member.member_id)
        if found.is_away or member.member_epoch > found.epoch:
            raise FencedMemberEpochError(
                "the member's epoch is not the one that the group knows: nothing was committed",
                member_epoch=member.member_epoch,
                current_epoch=found.epoch,
            )

    def refusal(self, member: Member, partition: PartitionId) -> OncelogError | None:
        """Returns why a member that may commit may not commit for this partition; None = it may."""
        if not member.member_id:
            return None
        found = self._groups[member.group_id].members[member.member_id]
        owned_since = found.assigned.get(partition, found.revoking.get(partition))
        if owned_since is not None and owned_since <= member.member_epoch:
            return None
        return StaleMemberEpochError(
            "the member does not own this partition (in this epoch): its new owner goes on from the offset that was "
            "committed before, so leave it alone",
            topic_id=partition.topic_id,
            partition=partition.partition,
            member_epoch=member.member_epoch,
            owned_since_epoch=-1 if owned_since is None else owned_since,
        )
