"""A marker for which nothing is open is answered OK and not written down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog_partition_leader.core.producers.decisions import MarkerWritten
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def no_op(original: Any) -> Any:
        def decide_marker(self: Any, name: Any, txn_shard: int, marker: Any) -> Any:
            decision = original(self, name, txn_shard, marker)
            return decision if name in self.transactions.open else MarkerWritten(-1)

        return decide_marker

    with replaced(ProducerStates, "decide_marker", no_op):
        yield


PLANT = plant(
    12,
    "a marker is always appended and counts when it is committed",
    "transactions/test_coordinator_failures::test_a_deposed_leader_does_not_say_that_a_marker_is_in",
    "transactions/test_coordinator_failures::test_a_late_copy_does_not_open_an_ended_transaction_again",
)(_planted)
