"""A later life of a shard takes the number that was enrolled ahead for one that nobody has opened.

It then decides that number for nobody. That no later session gets it is guarded twice: see `number-given-twice`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from oncelog_coordinator.core.transactions import transaction_table
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def without_doubt(original: Any) -> Any:
        def decode(key: str, value: bytes) -> Any:
            record = original(key, value)
            if not getattr(record, "expected", None):
                return record
            return replace(record, expected=replace(record.expected, may_be_open=False))

        return decode

    with replaced(transaction_table, "decode_transaction_record", without_doubt):
        yield


PLANT = plant(
    29,
    "a number that was enrolled ahead may be open when the shard begins a new life",
    "transactions/test_enrolled_ahead::test_offsets_that_a_later_coordinator_commits_are_seen_at_once",
    "transactions/test_enrolled_ahead::test_an_abort_under_a_later_coordinator_reaches_every_expected_partition",
    "transactions/test_enrolled_ahead::test_a_question_does_not_end_a_living_transaction",
)(_planted)
