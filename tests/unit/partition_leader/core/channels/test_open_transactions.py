"""Acknowledgements of a transaction count when it commits, and not before."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.errors import InvalidRequestError, NotOwnerError
from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.settlement import MAX_SETTLED_AT_ONCE, Refused, Settlement, Taken, Verdict
from oncelog_partition_leader.core.channels.stored_state import Retried, Stored, StoredPending
from oncelog_partition_leader.core.producers.transactions import TxnName
from tests.unit.partition_leader.core.channels.channel_rig import NOW, WAIT, channel, ordered, say, write

TXN = TxnName(7, 1)


def entered(*items: Settlement, **options: Any) -> Delivery:
    delivery = channel(**options)
    delivery.take("ann", 4, NOW)
    delivery.enter_transaction("ann", TXN, items or [Settlement(0, 1, 1)], NOW)
    delivery.check()
    return delivery


def test_a_committed_record_is_settled_and_another_one_comes_again() -> None:
    delivery = entered()
    assert delivery.open_transactions() == [StoredPending(TXN, ((0, 1),))]
    delivery.tick(NOW + 10 * WAIT)
    assert delivery.describe(NOW).in_transaction == 2, "no deadline takes it away"
    delivery.ended_transaction(TXN, [(0, 0)], NOW)
    assert delivery.settled_before == 1
    assert delivery.open_transactions() == []
    assert Taken(1, 3, 2) in delivery.take("bob", 10, NOW + 10 * WAIT)
    delivery.check()


def test_an_aborted_one_comes_after_the_pause_and_its_delivery_counts() -> None:
    delivery = entered(records=2, retry_backoff_ms=100)
    delivery.ended_transaction(TXN, [], NOW)
    assert delivery.take("bob", 10, NOW + 99) == []
    assert delivery.take("bob", 10, NOW + 100) == [Taken(0, 1, 2)]
    assert write(delivery).retried == ((0, 1, 0), (1, 1, 0))


@pytest.mark.parametrize(
    "bad", [Settlement(3, 3, 2), Settlement(3, 4, 1), Settlement(99, 99, 1)], ids=["delivery", "not taken", "not there"]
)
def test_one_record_that_is_not_held_keeps_all_out(bad: Settlement) -> None:
    delivery = channel()
    delivery.take("ann", 4, NOW)
    with pytest.raises(NotOwnerError):
        delivery.enter_transaction("ann", TXN, [Settlement(0, 1, 1), bad], NOW)
    assert delivery.open_transactions() == []
    assert delivery.in_flight_of("ann") == 4
    delivery.check()


@pytest.mark.parametrize(
    "items",
    [
        [],
        [Settlement(0, 0, 1, Verdict.NACK)],
        [Settlement(1, 0, 1)],
        [Settlement(0, MAX_SETTLED_AT_ONCE - 1, 1), Settlement(0, 0, 1)],
    ],
)
def test_only_acknowledgements_within_bounds_take_part(items: list[Settlement]) -> None:
    delivery = channel()
    delivery.take("ann", 4, NOW)
    with pytest.raises(InvalidRequestError):
        delivery.enter_transaction("ann", TXN, items, NOW)
    assert delivery.open_transactions() == []


def test_a_passed_deadline_keeps_it_out() -> None:
    delivery = channel()
    delivery.take("ann", 1, NOW)
    with pytest.raises(NotOwnerError):
        delivery.enter_transaction("ann", TXN, [Settlement(0, 0, 1)], NOW + WAIT)


def test_a_repeated_call_is_fine_and_that_of_another_is_not() -> None:
    delivery = entered()
    assert delivery.enter_transaction("ann", TXN, [Settlement(1, 2, 1), Settlement(0, 0, 1)], NOW) == [(0, 2)]
    for worker, name in (("bob", TXN), ("ann", TxnName(7, 2))):
        with pytest.raises(NotOwnerError):
            delivery.enter_transaction(worker, name, [Settlement(0, 0, 1)], NOW)
    assert delivery.open_transactions() == [StoredPending(TXN, ((0, 2),))]
    assert say(delivery, Verdict.ACK, 0) == [Refused(0, 0, False)], "the transaction has the word"


def test_a_refused_record_is_its_owners_again() -> None:
    delivery = entered()
    delivery.left_transaction(TXN, [(0, 0), (5, 5)], NOW + 10)
    assert delivery.in_flight_of("ann") == 3
    delivery.check()
    delivery.left_transaction(TXN, [(1, 1)], NOW + 20)
    assert delivery.open_transactions() == []
    assert say(delivery, Verdict.ACK, 1) == []
    taken = delivery.take("bob", 9, NOW + WAIT + 9)
    assert Taken(0, 0, 2) not in taken
    assert delivery.take("bob", 9, NOW + WAIT + 10) == [Taken(0, 0, 2)]
    delivery.left_transaction(TXN, [(1, 1)], NOW + 20)
    delivery.ended_transaction(TXN, [(2, 2)], NOW + 20)
    delivery.check()


def test_a_worker_that_leaves_takes_nothing_out_of_its_transaction() -> None:
    delivery = entered()
    delivery.worker_left("ann", NOW)
    assert delivery.describe(NOW).in_transaction == 2
    assert delivery.take("bob", 10, NOW)[0].first == 2


def test_what_is_refused_after_its_worker_has_left_comes_again_at_once() -> None:
    delivery = entered()
    delivery.worker_left("ann", NOW)
    assert delivery.enter_transaction("ann", TXN, [Settlement(0, 1, 1)], NOW) == [(0, 1)], "a late copy"
    delivery.left_transaction(TXN, [(0, 1)], NOW)
    delivery.check()
    assert Taken(0, 3, 2) in delivery.take("bob", 10, NOW)


# ---------------------------------------------------------------- after a fail-over


def told(records: int = 5, **more: tuple[object, ...]) -> Delivery:
    return channel(Stored(0, pending=(StoredPending(TXN, ((1, 2), (7, 8))),), **more), records=records)  # type: ignore[arg-type]


def test_a_new_leader_keeps_what_is_pending() -> None:
    delivery = told()
    assert delivery.open_transactions() == [StoredPending(TXN, ((1, 2), (7, 8)))]
    assert delivery.take("bob", 10, NOW) == [Taken(0, 0, 1), Taken(3, 4, 1)]
    delivery.check()


def test_the_outcome_counts_for_records_that_were_not_looked_at() -> None:
    delivery = told(retried=(Retried(8, 3, 0),))
    delivery.ended_transaction(TXN, [(2, 2), (7, 7)], NOW)
    delivery.supply(5, 10, [(5, 9)])
    taken = delivery.take("bob", 10, NOW)
    assert [run for run in taken if run.delivery > 1] == [Taken(1, 1, 2), Taken(8, 8, 5)]
    assert sum(run.last - run.first + 1 for run in taken) == 8
    delivery.check()


@pytest.mark.parametrize("offset", [1, 7])
def test_a_call_that_is_repeated_at_the_new_leader_is_fine(offset: int) -> None:
    delivery = told()
    assert delivery.enter_transaction("ann", TXN, [Settlement(offset, offset + 1, 1)], NOW) == [(offset, offset + 1)]
    with pytest.raises(NotOwnerError):
        delivery.enter_transaction("ann", TxnName(7, 2), [Settlement(offset, offset, 1)], NOW)
    delivery.check()


def test_retention_takes_records_out() -> None:
    delivery = told()
    delivery.log_begins_at(8)
    assert delivery.open_transactions() == [StoredPending(TXN, ((8, 8),))]
    delivery.log_begins_at(9)
    assert delivery.open_transactions() == []
    delivery.check()


def test_a_seek_forgets_it() -> None:
    delivery = entered()
    delivery.seek(0)
    assert delivery.open_transactions() == []
    delivery.ended_transaction(TXN, [(0, 1)], NOW)
    assert delivery.settled_before == 0


def test_the_next_of_a_key_waits_for_the_transaction() -> None:
    delivery = ordered([5, 5])
    delivery.take("ann", 2, NOW)
    delivery.enter_transaction("ann", TXN, [Settlement(0, 0, 1)], NOW)
    assert delivery.available(NOW) == 0
    delivery.ended_transaction(TXN, [(0, 0)], NOW)
    assert delivery.take("bob", 2, NOW) == [Taken(1, 1, 1)]
