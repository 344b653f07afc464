"""Decides about the controller's role: whether a broker claims, holds or leaves it, and what work it has then.

Rule 1: a broker claims the role when no broker holds it, its holder is not registered any more, or its holder was found dead.
Rule 2: a broker that drains leaves the role to others, while there are others.
Rule 3: a broker that reaches fewer than half of the brokers claims nothing: the others may be cut off from it.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, Flag, auto
from typing import Final, NamedTuple

from oncelog.types import BrokerRef
from oncelog_runtime.metadata import cluster_keys


class Campaign(Enum):
    """The step of a broker that does not serve as controller."""

    NOT_READY = "it is not registered, or has not read etcd: it looks again after a pause"
    HOLDS = "etcd names it: it serves"
    STAY_OUT = "the role is another broker's: it waits for a change"
    CUT_OFF = "it reaches too few brokers: it looks again after a pause"
    CLAIM = "it writes the controller's key"


class CampaignFacts(NamedTuple):
    """The facts at one instant. `holder`: in etcd; `overthrows`: the holder that was found dead, whose role is taken."""

    is_ready: bool
    me: BrokerRef
    holder: BrokerRef | None
    holder_is_registered: bool
    overthrows: BrokerRef | None
    must_not_lead: bool
    is_minority: bool


def campaign(facts: CampaignFacts) -> Campaign:
    """Returns the step that is due."""
    holder = facts.holder
    if not facts.is_ready:
        return Campaign.NOT_READY
    if holder == facts.me:
        return Campaign.HOLDS
    if facts.must_not_lead:
        return Campaign.STAY_OUT
    if holder is not None and facts.holder_is_registered and holder != facts.overthrows:
        return Campaign.STAY_OUT
    return Campaign.CUT_OFF if facts.is_minority else Campaign.CLAIM


def must_not_lead(me: BrokerRef, draining: BrokerRef | None, registered: Collection[int]) -> bool:
    """Returns True when this broker drains and another one could be the controller."""
    return draining == me and any(broker_id != me.broker_id for broker_id in registered)


class Look(Flag):
    """The work that a changed key of etcd may have made due."""

    NOTHING = 0
    PARTITION = auto()
    """The election of the one partition that the key names."""
    ELECTIONS = auto()
    TOPICS = auto()
    ROLE = auto()


_LOOKS: Final = (
    (cluster_keys.PARTITIONS, Look.PARTITION),
    (cluster_keys.BROKERS, Look.ELECTIONS | Look.TOPICS),
    (cluster_keys.TOPICS, Look.TOPICS),
    (cluster_keys.DELETED_TOPICS, Look.TOPICS),
    (cluster_keys.BROKER_DRAIN_KEY, Look.ELECTIONS),
    (cluster_keys.DECOMMISSIONS, Look.TOPICS),
    (cluster_keys.SESSION_KEY, Look.NOTHING),
    (cluster_keys.CONTROLLER_KEY, Look.ROLE),
)
"""Key, or prefix of keys with "/" at its end, and the work. Other keys do not concern the controller."""


def look_after(key: str) -> Look | None:
    """Returns the work that a change of this key may have made due; None: the controller need not even wake."""
    for known, look in _LOOKS:
        if key.startswith(known) if known.endswith("/") else key == known:
            return look
    return None


class Duty(Enum):
    """A piece of the controller's work besides elections, in the order in which they are done."""

    FOUND_CLUSTER = 1
    WRITE_SESSION_KEY = 2
    RECONCILE_TOPICS = 3
    MOVE_REPLICAS = 4


class DutyFacts(NamedTuple):
    """The facts at one instant. `topics_dirty`, `moves_dirty`: something of theirs has changed."""

    has_cluster: bool
    has_session_key: bool
    topics_dirty: bool
    moves_dirty: bool


def is_due(duty: Duty, facts: DutyFacts) -> bool:
    """Returns True when this piece of work must be done now."""
    if duty is Duty.FOUND_CLUSTER:
        return not facts.has_cluster
    if duty is Duty.WRITE_SESSION_KEY:
        return not facts.has_session_key
    if duty is Duty.RECONCILE_TOPICS:
        return facts.topics_dirty and facts.has_cluster
    return facts.moves_dirty
