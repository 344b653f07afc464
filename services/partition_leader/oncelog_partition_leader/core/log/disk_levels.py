"""Two thresholds before a disk is full: what a broker still takes, by how much room its volume has left.

    ROOMY      everything
    LOW        no new transactions: those that are open may end
    RESERVED   no records of users any more; markers and the cluster's own logs, so that what was begun can be decided

Rule 1: a threshold is a number of bytes, or a part of a volume that is small.
Rule 2: a level is left only with a quarter more room than it began with, so a disk at a threshold does not change its
        mind with every segment that is deleted.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

_LOW_PART: Final = 10
_RESERVED_PART: Final = 20
_LEFT_WITH: Final = 5, 4


class Level(IntEnum):
    """How much room there is; a greater one is worse."""

    ROOMY = 0
    LOW = 1
    RESERVED = 2


class Thresholds(NamedTuple):
    """The free bytes below which a level begins; at most a tenth and a twentieth of the volume. 0 = never."""

    low_bytes: int
    reserved_bytes: int


def level_of(before: Level, free_bytes: int, total_bytes: int, thresholds: Thresholds) -> Level:
    """Returns the level of a volume that was at the level `before` when it was last looked at."""
    low = min(thresholds.low_bytes, total_bytes // _LOW_PART)
    reserved = min(thresholds.reserved_bytes, total_bytes // _RESERVED_PART)
    if _is_below(free_bytes, reserved, before >= Level.RESERVED):
        return Level.RESERVED
    return Level.LOW if _is_below(free_bytes, low, before >= Level.LOW) else Level.ROOMY


def _is_below(free_bytes: int, threshold: int, was_below: bool) -> bool:
    more, of = _LEFT_WITH
    return free_bytes * of < threshold * more if was_below else free_bytes < threshold
