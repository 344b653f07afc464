"""The number of the transaction is the only check: nobody looks at the session's epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oncelog_coordinator.core.transactions import checks
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    with (
        replaced(checks, "require_session", lambda _: lambda *_: None),
        replaced(ProducerStates, "_refuse_older_epoch", lambda _: lambda *_: None),
        replaced(ProducerStates, "_refuse_older_session", lambda _: lambda *_: None),
        replaced(ProducerStates, "_check_belongs", lambda _: lambda *_: None),
    ):
        yield


PLANT = plant(
    15,
    "enrolment, end and leader check the session's epoch too",
    "transactions/test_coordinator_failures::test_a_fenced_session_cannot_use_the_next_number",
)(_planted)
