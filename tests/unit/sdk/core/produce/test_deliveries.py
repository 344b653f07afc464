"""Outcomes: each batch gets one, and in a transaction the first failure ends the rest."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.config import ProducerConfig
from oncelog.core.batch.identity import Identity
from oncelog.core.produce.accumulator import Batch, Row
from oncelog.core.produce.actions import Acknowledged, Failed
from oncelog.core.produce.attempt import AttemptState
from oncelog.core.produce.deliveries import Deliveries
from oncelog.core.produce.producer_window import ProducerWindow
from oncelog.types import PartitionId
from tests.unit.sdk.core.produce.known_facts import BROKER, IN_TRANSACTION, P0, P1, PRODUCER, KnownFacts

BAD = errors.InvalidRecordError("bad")


def deliveries(identity: Identity = PRODUCER) -> Deliveries:
    made = Deliveries(ProducerConfig(), KnownFacts(), None, can_renew=True)
    made.identities.current = identity
    return made


def queued(made: Deliveries, partition: PartitionId = P0) -> Batch:
    batch, index = made.queues.add_row(partition, Row("orders", None, None, b"v", 0, (), 18), 0)
    if index == 0:
        made.enter(batch)
    return batch


def test_a_batch_is_told_once_and_frees_its_memory() -> None:
    made = deliveries()
    batch = queued(made)
    made.settle([(batch, None)], 5)
    made.settle([(batch, BAD)])
    assert made.taken() == [Acknowledged(batch)]
    assert made.taken() == []
    assert (made.open, made.queues.used_bytes, made.acked) == ({}, 0, {P0: 1})


def test_in_a_transaction_the_first_failure_fails_what_is_queued_and_refuses_what_follows() -> None:
    made = deliveries(IN_TRANSACTION)
    first, later = queued(made), queued(made, P1)
    made.queues.take(P0)
    made.fail([(first, BAD)])
    assert made.taken() == [Failed(first, BAD), Failed(later, BAD)]
    assert made.failure is BAD
    made.note_failure(later, errors.NetworkError())
    assert made.failure is BAD


@pytest.mark.parametrize(
    ("error", "ends"), [(BAD, False), (errors.ProducerFencedError("a newer one"), True)], ids=["bad", "fenced"]
)
def test_outside_of_a_transaction_only_a_fenced_producer_is_at_its_end(error: errors.OncelogError, ends: bool) -> None:
    made = deliveries()
    first, later = queued(made), queued(made, P1)
    made.queues.take(P0)
    made.fail([(first, error)])
    assert (made.failure is error) == later.done == ends
    assert made.failures.take() is error


def test_a_reset_forgets_the_former_transaction() -> None:
    made = deliveries(IN_TRANSACTION)
    for partition, error in ((P0, None), (P1, BAD)):
        batch = queued(made, partition)
        made.queues.take(partition)
        batch.attempt.send()
        made.settle([(batch, error)])
    open_batch = queued(made)
    made.windows[P0] = ProducerWindow(5)
    over = errors.TxnEndedError("over")
    following = IN_TRANSACTION._replace(txn_no=4)
    made.reset(following, over)
    assert open_batch.error is over
    assert (made.failure, made.acked, made.identities.current) == (None, {}, following)
    assert (made.failures.take(), made.open, made.queues.used_bytes, made.windows) == (None, {}, 0, {})


def test_a_dropped_batch_is_done_whatever_comes_later() -> None:
    made = deliveries()
    batch = queued(made)
    made.drop(lambda _: BAD)
    assert (batch.attempt.state, batch.error) == (AttemptState.DONE, BAD)


@pytest.mark.parametrize("identity", [PRODUCER, IN_TRANSACTION], ids=["plain", "in a transaction"])
def test_a_defect_ends_the_producer_in_its_own_words(identity: Identity) -> None:
    made = deliveries(identity)
    sent, never_sent = queued(made), queued(made, P1)
    sent.attempt.send()
    made.crash(ZeroDivisionError("a defect"))
    assert isinstance(made.failure, errors.IllegalStateError if identity is PRODUCER else errors.InvalidTxnStateError)
    assert isinstance(sent.error, errors.DeliveryTimedOutError), "it may be written"
    assert never_sent.error is made.failure


def test_the_nearest_obstacle_is_named() -> None:
    made = deliveries()
    facts = made.facts
    assert isinstance(facts, KnownFacts)
    batch = queued(made)
    assert made.obstacle(batch, 0) is None
    facts.held[BROKER] = 10
    assert isinstance(made.obstacle(batch, 0), errors.ThrottlingQuotaExceededError)
    facts.leaders.clear()
    assert isinstance(made.obstacle(batch, 0), errors.LeaderNotAvailableError)
    made.leaders.error = errors.NetworkError()
    assert made.obstacle(batch, 0) is made.leaders.error
