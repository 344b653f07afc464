"""A follower that begins above the start gets no producer state from its leader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.log_reads import ReadableLog
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def empty(_original: Any) -> Any:
        async def producer_snapshot_at(self: Any, offset: int) -> bytes:
            states = ProducerStates()
            states.end_offset = offset
            return states.snapshot()

        return producer_snapshot_at

    with replaced(ReadableLog, "producer_snapshot_at", empty):
        yield


PLANT = plant(
    23,
    "a follower that starts above 0 takes the leader's snapshot first",
    "replication/test_replica_failures::test_a_replica_that_begins_above_the_start_knows_older_producers",
)(_planted)
