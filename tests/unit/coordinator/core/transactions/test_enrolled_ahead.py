"""Partitions that a decision enrols ahead in the next number (decision 0017)."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.types import PartitionId
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.records import Expected, TransactionRecord
from oncelog_coordinator.core.transactions.states import TxnState
from tests.unit.coordinator.driver import P0, P1, P2, TOPIC, Driver, name


def commit(driver: Driver, session: cmd.SessionReply, n: int, *partitions: PartitionId) -> None:
    driver.enrol(session, n, *partitions)
    driver.end(session, n, counts=dict.fromkeys(partitions, 1))
    driver.mark(n, *partitions)


def record(driver: Driver) -> TransactionRecord:
    found = driver.table.index.find("t")
    assert found is not None
    return found


def test_what_was_used_is_expected_next(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P1, P0, groups=("g",))
    driver.end(session, 1)
    assert record(driver).expected == Expected((P0, P1), ("g",))


def test_an_abort_expects_too(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1, commit=False)
    assert record(driver).expected == Expected((P0,))


def test_an_expected_partition_is_answered_before_its_record_is_logged(driver: Driver) -> None:
    session = driver.init()
    commit(driver, session, 1, P0, P1)
    driver.enrol(session, 2, P0)
    assert driver.last.lazy
    assert record(driver).open is not None
    driver.enrol(session, 2, P1)
    assert driver.last.lazy
    driver.enrol(session, 2, P1, P2)
    assert not driver.last.lazy, "P2 must be durable first"
    driver.enrol(session, 2, P1)
    assert not driver.last.records


def test_a_number_that_nothing_was_expected_of_is_opened_durably(driver: Driver) -> None:
    driver.enrol(driver.init(), 1)
    assert not driver.last.lazy


def test_the_life_that_expected_marks_only_what_it_answered(driver: Driver) -> None:
    session = driver.init()
    commit(driver, session, 1, P0, P1)
    driver.enrol(session, 2, P0)
    driver.end(session, 2, counts={P0: 1})
    assert [(t.partition, t.expected_records) for t in driver.effects[-1].targets] == [(0, 1)]


def test_a_later_life_marks_everything_that_was_expected(driver: Driver) -> None:
    session = driver.init()
    commit(driver, session, 1, P0, P1)
    driver.enrol(session, 2, P0)
    later = driver.replayed(lost=1)
    later.end(session, 2, counts={P0: 1})
    assert [(t.partition, t.expected_records) for t in later.effects[-1].targets] == [(0, 1), (1, 0)]


def test_a_later_life_keeps_its_doubt_until_the_number_is_decided(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0, P1)
    driver.end(session, 1)
    later = driver.replayed()
    later.mark(1, P0, P1)
    assert record(later).expected.may_be_open, "COMPLETE of 1 says nothing about 2"
    later.enrol(session, 2, P0)
    assert later.last.lazy
    later.end(session, 2)
    assert [t.partition for t in later.effects[-1].targets] == [0, 1]
    assert not record(later).expected.may_be_open


def test_a_session_of_the_same_life_sends_no_markers_for_the_number_that_nobody_opened(driver: Driver) -> None:
    commit(driver, driver.init(), 1, P0)
    session = driver.init()
    assert (session.producer_epoch, session.next_txn_no) == (1, 3)
    assert record(driver).state_of(2) is TxnState.COMPLETE_ABORT
    driver.enrol(session, 3, P0)
    assert not driver.last.lazy, "a new session expects nothing"


def test_a_session_of_a_later_life_aborts_the_number_that_may_be_open(driver: Driver) -> None:
    commit(driver, driver.init(), 1, P0)
    later = driver.replayed()
    session = later.init()
    assert (session.producer_epoch, session.next_txn_no) == (1, 4)
    markers, _ = later.effects
    assert (markers.txn_no, markers.committed, markers.session_epoch) == (2, False, 1)
    assert record(later).state_of(2) is TxnState.PREPARE_ABORT


def test_a_run_of_a_later_life_aborts_the_number_that_may_be_open(driver: Driver) -> None:
    commit(driver, driver.init(), 1, P0)
    later = driver.replayed()
    assert later.join("t").txn_no == 4
    assert [ended.txn_no for ended in later.effects] == [2, 3], "3 was never begun"
    assert not record(later).expected


def test_a_session_waits_for_room_when_it_has_a_number_to_abort() -> None:
    driver = Driver(Limits(max_pending_transactions=1))
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1)
    later = driver.replayed()
    with pytest.raises(errors.ConcurrentTransactionsError):
        later.init()
    later.mark(1, P0)
    assert later.init().next_txn_no == 4


def test_a_leaders_question_opens_what_may_be_open(driver: Driver) -> None:
    session = driver.init()
    commit(driver, session, 1, P0)
    later = driver.replayed()
    reply = later.do(cmd.Resolve(session.producer_id, 2, TOPIC, 0))
    assert reply.committed is None
    later.now_ms += 60_000
    later.do(cmd.Tick())
    assert not later.do(cmd.Resolve(session.producer_id, 2, TOPIC, 0)).committed
    assert record(later).state_of(2) is TxnState.PREPARE_ABORT


def test_a_question_about_a_number_that_nobody_opened_closes_it(driver: Driver) -> None:
    session = driver.init()
    commit(driver, session, 1, P0)
    assert driver.do(cmd.Resolve(session.producer_id, 2, TOPIC, 0)).committed is False
    with pytest.raises(errors.TxnAbortedError):
        driver.enrol(session, 2, P0)
    driver.enrol(session, 3, P0)


def test_expiry_expects_nothing() -> None:
    driver = Driver(Limits(transactional_id_expiration_ms=1_000))
    commit(driver, driver.init(), 1, P0)
    driver.now_ms += 1_000
    driver.do(cmd.Tick())
    assert record(driver).dead
    assert not record(driver).expected


def test_a_later_life_aborts_the_number_that_may_be_open_before_it_forgets_the_id() -> None:
    driver = Driver(Limits(transactional_id_expiration_ms=1_000))
    session = driver.init()
    commit(driver, session, 1, P0)
    driver.enrol(session, 2, P0)
    later = driver.replayed(lost=1)
    later.now_ms += 1_000
    later.do(cmd.Tick())
    assert not record(later).dead
    assert [(m.txn_no, m.committed, [t.partition for t in m.targets]) for m in later.effects] == [(2, False, [0])]
    later.mark(2, P0)
    later.now_ms += 1_000
    later.do(cmd.Tick())
    assert record(later).dead
    assert later.init().next_txn_no == 4, "the expired session was given 3"


def test_names_of_another_session_open_nothing(driver: Driver) -> None:
    old = driver.init()
    commit(driver, old, 1, P0)
    driver.init()
    with pytest.raises(errors.ProducerFencedError):
        driver.do(cmd.Enrol(name(old, 2), (P0,)))
