"""A replica's answer about its log when the controller asks for it, and what that answer proves.

An ISR names a replica as (broker, incarnation): "under this incarnation it held every committed record". After a
restart the broker has another incarnation (broker epoch), and says since which incarnation its log lost nothing:

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
    """The end of one replica's log. Ordered: in an election the greater one wins.

    `last_epoch`: of its last batch, or a later one that it has reached (`reached_epoch`).
    """

    last_epoch: int
    log_end_offset: int


EMPTY: Final = LogState(-1, 0)


class Standing(Enum):
    """The result of `ReplicaState.standing`; the docstring of this module explains the three."""

    INTACT = 1
    UNCLEAN = 2
    LOST = 3


class Seal(NamedTuple):
    """A note of a leader on its disk: it commits nothing more in this epoch, and its log is synced up to `end_offset`.

    It is valid as long as etcd names no other epoch: another leader may commit without this log.
    """

    incarnation: int
    leader_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One replica's answer. Both incarnations are the first one for which the claim holds; 0 = it does not say.

    `intact_since`: the log lost nothing that it held under this or a later incarnation.
    `known_since`: the log existed under this or a later incarnation, whatever it lost since.
    `high_watermark`: everything below it is committed, as far as this broker knows.
    `known_epoch`: the highest leader epoch that it knows; its leader may not have written anything in it yet.
    `seal`: its note if it stopped committing as a leader, and synced its log then.
    """

    log: LogState
    intact_since: int = 0
    known_since: int = 0
    high_watermark: int = 0
    known_epoch: int = -1
    seal: Seal | None = None

    @property
    def epoch(self) -> int:
        """The highest leader epoch that this replica knows, from its log or from messages."""
        return max(self.log.last_epoch, self.known_epoch)

    def standing(self, named: BrokerRef, now: BrokerRef, leader_epoch: int) -> Standing:
        """Judges the replica that the ISR of `leader_epoch` names as `named`; its broker answered as incarnation `now`."""
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
