"""Decides about the drain of a coordinator: when it begins, how far it is, and whether the process may stop.

Rule 1: one coordinator drains at a time: it holds a leased key in etcd. Another one waits until the key is free.
Rule 2: the only coordinator is not drained, since no other could take its shards.
Rule 3: a drain is done when every shard has another owner.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple


class DrainPhase(StrEnum):
    """How far the drain is."""

    NOT_DRAINING = "NOT_DRAINING"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"


class DrainFacts(NamedTuple):
    """The facts at one instant. `wanted`: the drain has begun here; `unowned`: shards without an owner, in the cluster."""

    wanted: bool
    owned: int
    unowned: int
    has_lease: bool
    """This process is registered, or could be."""
    has_others: bool
    """Another coordinator is registered, so does not drain."""


def phase(facts: DrainFacts) -> DrainPhase:
    """Returns how far the drain is."""
    if not facts.wanted:
        return DrainPhase.NOT_DRAINING
    return DrainPhase.DRAINING if facts.owned or facts.unowned > 0 else DrainPhase.DRAINED


def reason(facts: DrainFacts) -> str:
    """Says what a drain waits for; empty when it waits for nothing."""
    if phase(facts) is not DrainPhase.DRAINING:
        return ""
    return f"{facts.owned} shards to hand over, {facts.unowned} without owner"


class Start(Enum):
    """The next step of a coordinator that is asked to drain."""

    DRAINS = "it drains already"
    WAIT = "another coordinator drains"
    SKIP = "there is no other coordinator (rule 2)"
    TAKE_KEY = "it takes the key"


def start_step(facts: DrainFacts, holder: str | None, address: str) -> Start:
    """Returns the step that starts the drain. `holder`: the node of the key, as far as is known; `address`: our own."""
    if facts.wanted:
        return Start.DRAINS
    if holder is not None and holder != address:
        return Start.WAIT
    return Start.TAKE_KEY if facts.has_others else Start.SKIP


def is_moot(facts: DrainFacts) -> bool:
    """Returns True when a process may stop without a drain: nothing to hand over, or no other coordinator to take it."""
    return not facts.has_lease or not facts.owned or not facts.has_others
