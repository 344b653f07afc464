"""One slot for the token of the last batch: that of another application replaces it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from oncelog_coordinator.core.transactions import transaction_state, transaction_table
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def one_slot(record: Any, token: Any) -> Any:
        return replace(record, tokens=(token,))

    with (
        replaced(transaction_state, "with_token", lambda _: one_slot),
        replaced(transaction_table, "_assert_legal", lambda _: lambda *_: None),  # it asserts just this
    ):
        yield


PLANT = plant(
    16,
    "the last committed token is kept per application",
    "transactions/test_coordinator_failures::test_the_token_is_the_last_committed_one_of_each_app",
)(_planted)
