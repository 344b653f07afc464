"""Decides about one heartbeat: a member joins, goes on, or leaves.

Rule 1: a member id is for one membership. A copy of a join that comes while the membership goes on is answered and changes
        nothing; one that comes after its end is refused.
Rule 2: the epoch of a heartbeat is the member's, or the one that the member knew before, since the answer with the new
        one may be lost. Any other epoch is fenced, and changes nothing.
Rule 3: what a member says of itself it says once: a subscription has a version, an assignment a number, and a late copy of
        an older one is not heeded.
Rule 4: a static member that is away keeps its partitions until its session ends or a join brings its instance id back. The
        join takes everything over, without a new epoch when it subscribes to the same.
"""

from __future__ import annotations

from dataclasses import replace

from oncelog.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    InvalidRequestError,
    OncelogError,
    UnknownMemberError,
    UnreleasedInstanceIdError,
)
from oncelog_coordinator.core.groups.group import Draft
from oncelog_coordinator.core.groups.group_commands import Heartbeat, Join
from oncelog_coordinator.core.groups.group_records import MemberRecord, Subscription
from oncelog_coordinator.core.groups.states import MemberState
from oncelog_coordinator.core.groups.subscriptions import check_join, check_member_id, require_room
from oncelog_coordinator.core.limits import Limits

LEAVE = -1
AWAY = -2


def take(draft: Draft, command: Heartbeat, now_ms: int, limits: Limits) -> None:
    """Changes the draft as the heartbeat says; a new assignment, and the member's next step, come after it. Raises."""
    check_member_id(command.member_id)
    if command.epoch == 0:
        _join(draft, command, now_ms, limits)
    elif command.epoch in (LEAVE, AWAY):
        _leave(draft, command, now_ms)
    else:
        _go_on(draft, command, limits)


def require_member(draft: Draft, member_id: str) -> MemberRecord:
    """Returns the membership. Raises the named error when it has ended, or never was."""
    member = draft.find(member_id)
    if member is not None:
        return member
    ended = draft.group.left.get(member_id)
    if ended is None:
        raise UnknownMemberError(
            "the group does not know this member: join it with epoch 0 and a new member id", member_id=member_id
        )
    raise _ended(draft, ended)


def _ended(draft: Draft, ended: MemberRecord) -> OncelogError:
    instance = ended.identity.instance_id
    others = (member for member in draft.members() if member.member_id != ended.member_id)
    if instance and any(member.identity.instance_id == instance for member in others):
        return FencedInstanceIdError(
            "another member has this instance id now: give each process one of its own", instance_id=instance
        )
    return FencedMemberEpochError(
        "this membership has ended (it left, or was not heard of for too long): let go of all partitions, and join with "
        "epoch 0 and a new member id",
        member_id=ended.member_id,
    )


# ---------------------------------------------------------------- joining


def _join(draft: Draft, command: Heartbeat, now_ms: int, limits: Limits) -> None:
    if command.join is None:
        raise InvalidRequestError("a join says what the member subscribes to")
    check_join(command.join, limits)
    known = draft.find(command.member_id)
    if known is not None and not known.is_away:
        return  # rule 1: a copy, or the retry of a join whose answer was lost
    if known is not None or command.member_id in draft.group.left:
        raise _ended(draft, known or draft.group.left[command.member_id])
    before = _before(draft, command.join, now_ms)
    member = _begun(draft, command, before)
    others = (other for other in draft.members() if before is None or other.member_id != before.member_id)
    require_room(member, others, limits)
    draft.record = replace(draft.record, slots=member.slot, emptied_ms=0)
    if before is not None:
        draft.end(before, now_ms)
    draft.put(member)
    if before is None or not _goes_on_alike(before, member):
        draft.raise_epoch()


def _before(draft: Draft, join: Join, now_ms: int) -> MemberRecord | None:
    """Returns the membership that a static member goes on with. Raises while it has not ended."""
    instance = join.identity.instance_id
    found = (member for member in draft.members() if instance and member.identity.instance_id == instance)
    before = next(found, None)
    if before is not None and not before.is_away:
        heard_ms = draft.group.heard_ms.get(before.member_id, now_ms)
        raise UnreleasedInstanceIdError(
            "a member with this instance id has not left: stop it, or wait until its session has ended",
            retry_after_ms=1_000,
            instance_id=instance,
            not_heard_of_for_ms=max(0, now_ms - heard_ms),
        )
    return before


def _begun(draft: Draft, command: Heartbeat, before: MemberRecord | None) -> MemberRecord:
    assert command.join is not None
    member = MemberRecord(
        command.group_id,
        command.member_id,
        draft.record.slots + 1,
        command.join.identity,
        command.join.subscription,
    )
    if before is None:
        return member
    return replace(
        member,
        state=MemberState.STABLE if before.assigned.keys() == before.target else MemberState.UNRELEASED,
        epoch=before.epoch,
        number=1,
        assigned=before.assigned,
        target=before.target,
    )


# ---------------------------------------------------------------- going on and leaving


def _go_on(draft: Draft, command: Heartbeat, limits: Limits) -> None:
    member = require_member(draft, command.member_id)
    _check_epoch(member, command)
    if not 0 <= command.applied <= command.received <= member.number:
        raise InvalidRequestError(
            "a member applies what it has received, and receives what it was sent",
            received=command.received,
            applied=command.applied,
            newest=member.number,
        )
    join = command.join
    if join is None or join.subscription.version <= member.subscription.version:
        return  # rule 3
    check_join(join, limits)
    changed = replace(member, subscription=join.subscription)
    require_room(changed, draft.members(), limits)
    draft.put(changed)
    if _wants_else(member.subscription, join.subscription):
        draft.raise_epoch()


def _check_epoch(member: MemberRecord, command: Heartbeat) -> None:
    if member.is_away or command.epoch not in (member.epoch, member.previous_epoch):
        raise FencedMemberEpochError(
            "the member's epoch is not the one that the group knows: let go of all partitions, leave with epoch -1, and "
            "join with epoch 0 and a new member id",
            member_epoch=command.epoch,
            current_epoch=member.epoch,
        )


def _wants_else(before: Subscription, now: Subscription) -> bool:
    return (before.topics, before.pattern, before.assignor) != (now.topics, now.pattern, now.assignor)


def _goes_on_alike(before: MemberRecord, member: MemberRecord) -> bool:
    """True when a static member has come back with what the assignment was computed from."""
    return not _wants_else(before.subscription, member.subscription) and before.identity.rack == member.identity.rack


def _leave(draft: Draft, command: Heartbeat, now_ms: int) -> None:
    if command.member_id in draft.group.left:
        return  # a copy
    member = require_member(draft, command.member_id)
    if command.epoch == AWAY:
        _go_away(draft, member)
        return
    draft.end(member, now_ms)
    draft.raise_epoch()


def _go_away(draft: Draft, member: MemberRecord) -> None:
    if not member.identity.instance_id:
        raise InvalidRequestError("epoch -2 is for static members: leave with epoch -1")
    kept = {partition: epoch for partition, epoch in member.assigned.items() if partition in member.target}
    draft.put(replace(member, state=MemberState.AWAY, assigned=kept, revoking={}))
