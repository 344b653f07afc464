"""The plain values of a script: partitions, writers, participants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from oncelog.core.batch.header import NO_SHARD
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2

TIMEOUT_MS: Final = 5_000
ALL: Final = -1
COMMITTED: Final = types_pb2.TRANSACTION_OUTCOME_COMMITTED
ABORTED: Final = types_pb2.TRANSACTION_OUTCOME_ABORTED
ONGOING: Final = types_pb2.TRANSACTION_OUTCOME_ONGOING
NOT_BEGUN: Final = types_pb2.TRANSACTION_OUTCOME_NOT_BEGUN


class Place(NamedTuple):
    """A partition under all its names."""

    topic: str
    topic_id: str
    partition: int

    @property
    def id(self) -> PartitionId:
        """By topic id."""
        return PartitionId(self.topic_id, self.partition)

    def to_proto(self) -> types_pb2.TopicPartition:
        """As it travels."""
        return types_pb2.TopicPartition(topic=self.topic, topic_id=self.topic_id, partition=self.partition)


@dataclass(frozen=True)
class Writer:
    """As whom a batch is written. `next()` is the same session's next transaction."""

    producer_id: int
    epoch: int = 0
    txn_producer_id: int = -1
    txn_no: int = 0
    txn_shard: int = NO_SHARD
    transactional_id: str = ""
    token: bytes = b""

    @property
    def name(self) -> co.TransactionName:
        """The transaction's name on the wire."""
        return co.TransactionName(
            transactional_id=self.transactional_id,
            txn_shard=self.txn_shard,
            txn_producer_id=self.txn_producer_id,
            txn_no=self.txn_no,
            producer_epoch=self.epoch,
            session_token=self.token,
        )

    def next(self) -> Writer:
        """The following transaction of this session."""
        return replace(self, txn_no=self.txn_no + 1)

    def of(self, **changes: Any) -> Writer:
        """The same with other fields, to play somebody who is wrong."""
        return replace(self, **changes)


@dataclass
class Joined:
    """A participant: its writer, and what it has acknowledged, for `commit_batch`."""

    writer: Writer
    counts: dict[Place, int] = field(default_factory=dict)

    @property
    def winner(self) -> co.Winner:
        """As the driver hands it in."""
        return co.Winner(
            producer_id=self.writer.producer_id, rows=sum(self.counts.values()), counts=counts_of(self.counts)
        )


def counts_of(counts: dict[Place, int]) -> list[co.PartitionCount]:
    """Acknowledged records per partition, as they travel."""
    return [co.PartitionCount(topic_id=p.topic_id, partition=p.partition, records=n) for p, n in counts.items()]


def about(place: Place) -> Callable[[Any, bytes], bool]:
    """For taps: replication of this partition, not of others between the same brokers."""
    return lambda request, _: any(item.topic_id == place.topic_id for item in request.partitions)
