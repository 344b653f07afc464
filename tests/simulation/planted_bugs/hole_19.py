"""A marker commits whatever is left of its transaction, without a word about what a power cut took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from oncelog_partition_leader.core.producers.decisions import AppendMarker
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def silently(original: Any) -> Any:
        def decide_marker(self: Any, *args: Any) -> Any:
            decision = original(self, *args)
            return replace(decision, lost=False) if isinstance(decision, AppendMarker) else decision

        return decide_marker

    with replaced(ProducerStates, "decide_marker", silently):
        yield


PLANT = plant(
    19,
    "a leader that holds fewer records than were decided names the loss",
    "replication/test_replica_failures::test_records_that_a_power_cut_took_are_named_never_silent",
)(_planted)
