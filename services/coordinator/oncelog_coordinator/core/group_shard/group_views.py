"""Shows the groups of a shard to operators: the members of each group together with its offsets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from oncelog_coordinator.core.decision import Command
from oncelog_coordinator.core.groups.group_commands import Membership
from oncelog_coordinator.core.groups.group_table import GroupTable
from oncelog_coordinator.core.groups.timeouts import expires_ms
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_records import CommittedOffset, PendingOffsets
from oncelog_coordinator.core.offsets.offset_table import OffsetTable


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as shown to operators: its members, committed offsets by partition, and pending ones by transaction."""

    group_id: str
    offsets: tuple[CommittedOffset, ...]
    pending: tuple[PendingOffsets, ...]
    membership: Membership


@dataclass(frozen=True, slots=True)
class ListGroups(Command[tuple[GroupView, ...]]):
    """Lists all groups with a member, or with an offset, committed or pending."""


@dataclass(frozen=True, slots=True)
class DescribeGroup(Command[GroupView]):
    """Describes one group; the view of an unknown group is empty."""

    group_id: str


def listed(groups: GroupTable, offsets: OffsetTable) -> tuple[GroupView, ...]:
    """Returns the groups with members or offsets, by id."""
    ids = {*offsets.used(), *(name for name, group in groups.groups.items() if group.members)}
    return tuple(_view(name, groups, offsets) for name in sorted(ids))


def described(group_id: str, groups: GroupTable, offsets: OffsetTable, limits: Limits) -> GroupView:
    """Returns a group in full, with the time at which it expires."""
    view = _view(group_id, groups, offsets)
    committed_ms = max((offset.committed_ms for offset in view.offsets), default=0)
    ends_ms = expires_ms(view.membership.record, committed_ms, limits)
    return replace(view, membership=replace(view.membership, expires_ms=ends_ms))


def _view(group_id: str, groups: GroupTable, offsets: OffsetTable) -> GroupView:
    return GroupView(group_id, offsets.committed_of(group_id), offsets.pending_of(group_id), groups.view(group_id))
