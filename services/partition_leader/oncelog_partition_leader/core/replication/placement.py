"""Which step a replica of this broker needs, by the present value of its partition in etcd and its present state here.

Rule 1: both decisions look only at present facts, so they may be asked at any time and any number of times.
Rule 2: a role is taken only under the incarnation that etcd names (hole 2).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from oncelog.types import BrokerRef
from oncelog_runtime.metadata.cluster_keys import Partition


class Placement(Enum):
    """The step that brings a replica where etcd has it."""

    NOTHING = "nothing: the replica is where it belongs, or a step is under way that ends with another look"
    CLOSE = "its topic is not in etcd: its log is closed, and trashed if the topic was deleted"
    LEAVE = "it was moved to other brokers: its log is removed, once etcd confirms that"
    OPEN = "its log is opened"
    SERVE = "its log is open: it gets its options and its role"


class PlacementFacts(NamedTuple):
    """The facts about one replica. `is_known`: etcd has the partition; `is_mine`: with a replica on this broker."""

    is_known: bool
    is_mine: bool
    has_topic: bool
    is_open: bool
    is_busy: bool
    """It is being opened, closed or removed."""


def placement(facts: PlacementFacts) -> Placement:
    """Returns the step that is due."""
    if not (facts.is_known and facts.is_mine):
        if facts.is_open and not facts.has_topic and not facts.is_busy:
            return Placement.CLOSE
        return Placement.LEAVE if facts.is_known and facts.has_topic else Placement.NOTHING
    if not facts.has_topic:
        return Placement.NOTHING
    if facts.is_open:
        return Placement.SERVE
    return Placement.NOTHING if facts.is_busy else Placement.OPEN


class Role(Enum):
    """The step that gives an open replica its role."""

    NONE = "its log has failed: it has no role until it is opened again"
    FOLLOW = "another broker leads, or none, or an earlier incarnation of this one"
    LEAD = "it begins to lead in this epoch"
    LEAD_ON = "it leads in this epoch already, and takes over the ISR"
    WAIT_TO_LEAD = "it leads as soon as the step that rewrites its log has ended"


class RoleFacts(NamedTuple):
    """The facts about one open replica. `leads_in`: the epoch of its present leadership; None = it does not lead."""

    has_failed: bool
    leads_in: int | None
    is_locked: bool


def role(state: Partition, me: BrokerRef, facts: RoleFacts) -> Role:
    """Returns the role that `state`, the partition's value in etcd, gives to `me`."""
    if facts.has_failed:
        return Role.NONE
    if state.leader != me or not me.incarnation:
        return Role.FOLLOW
    if facts.leads_in == state.leader_epoch:
        return Role.LEAD_ON
    return Role.WAIT_TO_LEAD if facts.is_locked else Role.LEAD


def ends_leadership(state: Partition, leads_in: int | None) -> bool:
    """Returns True when a replica that is to follow must stop leading; an older value of etcd ends no newer leadership."""
    return leads_in is not None and leads_in <= state.leader_epoch
