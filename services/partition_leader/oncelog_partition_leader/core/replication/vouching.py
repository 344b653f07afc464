"""Whether a follower may answer a reader in its leader's place: what it must know before it vouches for its own log.

Theory of operation: a reader in the rack of a follower asks that follower instead of the leader. What lies below the high
watermark that a leader told is committed for good, so a follower that serves below it shows nothing that goes away again. The
rules see to it that the watermark belongs to this very log, and that it is not an old one: a reader that follows the log must
not wait at a replica that learns nothing any more.

Rule 1: the log was found to agree with the log of the leader of the newest known epoch, which told a high watermark since,
        and was not cut after that.
Rule 2: etcd names this incarnation in the ISR of that same epoch. A replica leaves it after `replica_lag_time_max_ms`; until
        then nothing is committed that it does not have.
Rule 3: the leader's process answers this broker: one that is cut off from it and from etcd does not learn that it left the ISR.
Rule 4: the log goes as far as the high watermark that the leader told: a replica that is behind serves no reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

NOTHING_TOLD: Final = -1


class Obstacle(Enum):
    """The reason why a follower answers no reader at the moment."""

    OLD_EPOCH = "it has not heard from the leader of the newest epoch yet"
    NOT_IN_SYNC = "it is not in sync"
    SILENT_LEADER = "it does not hear its leader"
    BEHIND = "its log ends before what is committed"


@dataclass(slots=True)
class Told:
    """The newest offsets that a leader told a follower of its log; -1 = nothing since the log was cut."""

    epoch: int = NOTHING_TOLD
    high_watermark: int = NOTHING_TOLD
    log_start_offset: int = 0
    held_everywhere: int = 0
    """The offset below which every assigned replica holds everything; it may go down (`ReplicaSet.held_everywhere`)."""

    def hear(self, epoch: int, high_watermark: int, log_start_offset: int, held_everywhere: int = 0) -> None:
        """Takes over what a message of the stream says: the logs agree, or the leader would not send one."""
        self.epoch, self.high_watermark, self.held_everywhere = epoch, high_watermark, held_everywhere
        self.log_start_offset = max(self.log_start_offset, log_start_offset)

    def forget(self) -> None:
        """Forgets all but the log start, since the log is being cut. A log start never goes back."""
        self.epoch = self.high_watermark = NOTHING_TOLD
        self.held_everywhere = 0


class FollowerFacts(NamedTuple):
    """The knowledge of a follower when a reader asks it. Epoch and watermark are -1 where the leader told nothing yet."""

    known_epoch: int
    """The newest leader epoch that it knows."""
    told_epoch: int
    """The epoch of the leader that told the high watermark; the log was not cut since."""
    told_watermark: int
    """The high watermark as that leader told it, however far this log goes."""
    log_end: int
    is_in_sync: bool
    """Etcd names this incarnation in the ISR of `known_epoch`."""
    hears_leader: bool


def obstacle(facts: FollowerFacts) -> Obstacle | None:
    """Returns why this follower may not answer a reader; None when it may."""
    if facts.told_epoch == NOTHING_TOLD or facts.told_epoch != facts.known_epoch:
        return Obstacle.OLD_EPOCH
    if not facts.is_in_sync:
        return Obstacle.NOT_IN_SYNC
    if not facts.hears_leader:
        return Obstacle.SILENT_LEADER
    return Obstacle.BEHIND if facts.log_end < facts.told_watermark else None
