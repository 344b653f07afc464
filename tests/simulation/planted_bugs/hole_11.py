"""A commit means whatever transaction is open, and nothing durable remembers which attempts have ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from oncelog_coordinator.core.transactions import participant_decisions
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def the_open_one(original: Any) -> Any:
        def require_open(index: Any, command: Any) -> Any:
            record = index.find(command.transactional_id)
            opened = None if record is None else record.open
            return original(index, command if opened is None else replace(command, txn_no=opened.txn_no))

        return require_open

    with (
        replaced(participant_decisions, "_require_open", the_open_one),
        replaced(participant_decisions, "_require_winners", lambda _: lambda *_: None),
        replaced(participant_decisions, "_has_ended", lambda _: lambda *_: False),
    ):
        yield


PLANT = plant(
    11,
    "winners and commit carry the number that join returned; ended attempts are in the durable record",
    "transactions/test_coordinator_failures::test_a_task_of_an_ended_attempt_is_told_so_also_after_fail_over",
    "transactions/test_coordinator_failures::test_a_commit_names_the_transaction_that_its_winners_joined",
)(_planted)
