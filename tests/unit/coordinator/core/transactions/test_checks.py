"""What decisions about transactions share: refusals by name, room, and what a decision starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog import errors
from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import TransactionEnded
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import checks
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.commands import BecameVisible, SendMarkers
from oncelog_coordinator.core.transactions.orphan_records import RemovedIds
from oncelog_coordinator.core.transactions.records import DecidedTransaction, OpenTransaction, Target, TransactionRecord
from oncelog_coordinator.core.transactions.states import Outcome
from oncelog_coordinator.core.transactions.transaction_index import Entry, TransactionIndex
from tests.unit.coordinator.driver import P0, P1, P2, TOPIC, Driver


def test_a_number_too_far_above_one_without_its_markers_waits() -> None:
    driver = Driver(Limits(max_number_span=3))
    session = driver.init()
    driver.enrol(session, 1, P0)
    for number in (1, 2, 3):
        driver.end(session, number)
    with pytest.raises(errors.ConcurrentTransactionsError):
        driver.enrol(session, 4, P1)
    driver.mark(1, P0)
    driver.enrol(session, 4, P1)


def test_pipelining_is_bounded_by_five(driver: Driver) -> None:
    session = driver.init()
    for n in range(1, 6):
        driver.enrol(session, n, P0)
        driver.end(session, n)
    with pytest.raises(errors.ConcurrentTransactionsError):
        driver.enrol(session, 6, P0)
    driver.mark(3, P0)
    driver.enrol(session, 6, P0)


def test_end_of_a_number_that_is_not_next(driver: Driver) -> None:
    session = driver.init()
    with pytest.raises(errors.InvalidTxnStateError):
        driver.end(session, 2)
    driver.enrol(session, 1, P0)
    with pytest.raises(errors.ConcurrentTransactionsError):
        driver.end(session, 2)


def test_counts_on_a_partition_that_was_never_enrolled_are_refused(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    with pytest.raises(errors.InvalidRequestError):
        driver.end(session, 1, counts={P0: 1, P2: 1})


def test_each_decision_tells_its_outcome_and_how_long_the_transaction_took(driver: Driver) -> None:
    session = driver.init()
    assert driver.last.ended == ()
    driver.enrol(session, 1, P0)
    driver.now_ms += 1_500
    driver.end(session, 1)
    assert driver.last.ended == (TransactionEnded("committed", 1_500),)
    driver.end(session, 1)
    assert driver.last.ended == (), "a repeat decides nothing"
    driver.enrol(session, 2, P0)
    driver.init()
    assert driver.last.ended == (TransactionEnded("aborted", 0),)
    session = driver.init()
    assert driver.last.ended == (), "4 was given and never used: nothing ended"
    driver.end(session, 5)
    assert driver.last.ended == (TransactionEnded("committed", 0),), "it enrolled nothing: it began with its end"


RECORD = TransactionRecord("t", 7, session_epoch=3, last_txn_no=4, outcomes="CA")
OPEN = OpenTransaction(5, 0, 500, (P0, P1))


def index_with(*records: TransactionRecord, removed: RemovedIds | None = None) -> TransactionIndex:
    index = TransactionIndex(Limits())
    for record in records:
        index.entries[record.transactional_id] = Entry(record)
        index.ids[record.producer_id] = record.transactional_id
    index.removed = removed or RemovedIds()
    return index


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("producer_epoch", [2, 4])
def test_another_session_than_the_current_one_is_fenced_and_told_which_is(producer_epoch: int) -> None:
    checks.require_session(RECORD, 3)
    with pytest.raises(errors.ProducerFencedError) as refusal:
        checks.require_session(RECORD, producer_epoch)
    assert refusal.value.context["current_epoch"] == "3"


@pytest.mark.parametrize(
    ("txn_no", "error"), [(4, errors.TxnAbortedError), (3, errors.TxnEndedError), (1, errors.TxnEndedError)]
)
def test_that_it_was_aborted_is_said_only_when_that_is_known(txn_no: int, error: type[errors.OncelogError]) -> None:
    assert type(checks.ended_error(RECORD, txn_no)) is error


@pytest.mark.parametrize("txn_no", [0, -1])
def test_no_transaction_has_a_number_below_1(txn_no: int) -> None:
    checks.require_txn_no(1)
    with pytest.raises(errors.InvalidRequestError):
        checks.require_txn_no(txn_no)


def test_only_the_number_after_the_open_one_may_be_early() -> None:
    ongoing = replace(RECORD, last_txn_no=5, open=OPEN)
    assert isinstance(checks.not_next_error(ongoing, 6), errors.ConcurrentTransactionsError)
    for record, number in ((ongoing, 7), (ongoing, 4), (RECORD, 6)):
        assert isinstance(checks.not_next_error(record, number), errors.InvalidTxnStateError)
    assert [number for number in range(8) if checks.is_next(RECORD, number)] == [5]
    assert not checks.is_next(ongoing, 6)


@pytest.mark.case("hole 15")
def test_of_an_expired_ids_number_nobody_says_that_a_new_session_is_enough() -> None:
    expired = replace(RECORD, dead=True, outcomes="")
    for name in (cmd.TxnName("t", 7, 4, 3), cmd.TxnName("", 7, 4, 3)):
        with pytest.raises(errors.OutcomeForgottenError):
            checks.require_remembered(index_with(expired), name)
    checks.require_remembered(index_with(expired), cmd.TxnName("t", 7, 5, 3))
    checks.require_remembered(index_with(expired), cmd.TxnName("another", 7, 4, 3))
    checks.require_remembered(index_with(RECORD), cmd.TxnName("t", 7, 4, 3))


@pytest.mark.case("hole 15")
def test_of_a_number_that_a_removed_id_may_have_had_nobody_says_that_a_new_session_is_enough() -> None:
    index = index_with(removed=RemovedIds(70, 4))
    with pytest.raises(errors.OutcomeForgottenError):
        checks.require_remembered(index, cmd.TxnName("t", 7, 4, 3))
    checks.require_remembered(index, cmd.TxnName("t", 7, 5, 3))
    checks.require_remembered(index, cmd.TxnName("t", 71, 4, 3))


def test_the_first_partition_that_was_never_enrolled_is_named() -> None:
    ongoing = replace(RECORD, last_txn_no=5, open=OPEN)
    checks.require_enrolled(ongoing, [P1])
    with pytest.raises(errors.InvalidRequestError) as refusal:
        checks.require_enrolled(ongoing, [P0, PartitionId(TOPIC, 9), PartitionId(TOPIC, 8)])
    assert refusal.value.context["partition"] == "8"


def test_names_that_are_too_many_bytes_together_are_refused() -> None:
    limits = Limits(max_enrolled_bytes=2 * 70 + 3)
    checks.require_fits(replace(OPEN, groups=("",)), limits)
    with pytest.raises(errors.PolicyViolationError, match="use several transactions"):
        checks.require_fits(replace(OPEN, groups=("g",)), limits)


# ---------------------------------------------------------------- room


def decided(count: int, *, visible: bool = False) -> TransactionRecord:
    items = tuple(
        DecidedTransaction(n, Outcome.COMMITTED, 3, (Target(*P0),), was_visible=visible) for n in range(1, count + 1)
    )
    return replace(RECORD, last_txn_no=count, outcomes="C" * count, decided=items)


def test_what_was_visible_waits_for_disks_only_and_many_may() -> None:
    limits = Limits(max_pending_transactions=2, max_unsynced_transactions=4)
    checks.require_room(decided(1), limits)
    checks.require_room(decided(3, visible=True), limits)
    for record in (decided(2), decided(4, visible=True)):
        with pytest.raises(errors.ConcurrentTransactionsError, match="wait for their markers") as refusal:
            checks.require_room(record, limits)
        assert refusal.value.retriable


def test_the_bytes_of_what_waits_are_bounded() -> None:
    with pytest.raises(errors.ConcurrentTransactionsError):
        checks.require_room(decided(3), Limits(max_pending_bytes=3 * 70 - 1))
    checks.require_room(decided(3), Limits(max_pending_bytes=3 * 70))


# ---------------------------------------------------------------- what a decision starts


def test_every_number_that_was_decided_on_the_way_gets_its_markers_or_is_visible_at_once() -> None:
    old = replace(RECORD, last_txn_no=5, open=OPEN)
    waiting = DecidedTransaction(5, Outcome.ABORTED, 4, (Target(*P0),), ("g",))
    new = replace(RECORD, session_epoch=4, last_txn_no=6, outcomes="CAAA", decided=(waiting,), updated_ms=20)
    decision = checks.decided_now(old, new, "reply")
    assert decision.records == (new,)
    assert decision.effects == (
        SendMarkers("t", 7, 5, 4, False, None, (Target(*P0),), ("g",)),
        BecameVisible("t", 6),
    )
    assert decision.ended == (TransactionEnded("aborted", 20),), "6 was only given: it is no transaction's end"


def test_markers_name_the_transaction_as_leaders_know_it() -> None:
    item = DecidedTransaction(4, Outcome.COMMITTED, 3, (Target(*P0, 7),), ("g",), (8, 9))
    assert checks.send_markers(RECORD, item) == SendMarkers("t", 7, 4, 3, True, (8, 9), (Target(*P0, 7),), ("g",))
