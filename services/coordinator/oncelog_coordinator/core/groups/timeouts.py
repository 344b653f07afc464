"""Decides when a membership, or a group without members, runs out of time.

Rule 1: a member that was not heard of for `group_session_timeout_ms` has left, and so has one that takes longer than its
        rebalance time-out to let partitions go: the others wait no longer. Each assignment that takes something from it
        begins that time again.
Rule 2: these clocks are volatile, so a fail-over begins them again: a time-out may come late, and never early.
Rule 3: the id of an ended membership is kept for `group_forget_member_ms`, longer than any copy of its join can be under way.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog_coordinator.core.groups.group import Group
from oncelog_coordinator.core.groups.group_records import GroupRecord, MemberRecord
from oncelog_coordinator.core.limits import Limits


def ends_ms(group: Group, member: MemberRecord, limits: Limits) -> int:
    """Returns when the membership ends unless something is heard or let go."""
    silent_ms = group.heard_ms.get(member.member_id, 0) + limits.group_session_timeout_ms
    revoking = group.revoking_since_ms.get(member.member_id)
    if revoking is None:
        return silent_ms
    _, since_ms = revoking
    timeout_ms = member.subscription.rebalance_timeout_ms or limits.default_rebalance_timeout_ms
    return min(silent_ms, since_ms + timeout_ms)


def ended_by_time(group: Group, now_ms: int, limits: Limits) -> Iterator[MemberRecord]:
    """Yields the members whose time is up."""
    for member in group.members.values():
        if ends_ms(group, member, limits) <= now_ms:
            yield member


def forgotten_by_time(group: Group, now_ms: int, limits: Limits) -> Iterator[MemberRecord]:
    """Yields the ended memberships whose ids need not be kept; of very many, also the oldest ones."""
    oldest_first = sorted(group.left.values(), key=lambda member: (member.left_ms, member.slot))
    too_many = len(oldest_first) - limits.max_left_members
    for at, member in enumerate(oldest_first):
        if at < too_many or now_ms - member.left_ms >= limits.group_forget_member_ms:
            yield member


def next_due_ms(group: Group, limits: Limits) -> int | None:
    """Returns when a membership, or the id of an ended one, runs out of time; None = never."""
    due = [ends_ms(group, member, limits) for member in group.members.values()]
    if group.left:
        oldest_ms = min(member.left_ms for member in group.left.values())
        due.append(oldest_ms + (0 if len(group.left) > limits.max_left_members else limits.group_forget_member_ms))
    return min(due, default=None)


def expires_ms(record: GroupRecord, committed_ms: int, limits: Limits) -> int:
    """Returns the earliest time at which a group without members is removed with its offsets; 0 = it is kept.

    `committed_ms`: when the newest of its offsets was committed. An open transaction that holds an offset makes it later.
    """
    if not record.emptied_ms:
        return 0
    return max(record.emptied_ms, committed_ms) + limits.group_retention_ms


def looked_at_for_expiry_ms(record: GroupRecord, used_ms: int | None, now_ms: int, limits: Limits) -> int | None:
    """Returns when a group without members may have expired, or may first be found free to; None = it is kept.

    `used_ms`: as `committed_ms`; None while an open transaction holds an offset: its end is not known yet. Such a group is
    looked at about as often as the outcome of that transaction is asked for.
    """
    expiry_ms = expires_ms(record, used_ms or 0, limits)
    if not expiry_ms or used_ms is not None:
        return expiry_ms or None
    return max(expiry_ms, now_ms + limits.group_resolve_after_ms)
