"""The states of a group's member on the client, and every move between them: one table. Nothing else changes a state.

OUTSIDE   The consumer is no member: it has not read yet, or its membership was refused, or it did not read for too long.
JOINING   A join was sent, or is about to be. The member owns nothing.
STABLE    The member owns what its newest assignment says.
CHANGING  A newer assignment has come. The next read carries it out, because what was read before that is processed by then.
LEAVING   This client tells the coordinator that the member goes. The member owns nothing.
OVER      The coordinator knows it, or did not answer in time. A new subscription makes a new member.

Rule: an incident that a state does not list is a mistake of the code around the core, so it is an `AssertionError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final


class MemberState(Enum):
    """See the module."""

    OUTSIDE = "outside"
    JOINING = "joining"
    STABLE = "stable"
    CHANGING = "changing"
    LEAVING = "leaving"
    OVER = "over"


class MemberIncident(StrEnum):
    """The incidents of a membership. The first group comes from the consumer, the second from the coordinator or from time."""

    READ = "read"
    """The consumer is asked for records."""
    CARRIED_OUT = "carried out"
    """The consumer reads what the newest assignment says, and nothing else."""
    LEAVE = "leave"
    """The consumer is closed, or its subscription is given up."""
    WELCOME = "welcome"
    """The join was answered."""
    ASSIGNMENT = "assignment"
    FENCED = "fenced"
    """The coordinator has ended this membership."""
    SILENCE = "silence"
    """No heartbeat was answered within the session time-out: the coordinator may have ended this membership."""
    REFUSAL = "refusal"
    """The coordinator does not take this member, and a repeated heartbeat would not change that."""
    IDLE = "idle"
    """The consumer did not read for `max_poll_interval_ms`."""
    LEFT = "left"
    """The leave was answered, or nothing more can be done about it."""


_S, _I = MemberState, MemberIncident

MEMBER_TRANSITIONS: Final[Mapping[MemberState, Mapping[MemberIncident, MemberState]]] = {
    _S.OUTSIDE: {
        _I.READ: _S.JOINING,
        _I.LEAVE: _S.OVER,
    },
    _S.JOINING: {
        _I.READ: _S.JOINING,
        _I.WELCOME: _S.STABLE,
        _I.FENCED: _S.JOINING,
        _I.REFUSAL: _S.OUTSIDE,
        _I.IDLE: _S.OUTSIDE,
        _I.LEAVE: _S.LEAVING,  # the join may have arrived
    },
    _S.STABLE: {
        _I.READ: _S.STABLE,
        _I.ASSIGNMENT: _S.CHANGING,
        _I.FENCED: _S.JOINING,
        _I.SILENCE: _S.JOINING,
        _I.REFUSAL: _S.OUTSIDE,
        _I.IDLE: _S.OUTSIDE,
        _I.LEAVE: _S.LEAVING,
    },
    _S.CHANGING: {
        _I.READ: _S.CHANGING,
        _I.ASSIGNMENT: _S.CHANGING,
        _I.CARRIED_OUT: _S.STABLE,
        _I.FENCED: _S.JOINING,
        _I.SILENCE: _S.JOINING,
        _I.REFUSAL: _S.OUTSIDE,
        _I.IDLE: _S.OUTSIDE,
        _I.LEAVE: _S.LEAVING,
    },
    _S.LEAVING: {
        _I.LEFT: _S.OVER,
    },
    _S.OVER: {
        _I.LEAVE: _S.OVER,
    },
}
"""The only place of a move."""
