"""The port through which the code that serves and replicates partitions reports events to metrics and traces.

Rule 1: an event is one call with the objects at hand; names, attributes and sums are made by the implementation.
Rule 2: an observer changes nothing that the protocol decides on, and raises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from oncelog.v1 import partition_pb2 as pb
from oncelog_partition_leader.core.replication.replica_set import Isr
from oncelog_partition_leader.replication.feed import Feed


class BrokerObserver(Protocol):
    """One implementation counts (`MetricsObserver`), the other one traces and passes the rest on (`TraceObserver`)."""

    def sends(self, request: pb.ReplicateRequest, feeds: Sequence[Feed]) -> None:
        """Observes a request that is sent to a follower next, by this task. `feeds`: one for each of its partitions."""

    def follows(self, size_bytes: int, partitions: int) -> AbstractContextManager[None]:
        """Observes the handling of a leader's request, which lasts as long as the returned context."""
        ...

    def fetched(self, topic: str, records: int, size_bytes: int, *, by_follower: bool) -> None:
        """Observes records that a reader gets."""

    def leads(self) -> None:
        """Observes that this broker begins to lead a partition."""

    def isr_changed(self, before: Isr, after: Isr) -> None:
        """Observes a change of the ISR of a partition that is led here."""
