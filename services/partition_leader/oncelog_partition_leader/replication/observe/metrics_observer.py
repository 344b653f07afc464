"""Counts the events of a broker. Those that only a trace shows are ignored."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from oncelog.v1 import partition_pb2 as pb
from oncelog_partition_leader.core.replication.replica_set import Isr
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_partition_leader.replication.feed import Feed

NOTHING: Final = nullcontext()
"""The context of what is not observed, made once."""


class MetricsObserver:
    """A `BrokerObserver` over the broker's counters."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics

    def sends(self, request: pb.ReplicateRequest, feeds: Sequence[Feed]) -> None:
        """Counts nothing."""

    def follows(self, size_bytes: int, partitions: int) -> AbstractContextManager[None]:
        """Counts nothing."""
        return NOTHING

    def fetched(self, topic: str, records: int, size_bytes: int, *, by_follower: bool) -> None:
        """Counts the records and bytes that go out, by topic, and which of the bytes a follower handed out."""
        traffic = self._metrics.traffic_of(topic)
        traffic.records_out += records
        traffic.bytes_out += size_bytes
        traffic.follower_bytes_out += size_bytes if by_follower else 0

    def leads(self) -> None:
        """Counts a change of leader."""
        self._metrics.leader_changes.inc()

    def isr_changed(self, before: Isr, after: Isr) -> None:
        """Counts the replicas that left and joined."""
        self._metrics.isr_changed(before, after)
