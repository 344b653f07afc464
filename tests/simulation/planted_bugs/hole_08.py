"""The record of an open transaction does not hold the decided ones whose markers are still on their way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from oncelog_coordinator.core.transactions.records import TransactionRecord
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def newest_only(original: Any) -> Any:
        def encode(self: TransactionRecord) -> Any:
            return original(self if self.open is None else replace(self, decided=()))

        return encode

    with replaced(TransactionRecord, "encode", newest_only):
        yield


PLANT = plant(
    8,
    "every record holds the whole state of its id, with every decided transaction whose markers are not all in",
    "transactions/test_coordinator_failures::test_a_decision_survives_the_record_of_the_next_transaction",
)(_planted)
