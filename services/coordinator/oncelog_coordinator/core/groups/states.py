"""The states of a group and of its members, and every legal step of a member. Nothing else decides what is legal.

A member's state says how far its own partitions are from its target:

    STABLE       it owns exactly its target, in the epoch of the assignment
    UNREVOKED    it has to let partitions go, and has not said yet that it did; its epoch stays
    UNRELEASED   it has let go what it had to; it waits for partitions that another member still owns
    AWAY         a static member that has left and may come back: its partitions wait for it
    LEFT         the membership has ended; its id is kept for a while, so that a late copy of the join cannot revive it
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class MemberState(StrEnum):
    """The state of one membership."""

    STABLE = "STABLE"
    UNREVOKED = "UNREVOKED"
    UNRELEASED = "UNRELEASED"
    AWAY = "AWAY"
    LEFT = "LEFT"


class GroupState(StrEnum):
    """The state of a group as shown to operators; it follows from its members and epochs."""

    EMPTY = "EMPTY"
    """No members; committed offsets, perhaps."""
    ASSIGNING = "ASSIGNING"
    """Members or topics have changed, and the next assignment is not computed yet."""
    RECONCILING = "RECONCILING"
    """Some member does not own its target yet."""
    STABLE = "STABLE"


class Trigger(StrEnum):
    """The request or event that moves a member."""

    RECONCILE = "a heartbeat, after a new assignment"
    APPLIED = "a heartbeat that says that the partitions were let go"
    RELEASED = "a heartbeat, after another member has let go"
    AWAY = "a leave with epoch -2"
    LEAVE = "a leave with epoch -1"
    TIMEOUT = "the end of the session, or of the time to let partitions go"
    REPLACED = "a join with the same instance id"


_M = MemberState
_T = Trigger
_ENDS: Final = (_T.LEAVE, _T.TIMEOUT)

TRANSITIONS: Final[dict[tuple[MemberState, MemberState], tuple[Trigger, ...]]] = {
    (_M.STABLE, _M.UNREVOKED): (_T.RECONCILE,),
    (_M.STABLE, _M.UNRELEASED): (_T.RECONCILE,),
    (_M.UNREVOKED, _M.STABLE): (_T.APPLIED,),
    (_M.UNREVOKED, _M.UNRELEASED): (_T.APPLIED,),
    (_M.UNRELEASED, _M.STABLE): (_T.RELEASED, _T.RECONCILE),
    (_M.UNRELEASED, _M.UNREVOKED): (_T.RECONCILE,),
    (_M.STABLE, _M.AWAY): (_T.AWAY,),
    (_M.UNREVOKED, _M.AWAY): (_T.AWAY,),
    (_M.UNRELEASED, _M.AWAY): (_T.AWAY,),
    (_M.STABLE, _M.LEFT): _ENDS,
    (_M.UNREVOKED, _M.LEFT): _ENDS,
    (_M.UNRELEASED, _M.LEFT): _ENDS,
    (_M.AWAY, _M.LEFT): (*_ENDS, _T.REPLACED),
}
"""(from, to) -> triggers. A member begins as STABLE or UNRELEASED."""


def is_legal(old: MemberState, new: MemberState) -> bool:
    """True when a record may move a member from `old` to `new`; no change is always legal."""
    return old is new or (old, new) in TRANSITIONS
