"""Order, retries and doubt of one producer on one partition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog import errors
from oncelog.core.batch.identity import NOBODY, Identity
from oncelog.core.batch.sequence import MAX_SEQUENCE
from oncelog.core.produce.accumulator import Batch, Row
from oncelog.core.produce.producer_window import ProducerWindow, Verdict, judge
from oncelog.types import PartitionId

PRODUCER = Identity(producer_id=7, producer_epoch=0)
IN_TRANSACTION = Identity(7, 0, txn_producer_id=7, txn_no=3, txn_shard=1, transactional_id="t")
DEADLINE_MS = 1_000

NOT_LEADER = errors.NotLeaderError()
LOST = errors.NetworkError()
GAP = errors.OutOfOrderSequenceError()
TOO_LARGE = errors.MessageTooLargeError()


def batch(records: int = 1, deadline_ms: int = DEADLINE_MS) -> Batch:
    made = Batch(PartitionId("t", 0), "topic", 0, deadline_ms)
    for _ in range(records):
        made.add(Row("topic", None, None, b"v", 0, (), 17))
    return made


@pytest.fixture
def window() -> Iterator[ProducerWindow]:
    made = ProducerWindow(5)
    made.adopt(PRODUCER)
    yield made
    made.check()


def send(window: ProducerWindow, *batches: Batch) -> None:
    for item in batches:
        assert window.may_send_new()
        window.send_new(item)


def test_sequences_are_contiguous_and_wrap_to_0(window: ProducerWindow) -> None:
    window._next_sequence = MAX_SEQUENCE - 1
    first, second = batch(4), batch(2)
    send(window, first, second)
    assert (first.base_sequence, second.base_sequence, window.next_sequence) == (MAX_SEQUENCE - 1, 2, 4)


def test_no_more_than_five_are_in_flight(window: ProducerWindow) -> None:
    send(window, *(batch() for _ in range(5)))
    assert not window.may_send_new()
    window.answered(window.unresolved()[2], None, 0)
    assert window.may_send_new()


def test_after_a_failure_only_the_oldest_is_sent_again_alone(window: ProducerWindow) -> None:
    a, b, c = batch(), batch(), batch()
    send(window, a, b, c)
    assert window.answered(a, NOT_LEADER, retry_at_ms=50) == []
    assert not window.may_send_new()
    assert window.answered(b, GAP, retry_at_ms=60) == []
    assert window.answered(c, GAP, retry_at_ms=60) == []
    assert window.resend(49) is None
    assert window.resend_at_ms(49) == 50
    assert window.resend(50) is a
    assert window.resend(60) is None, "b waits until a is resolved"
    assert window.answered(a, None, 0) == [(a, None)]
    assert window.resend(60) is b
    assert (a.base_sequence, b.base_sequence, c.base_sequence) == (0, 1, 2)


def test_a_gap_refused_to_the_oldest_is_definite(window: ProducerWindow) -> None:
    a = batch()
    send(window, a)
    assert window.answered(a, GAP, 0) == [(a, GAP)]


def test_no_state_is_a_gap_as_well(window: ProducerWindow) -> None:
    a, b = batch(), batch()
    send(window, a, b)
    assert window.answered(b, errors.UnknownProducerIdError(), 10) == []
    assert window.unresolved() == (a, b)


def test_a_later_batch_may_be_acknowledged_first(window: ProducerWindow) -> None:
    a, b = batch(), batch()
    send(window, a, b)
    assert window.answered(a, LOST, 10) == []
    assert window.answered(b, None, 0) == [(b, None)]
    assert window.resend(10) is a


def test_a_definite_refusal_fails_what_stands_behind_it_and_burns_the_identity(window: ProducerWindow) -> None:
    a, b, c = batch(), batch(), batch()
    send(window, a, b, c)
    failed = window.answered(b, TOO_LARGE, 0)
    assert failed[0] == (b, TOO_LARGE)
    assert failed[1][0] is c
    assert isinstance(failed[1][1], errors.OutOfOrderSequenceError)
    assert not window.may_send_new(), "a must be resolved first"
    window.answered(a, None, 0)
    assert window.needs_identity
    assert window.burnt == PRODUCER
    with pytest.raises(AssertionError):
        window.adopt(PRODUCER)
    window.adopt(Identity(8, 0))
    assert window.next_sequence == 0


def test_an_answer_to_a_batch_that_failed_already_changes_nothing(window: ProducerWindow) -> None:
    a, b = batch(), batch()
    send(window, a, b)
    window.answered(a, TOO_LARGE, 0)
    assert window.answered(b, None, 0) == []


def test_a_refusal_after_a_lost_attempt_is_settled_first(window: ProducerWindow) -> None:
    a = batch()
    send(window, a)
    window.answered(a, LOST, 0)
    assert window.resend(0) is a
    assert window.answered(a, GAP, 0) == [], "an older copy may be written"
    assert window.in_question(0) is a
    assert window.resend(0) is None
    assert window.settled(a, written=True) == [(a, None)]
    assert window.may_send_new()


def test_not_written_is_final_for_all_that_follow(window: ProducerWindow) -> None:
    a, b = batch(), batch()
    send(window, a, b)
    window.answered(a, LOST, 0)
    window.answered(b, GAP, 0)
    assert window.in_question(DEADLINE_MS - 1) is None
    assert window.in_question(DEADLINE_MS) is a
    failed = window.settled(a, written=False)
    assert [item for item, _ in failed] == [a, b]
    assert isinstance(failed[0][1], errors.DeliveryTimedOutError)
    assert failed[0][1].context["written"] == "false"
    assert window.needs_identity


def test_nobody_is_asked_while_a_batch_is_in_flight(window: ProducerWindow) -> None:
    a, b = batch(), batch()
    send(window, a, b)
    window.answered(a, LOST, 0)
    assert window.in_question(DEADLINE_MS) is None
    assert window.resend_at_ms(DEADLINE_MS) is None, "its time is over: nothing to wake up for"
    window.answered(b, LOST, 0)
    assert window.in_question(DEADLINE_MS) is a


def test_the_caller_hears_of_an_unanswered_question_and_the_asking_goes_on(window: ProducerWindow) -> None:
    a = batch()
    send(window, a)
    window.answered(a, LOST, 0)
    ((told, error),) = window.give_up(a)
    assert told is a
    assert isinstance(error, errors.DeliveryTimedOutError)
    assert "written" not in error.context
    a.resolve(error)
    assert window.give_up(a) == []
    assert window.in_question(DEADLINE_MS) is a
    assert not window.may_send_new()
    assert window.settled(a, written=True) == [(a, None)]


def test_a_batch_that_is_not_in_doubt_expires_definitely(window: ProducerWindow) -> None:
    a = batch()
    send(window, a)
    window.answered(a, NOT_LEADER, 0)
    assert window.expire(DEADLINE_MS - 1) == []
    ((_, error),) = window.expire(DEADLINE_MS)
    assert isinstance(error, errors.DeliveryTimedOutError)
    assert error.context["written"] == "false"


def test_a_definite_answer_to_a_later_attempt_ends_no_doubt_about_an_earlier_one(window: ProducerWindow) -> None:
    """Rule 5: "not written" is said only of a batch none of whose attempts is in doubt. The first one may be in the log."""
    a = batch()
    send(window, a)
    window.answered(a, LOST, 10)
    assert window.resend(10) is a
    window.answered(a, NOT_LEADER, 20)
    assert window.expire(DEADLINE_MS) == [], "a caller that is told so would send it again"
    assert window.in_question(DEADLINE_MS) is a


def test_nothing_expires_while_it_is_in_flight(window: ProducerWindow) -> None:
    send(window, batch())
    assert window.expire(DEADLINE_MS) == []


def test_a_transaction_settles_nothing_its_abort_decides() -> None:
    window = ProducerWindow(5)
    window.adopt(IN_TRANSACTION)
    a, b = batch(), batch()
    send(window, a, b)
    window.answered(a, LOST, 0)
    window.answered(b, LOST, 0)
    assert window.in_question(DEADLINE_MS) is None
    assert [item for item, _ in window.expire(DEADLINE_MS)] == [a, b]


def test_without_idempotence_a_refusal_concerns_one_batch_only() -> None:
    window = ProducerWindow(5)
    window.adopt(NOBODY)
    a, b = batch(), batch()
    send(window, a, b)
    assert (a.base_sequence, b.base_sequence) == (-1, -1)
    assert window.answered(a, TOO_LARGE, 0) == [(a, TOO_LARGE)]
    assert window.unresolved() == (b,)
    assert window.may_send_new()


def test_drop_forgets_all(window: ProducerWindow) -> None:
    a, b = batch(), batch()
    send(window, a, b)
    assert window.drop() == [a, b]
    assert window.is_empty
    assert window.answered(a, None, 0) == []


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (None, Verdict.WRITTEN),
        (NOT_LEADER, Verdict.NOT_NOW),
        (errors.NotEnoughReplicasError(), Verdict.NOT_NOW),
        (errors.NotEnoughReplicasAfterAppendError(), Verdict.IN_DOUBT),
        (errors.RequestTimedOutError(), Verdict.IN_DOUBT),
        (LOST, Verdict.IN_DOUBT),
        (errors.NetworkError(refused="true"), Verdict.NOT_NOW),
        (errors.NetworkError(unsent="true"), Verdict.NOT_NOW),
        (errors.RequestTimedOutError(unsent="true"), Verdict.NOT_NOW),
        (errors.TokenExpiredError(unsent="true"), Verdict.NOT_NOW),
        (errors.UnknownServerError(), Verdict.IN_DOUBT),
        (errors.StorageError(), Verdict.IN_DOUBT),
        (GAP, Verdict.GAP),
        (errors.UnknownProducerIdError(), Verdict.GAP),
        (TOO_LARGE, Verdict.REFUSED),
        (errors.ProducerFencedError(), Verdict.REFUSED),
        (errors.TxnAbortedError(), Verdict.REFUSED),
        (errors.DuplicateSequenceError(), Verdict.REFUSED),
    ],
)
def test_what_an_answer_says(error: errors.OncelogError | None, verdict: Verdict) -> None:
    assert judge(error) is verdict


# ---------------------------------------------------------------- at most once


@pytest.fixture
def careless() -> Iterator[ProducerWindow]:
    made = ProducerWindow(5, at_most_once=True)
    made.adopt(NOBODY)
    yield made
    made.check()


@pytest.mark.parametrize(
    "error",
    [LOST, errors.RequestTimedOutError(), errors.InvalidResponseError("nonsense")],
    ids=lambda e: type(e).__name__,
)
def test_at_most_once_a_batch_that_may_have_arrived_is_done(
    careless: ProducerWindow, error: errors.OncelogError
) -> None:
    a = batch()
    send(careless, a)
    assert careless.answered(a, error, retry_at_ms=10) == [(a, None)]
    assert careless.resend(DEADLINE_MS - 1) is None
    assert careless.is_empty


@pytest.mark.parametrize("error", [errors.StorageError(), errors.UnknownServerError()], ids=lambda e: type(e).__name__)
def test_at_most_once_an_error_that_was_told_and_leaves_it_open_fails_the_batch(
    careless: ProducerWindow, error: errors.OncelogError
) -> None:
    a, b = batch(), batch()
    send(careless, a, b)
    assert careless.answered(a, error, retry_at_ms=10) == [(a, error)]
    assert careless.resend(DEADLINE_MS - 1) is None, "it is not sent again"
    assert careless.answered(b, None, 0) == [(b, None)], "the next one has nothing to do with it"


@pytest.mark.parametrize("error", [NOT_LEADER, errors.NetworkError(unsent="true")], ids=["refused", "unsent"])
def test_at_most_once_what_certainly_did_not_arrive_is_sent_again(
    careless: ProducerWindow, error: errors.OncelogError
) -> None:
    a = batch()
    send(careless, a)
    assert careless.answered(a, error, retry_at_ms=10) == []
    assert careless.resend(10) is a
    assert careless.answered(a, LOST, retry_at_ms=20) == [(a, None)]


def test_at_most_once_a_refusal_is_told(careless: ProducerWindow) -> None:
    a, b = batch(), batch()
    send(careless, a, b)
    assert careless.answered(a, TOO_LARGE, 0) == [(a, TOO_LARGE)]
    assert careless.answered(b, None, 0) == [(b, None)]
