"""The commands and answers about members of groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Command, Effect, Note
from oncelog_coordinator.core.groups.group_records import GroupRecord, Identity, MemberRecord, Subscription
from oncelog_coordinator.core.groups.states import GroupState


@dataclass(frozen=True, slots=True)
class Join:
    """The first subscription of a member, or a changed one; `identity` counts only with the join."""

    subscription: Subscription
    identity: Identity = field(default_factory=Identity)


@dataclass(frozen=True, slots=True)
class Heartbeat(Command["HeartbeatReply"]):
    """A member joins (epoch 0), goes on, or leaves (-1; static members may be away with -2)."""

    is_vital: ClassVar[bool] = True
    group_id: str
    member_id: str
    epoch: int
    received: int = 0
    applied: int = 0
    join: Join | None = None


class HeartbeatReply(NamedTuple):
    """The answer to a heartbeat. `assigned` None: the assignment that the member has received still holds.

    `is_settled`: there is nothing for the member to do, so the answer may wait for news.
    """

    epoch: int
    number: int = 0
    assigned: tuple[PartitionId, ...] | None = None
    is_settled: bool = False


@dataclass(frozen=True, slots=True)
class Heard(Note):
    """Note: a heartbeat of this member came at `now_ms`."""

    group_id: str
    member_id: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class Assigned(Note):
    """Note: the assignment of this group was computed at `now_ms`, from the topics that were known then."""

    group_id: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class Compared(Note):
    """Note: the group was compared with the topics that are known now, and they are those of its assignment."""

    group_id: str


@dataclass(frozen=True, slots=True)
class LookedAtGroups(Note):
    """Note: a `Tick` looked at these groups at `now_ms`."""

    group_ids: tuple[str, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class Confirmed(Note):
    """Note: an append that proves the ownership was begun at `now_ms`."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class GroupNews(Effect):
    """Effect: heartbeats of these members that wait for news are looked at again; None = of all members."""

    group_id: str
    member_ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """The members of a group, as shown to operators. `expires_ms`: see `timeouts.expires_ms`."""

    state: GroupState = GroupState.EMPTY
    record: GroupRecord = field(default_factory=lambda: GroupRecord(""))
    members: tuple[MemberRecord, ...] = ()
    expires_ms: int = 0
