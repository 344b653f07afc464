"""One record knows whose it is."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.record_states import RecordState


def held() -> Entry:
    entry = Entry(3, deliveries=2, state=RecordState.IN_FLIGHT)
    entry.worker = "ann"
    return entry


@pytest.mark.parametrize(("worker", "delivery", "is_held"), [("ann", 2, True), ("bob", 2, False), ("ann", 1, False)])
def test_it_belongs_to_one_worker_in_one_delivery(worker: str, delivery: int, is_held: bool) -> None:
    assert held().is_held(worker, delivery) is is_held
    assert held().was_given(worker, delivery) is is_held


def test_a_settled_one_is_held_no_more_and_was_given_all_the_same() -> None:
    entry = held()
    entry.move(RecordState.SETTLING)
    assert not entry.is_held("ann", 2)
    assert entry.was_given("ann", 2)


@pytest.mark.parametrize(
    ("state", "ended"),
    [(RecordState.IN_FLIGHT, 1), (RecordState.IN_TXN, 1), (RecordState.AVAILABLE, 2), (RecordState.BURYING, 2)],
)
def test_a_delivery_under_way_has_not_ended(state: RecordState, ended: int) -> None:
    assert Entry(3, deliveries=2, state=state).ended_deliveries == ended
