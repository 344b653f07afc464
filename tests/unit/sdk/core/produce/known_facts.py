"""Facts for the cores of a producer that a test sets by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from oncelog.core.batch.identity import Identity
from oncelog.types import PartitionId

BROKER = "broker:1"
P0, P1 = PartitionId("id", 0), PartitionId("id", 1)
PRODUCER = Identity(producer_id=7, producer_epoch=0)
IN_TRANSACTION = Identity(7, 0, txn_producer_id=7, txn_no=3, txn_shard=1, transactional_id="t")


@dataclass(frozen=True)
class SomeTopic:
    """A topic as the metadata has it."""

    topic_id: str
    partitions: int


@dataclass
class KnownFacts:
    """See `oncelog.core.produce.actions.Facts`."""

    leaders: dict[PartitionId, str] = field(default_factory=lambda: {P0: BROKER, P1: BROKER})
    gone: set[str] = field(default_factory=set)
    newer: SomeTopic | None = None
    held: dict[str, int] = field(default_factory=dict)
    was_held: bool = False
    in_flight: dict[str, int] = field(default_factory=dict)
    delay: int = 100

    def leader(self, partition: PartitionId) -> str | None:
        return self.leaders.get(partition)

    def is_gone(self, topic_id: str) -> bool:
        return topic_id in self.gone

    def newer_topic(self, name: str, topic_id: str) -> SomeTopic | None:
        return self.newer

    def held_until_ms(self, address: str, now_ms: int) -> int:
        until_ms = self.held.get(address, 0)
        return until_ms if until_ms > now_ms else 0

    def was_held_since(self, address: str, since_ms: int) -> bool:
        return self.was_held

    def calls_in_flight(self, address: str) -> int:
        return self.in_flight.get(address, 0)

    def delay_ms(self, attempt: int, at_least_ms: int = 0) -> int:
        return max(self.delay * attempt, at_least_ms)
