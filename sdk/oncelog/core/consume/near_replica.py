"""Which replica of a partition a reader asks: the leader, or a follower that stands in the reader's own rack.

Rule 1: a reader that names its rack asks a follower there, unless the leader stands there too. Whether that follower may answer
        it decides itself: it alone knows what it can vouch for (docs/decisions/0074-followers-answer-readers-near-them.md).
Rule 2: a follower's error is never the last word: the leader is asked the same at once, and what it answers counts. An
        answer that breaks the protocol is raised to the reader, also a follower's.
Rule 3: after an error the leader is asked for a while, which doubles with each further one; then the follower has its turn.
Rule 4: offsets of logs are compared with those that the same replica told before: a follower knows less than its leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

FIRST_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 30_000


class Replica(NamedTuple):
    """A broker that has a replica of the partition. Rack empty: it names none."""

    address: str
    rack: str


class Choice(NamedTuple):
    """The replica to ask next. Address empty: no leader is known at the moment."""

    address: str
    is_follower: bool
    is_missed: bool = False
    """A follower was read before, and none is known now: metadata may tell of one."""


class Source:
    """The replica that one partition is read from, as one reader sees it."""

    __slots__ = ("answered_by", "is_follower", "leader_until_ms", "refusals")

    def __init__(self) -> None:
        self.answered_by = ""
        """The address of the last answer that was not an error."""
        self.is_follower = False
        """The question that is on its way went to a follower."""
        self.leader_until_ms = 0
        self.refusals = 0
        """How often followers failed since one of them gave a good answer."""

    def choose(self, rack: str, leader: Replica, followers: Sequence[Replica], now_ms: int, turn: int) -> Choice:
        """Returns whom to ask. `turn`: readers with different ones share the followers of a rack."""
        if not rack or leader.rack == rack or now_ms < self.leader_until_ms:
            return Choice(leader.address, False)
        near = [replica.address for replica in followers if replica.rack == rack]
        if near:
            return Choice(near[turn % len(near)], True)
        return Choice(leader.address, False, is_missed=self.refusals > 0)

    def refused(self, now_ms: int) -> None:
        """Notes that a follower did not answer, answered by an error, or is not known any more."""
        self.leader_until_ms = now_ms + min(FIRST_PAUSE_MS << min(self.refusals, 8), LONGEST_PAUSE_MS)
        self.refusals += 1

    def answered(self, address: str) -> bool:
        """Notes who answered. True when another replica gave the answer before."""
        is_other, self.answered_by = self.answered_by != address, address
        return is_other

    def was_right(self) -> None:
        """Notes that the answer was found to be a good one."""
        if self.is_follower:
            self.refusals = 0
