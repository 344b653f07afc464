"""Batches that wait for their enrolment: who is held back, who is decided again, who is refused (hole 12)."""

from __future__ import annotations

from oncelog.errors import CoordinatorNotAvailableError
from oncelog_partition_leader.core.appends.enrolments import Enrolments
from oncelog_partition_leader.core.producers.decisions import NeedsEnrolment
from oncelog_partition_leader.core.producers.transactions import TxnSession
from tests.unit.partition_leader.core.appends.a_reply import command

ONE, TWO = TxnSession(7, 1, 0), TxnSession(7, 2, 0)


def test_a_waiting_batch_holds_back_its_own_producer_alone_and_in_order() -> None:
    enrolments = Enrolments()
    first, second = command(7, txn=(7, 1)), command(7, 1, txn=(7, 1))
    assert not enrolments.holds_back(first)
    assert enrolments.hold(first, NeedsEnrolment(ONE, 3)) == (first, NeedsEnrolment(ONE, 3))
    assert enrolments.holds_back(second)
    assert not enrolments.holds_back(command(8))
    assert not enrolments.holds_back(command(-1))
    assert (len(enrolments), enrolments.bytes) == (2, len(first.data) + len(second.data))
    assert enrolments.answered(ONE, None) == ([first, second], [])
    assert (len(enrolments), enrolments.bytes) == (0, 0)
    assert list(enrolments.verified) == [ONE]


def test_producers_of_one_transaction_share_one_question() -> None:
    enrolments = Enrolments()
    first, second = command(20, txn=(7, 1)), command(21, txn=(7, 1))
    assert enrolments.hold(first, NeedsEnrolment(ONE, 3)) is not None
    assert enrolments.hold(second, NeedsEnrolment(ONE, 3)) is None
    assert enrolments.answered(ONE, None).again == [first, second]


def test_a_refusal_is_for_the_batches_of_that_transaction_and_the_others_are_decided_again() -> None:
    enrolments = Enrolments()
    refused, later, plain = command(7, txn=(7, 1)), command(7, txn=(7, 2)), command(7)
    enrolments.hold(refused, NeedsEnrolment(ONE, 3))
    assert enrolments.holds_back(later)
    assert enrolments.holds_back(plain)
    error = CoordinatorNotAvailableError()
    assert enrolments.answered(ONE, error) == ([later, plain], [(refused, error)])
    assert enrolments.verified == {}
    assert enrolments.answered(ONE, error) == ([], []), "a second answer finds nothing"


def test_a_question_that_could_not_be_asked_leaves_nothing_behind() -> None:
    enrolments = Enrolments()
    question = enrolments.hold(command(7, txn=(7, 1)), NeedsEnrolment(ONE, 3))
    assert question is not None
    enrolments.withdraw(question)
    assert (len(enrolments), enrolments.bytes) == (0, 0)
    assert enrolments.hold(command(7, txn=(7, 1)), NeedsEnrolment(ONE, 3)) is not None, "it is asked again"


def test_the_end_returns_everything_that_waits() -> None:
    enrolments = Enrolments()
    first, second = command(20, txn=(7, 1)), command(21, txn=(7, 2))
    enrolments.hold(first, NeedsEnrolment(ONE, 3))
    enrolments.hold(second, NeedsEnrolment(TWO, 3))
    assert enrolments.drain() == [first, second]
    assert (len(enrolments), enrolments.bytes) == (0, 0)
