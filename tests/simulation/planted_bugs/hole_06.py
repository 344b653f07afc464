"""A coordinator answers from memory what it should first confirm in its log; UNKNOWN is said without a record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from oncelog_coordinator.core.offsets.offset_table import OffsetTable
from oncelog_coordinator.core.transactions.commands import Resolve
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def from_memory(original: Any) -> Any:
        def decide(self: Any, command: Any, now_ms: int) -> Any:
            decision = original(self, command, now_ms)
            unrecorded = () if isinstance(command, Resolve) else decision.records
            return replace(decision, records=unrecorded, confirm=False)

        return decide

    with replaced(TransactionTable, "decide", from_memory), replaced(OffsetTable, "decide", from_memory):
        yield


PLANT = plant(
    6,
    "UNKNOWN is recorded before it is said, and no answer is spoken from memory alone",
    "transactions/test_coordinator_failures::test_a_deposed_coordinator_does_not_say_ongoing",
    "transactions/test_coordinator_failures::test_a_deposed_coordinator_does_not_speak_of_what_it_does_not_know",
    "transactions/test_coordinator_failures::test_a_deposed_coordinator_does_not_return_old_offsets",
)(_planted)
