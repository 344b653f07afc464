"""Decides about a leader's message at its follower: which step it asks for, and when the answer counts.

Rule 1: a step that rewrites the log (a truncation, a reset), or reports its end after a sync, waits in a task of its own; data
        is appended at once, in the order in which it came.
Rule 2: in fsync mode only what is on disk is acknowledged. The leader's epoch is synced too, without any answer waiting for it.
"""

from __future__ import annotations

from enum import Enum


class FollowerStep(Enum):
    """The step that a message asks for. Its order: a reset names an offset too, and a hello comes alone."""

    RESET = "drop the log and begin at an offset, with the leader's producer state"
    TRUNCATE = "cut the log"
    REPORT = "tell where the log ends: the message is a hello"
    APPEND = "append the batches, if there are any, and take over the high watermark"

    @property
    def waits(self) -> bool:
        """True for a step that is a task of its own (rule 1)."""
        return self is not FollowerStep.APPEND


def follower_step(*, hello: bool, reset: bool, truncates: bool) -> FollowerStep:
    """Returns the step that a message asks for."""
    if reset:
        return FollowerStep.RESET
    if truncates:
        return FollowerStep.TRUNCATE
    return FollowerStep.REPORT if hello else FollowerStep.APPEND


def is_told_at_once(step: FollowerStep, *, wants_sync: bool, synced_end: int, log_end: int) -> bool:
    """Returns True for a hello before whose answer nothing has to be synced: thousands of them come in one request."""
    return step is FollowerStep.REPORT and not (wants_sync and synced_end < log_end)


class Acknowledge(Enum):
    """When the answer to data, or to a high watermark, counts."""

    NOW = 1
    NOW_AND_SYNC = 2
    """At once; a sync is requested all the same, for the epoch."""
    AFTER_SYNC = 3


def acknowledge(*, wants_sync: bool, synced_end: int, log_end: int, is_epoch_synced: bool) -> Acknowledge:
    """Returns when a log end may be acknowledged. `wants_sync`: the leader or etcd says that the topic is in fsync mode."""
    if not wants_sync:
        return Acknowledge.NOW
    if synced_end < log_end:
        return Acknowledge.AFTER_SYNC
    return Acknowledge.NOW if is_epoch_synced else Acknowledge.NOW_AND_SYNC
