"""Each function takes one step from a record to the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.types import PartitionId
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions import transaction_state as state
from oncelog_coordinator.core.transactions.orphan_records import RemovedIds
from oncelog_coordinator.core.transactions.records import (
    NOT_COUNTED,
    Expected,
    OpenTransaction,
    Session,
    Target,
    Token,
    TransactionRecord,
)
from oncelog_coordinator.core.transactions.states import Outcome, TxnState
from tests.unit.coordinator.driver import P0, P1, P2, Driver


def commit(driver: Driver, session: cmd.SessionReply, n: int, *partitions: PartitionId) -> None:
    driver.enrol(session, n, *partitions)
    driver.end(session, n, counts=dict.fromkeys(partitions, 1))
    driver.mark(n, *partitions)


def record(driver: Driver) -> TransactionRecord:
    found = driver.table.index.find("t")
    assert found is not None
    return found


def test_the_last_used_stay_when_there_is_no_more_room() -> None:
    driver = Driver(Limits(expected_partitions=2))
    session = driver.init()
    commit(driver, session, 1, P0, P1)
    commit(driver, session, 2, P0)
    assert record(driver).expected.partitions == (P1, P0)
    commit(driver, session, 3, P2)
    assert record(driver).expected.partitions == (P0, P2)


LIMITS = Limits()
NEW = TransactionRecord("t", 7, updated_ms=1)
OPENED = OpenTransaction(1, 5, 500, (P0, P1))
ONGOING = state.open_next(NEW, OPENED, 5)


def joined(n: int, attempt: str = "1") -> OpenTransaction:
    return OpenTransaction(n, 5, 500, (P0,), joined=True, lease_ms=100, app_id="app", batch_id=n, write_attempt=attempt)


# ---------------------------------------------------------------- ids and sessions


@pytest.mark.parametrize("producer_id", [0, -1])
def test_a_new_id_needs_a_producer_id(producer_id: int) -> None:
    with pytest.raises(state.ProducerIdNeededError) as refusal:
        state.new_id("t", producer_id, 1, RemovedIds())
    assert refusal.value.retriable


def test_a_new_id_begins_above_the_numbers_of_all_removed_ones() -> None:
    assert state.new_id("t", 7, 1, RemovedIds(70, 4)).last_txn_no == 4


def test_the_first_session_has_epoch_0_and_each_later_one_a_number_that_nobody_was_given() -> None:
    first = state.new_session(NEW, 500, "a", 2, LIMITS)
    assert (first.session_epoch, first.sessions[-1]) == (0, Session("a", 0, 1))
    second = state.new_session(first, 500, "b", 3, LIMITS)
    assert (second.session_epoch, second.sessions[-1]) == (1, Session("b", 1, 2))
    assert second.outcome_of(1) is Outcome.ABORTED, "1 was given to the first session"


def test_a_new_session_aborts_what_is_open_under_its_own_epoch() -> None:
    ongoing = state.open_next(state.new_session(NEW, 500, "", 2, LIMITS), OPENED, 5)
    after = state.new_session(ongoing, 500, "", 6, LIMITS)
    (decided,) = after.decided
    assert (decided.txn_no, decided.outcome, decided.session_epoch) == (1, Outcome.ABORTED, after.session_epoch)
    assert after.last_txn_no == 2, "2 is what the old session would have begun next"


def test_as_many_nonces_are_kept_as_are_allowed() -> None:
    record = NEW
    for number in range(4):
        record = state.new_session(record, 500, f"{number}", 2, Limits(kept_nonces=2))
    assert [session.nonce for session in record.sessions] == ["2", "3"]


def test_runs_that_no_longer_fit_by_name_are_fenced_by_the_largest_attempt() -> None:
    limits = Limits(fenced_runs=1)
    record = NEW
    for number, attempt in enumerate(["5", "3", "4"], start=1):
        record = state.take_over(record, f"run{number}", 2, limits)
        record = state.open_next(record, joined(record.last_txn_no + 1, attempt), 3)
    last = state.take_over(record, "run4", 4, limits)
    assert (last.owner.run, last.owner.number) == ("run4", 4)
    assert (last.owner.fenced, last.owner.fence_watermark) == ((("run3", "4"),), "5")


def test_a_session_takes_the_id_from_its_run() -> None:
    record = state.new_session(state.take_over(NEW, "run", 2, LIMITS), 500, "", 3, LIMITS)
    assert record.owner.run == ""
    assert record.owner.fenced == (("run", ""),)


# ---------------------------------------------------------------- one transaction


def test_what_was_never_enrolled_is_complete_with_its_decision() -> None:
    empty = state.open_next(NEW, OpenTransaction(1, 5, 500), 5)
    after = state.decide_open(empty, Outcome.COMMITTED, 6, LIMITS)
    assert (after.open, after.decided, after.outcomes) == (None, (), "C")


def test_partitions_without_a_count_hold_nothing_once_any_is_counted() -> None:
    counted = state.decide_open(ONGOING, Outcome.COMMITTED, 6, LIMITS, {P0: 7})
    assert counted.decided[0].targets == (Target(*P0, 7), Target(*P1, 0))
    plain = state.decide_open(ONGOING, Outcome.COMMITTED, 6, LIMITS)
    assert plain.decided[0].targets == (Target(*P0, NOT_COUNTED), Target(*P1, NOT_COUNTED))


def test_enrolment_keeps_one_order_and_nothing_twice() -> None:
    one = state.enrol(state.enrol(ONGOING, [P2], ["b"], 6), [P0], ["a"], 7)
    other = state.enrol(ONGOING, [P0, P2], ["a", "b"], 7)
    assert one == other
    assert one.open is not None
    assert one.open.partitions == (P0, P1, P2)


def test_as_many_outcomes_are_kept_as_are_allowed() -> None:
    record = NEW
    for number in range(1, 5):
        record = state.open_next(record, OpenTransaction(number, 5, 500), 5)
        record = state.decide_open(record, Outcome.COMMITTED, 6, Limits(kept_outcomes=3))
    assert (record.outcomes, record.is_forgotten(1), record.is_forgotten(2)) == ("CCC", True, False)


def test_an_abort_of_nothing_changes_nothing() -> None:
    assert state.abort_open(NEW, 9, LIMITS) is NEW


@pytest.mark.case("hole 11")
def test_ended_attempts_that_no_longer_fit_by_name_are_known_by_the_largest() -> None:
    limits = Limits(ended_attempts=1)
    record = state.take_over(NEW, "run", 2, limits)
    for number, attempt in enumerate(["9", "3"], start=1):
        record = state.abort_open(state.open_next(record, joined(number, attempt), 3), 4, limits)
    assert (record.owner.ended, record.owner.ended_watermark) == ((("app", 2, "3"),), "9")


def test_numbers_that_were_closed_ahead_are_passed_when_their_turn_comes() -> None:
    ahead = state.close_unknown(state.close_unknown(ONGOING, 3, 6, LIMITS), 2, 6, LIMITS)
    assert (ahead.aborted_ahead, ahead.last_txn_no) == ((2, 3), 1)
    after = state.decide_open(ahead, Outcome.COMMITTED, 7, LIMITS)
    assert (after.last_txn_no, after.outcomes, after.aborted_ahead) == (3, "CAA", ())


def test_a_decided_transaction_is_complete_when_its_markers_are_in() -> None:
    decided = state.decide_open(ONGOING, Outcome.ABORTED, 6, LIMITS)
    assert decided.state is TxnState.PREPARE_ABORT
    assert state.complete(decided, 1, 7).state is TxnState.COMPLETE_ABORT
    assert state.complete(decided, 9, 7).decided == decided.decided


# ---------------------------------------------------------------- what leaders may have heard


def test_a_number_that_leaders_may_have_opened_is_open_with_all_that_they_heard() -> None:
    doubtful = replace(NEW, expected=Expected((P0,), ("g",), may_be_open=True))
    after = state.assume_opened(doubtful, 9)
    assert after.open is not None
    assert (after.open.txn_no, after.open.partitions, after.open.groups) == (1, (P0,), ("g",))
    certain = replace(doubtful, expected=Expected((P0,), ("g",)))
    assert state.assume_opened(certain, 9) is certain


# ---------------------------------------------------------------- tokens, expiry


@pytest.mark.case("hole 16")
def test_a_token_that_must_last_is_never_made_to_expire() -> None:
    record = state.with_token(NEW, Token("b", 1, 1))
    record = state.with_token(record, Token("b", 2, 1, expires=True))
    record = state.with_token(record, Token("a", 1, 1, expires=True))
    assert record.tokens == (Token("a", 1, 1, expires=True), Token("b", 2, 1))


def test_an_expired_id_keeps_what_fences_others() -> None:
    record = state.take_over(state.with_token(NEW, Token("a", 1, 1)), "run", 2, LIMITS)
    record = state.abort_open(state.open_next(record, joined(1), 3), 4, LIMITS)
    expired = state.expire(state.complete(record, 1, 5), 6)
    assert (expired.dead, expired.outcomes, expired.sessions) == (True, "", ())
    kept = ("producer_id", "session_epoch", "last_txn_no", "tokens", "owner")
    assert all(getattr(expired, name) == getattr(record, name) for name in kept)
