"""What one replica says of its log when the controller asks, and what that proves.

An ISR names a replica as (broker, incarnation): "under this incarnation it held every committed record". After a
restart the broker has another incarnation, and says since which incarnation its log lost nothing:

    INTACT    the log lost nothing since the incarnation that the ISR names: clean stop, kill -9, a lease that ran out;
              or it was sealed in this leader epoch, so whatever it lost was never committed
    UNCLEAN   it is the same log, but its newest records may be gone: power cut, failed log
    LOST      it is another log: the directory is new (KIP-858), or the old log was set aside as rotten
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from oncelog.types import BrokerRef


class LogState(NamedTuple):
    """How far one replica's log goes. Ordered: greater wins.

    `last_epoch`: of its last batch, or a later one that it has reached (`reached_epoch`).
    """

    last_epoch: int
    log_end_offset: int


EMPTY: Final = LogState(-1, 0)


class Standing(Enum):
    """What an answer proves of a replica that the ISR names. See the module."""

    INTACT = 1
    UNCLEAN = 2
    LOST = 3


class Seal(NamedTuple):
    """A leader's word, on disk: in this epoch nothing is committed any more, and its log is synced up to `end_offset`.

    It holds as long as etcd names no other epoch: another leader may commit without this log.
    """

    incarnation: int
    leader_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One replica's answer. Both incarnations are the first one for which the claim holds; 0 = it does not say.

    `intact_since`: the log lost nothing that it held under this or a later incarnation.
    `known_since`: the log existed under this or a later incarnation, whatever it lost since.
    `high_watermark`: everything below was committed, as far as this broker has heard.
    `known_epoch`: the highest leader epoch that it has heard of; a leader may not have written anything in it yet.
    `seal`: whether it stopped to commit as a leader, and synced its log then.
    """

    log: LogState
    intact_since: int = 0
    known_since: int = 0
    high_watermark: int = 0
    known_epoch: int = -1
    seal: Seal | None = None

    @property
    def epoch(self) -> int:
        """The highest leader epoch of which this replica knows."""
        return max(self.log.last_epoch, self.known_epoch)

    def standing(self, named: BrokerRef, now: BrokerRef, leader_epoch: int) -> Standing:
        """What this answer of the broker's incarnation `now` says of the replica that the ISR of an epoch names as `named`."""
        if self._is_sealed(named, leader_epoch):
            return Standing.INTACT
        if named.incarnation >= (self.intact_since or now.incarnation):
            return Standing.INTACT
        return Standing.LOST if named.incarnation < self.known_since else Standing.UNCLEAN

    def _is_sealed(self, named: BrokerRef, leader_epoch: int) -> bool:
        seal = self.seal
        if seal is None or seal[:2] != (named.incarnation, leader_epoch):
            return False
        return self.log.log_end_offset >= seal.end_offset
