"""Answers to leaders that hold a transaction open: never unknown, never from memory alone (holes 5, 6, 12, 15)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oncelog import errors
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from tests.unit.coordinator.driver import P0, P1, Driver


@pytest.fixture
def driver() -> Iterator[Driver]:
    one = Driver()
    yield one
    one.table.check()
    assert one.replayed(compacted=True).durable() == one.durable()


def resolve(driver: Driver, producer_id: int, n: int, partition: Any = P0) -> cmd.ResolveReply:
    reply: cmd.ResolveReply = driver.do(cmd.Resolve(producer_id, n, partition.topic_id, partition.partition))
    return reply


def test_ongoing_committed_aborted(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0, P1)
    assert resolve(driver, session.producer_id, 1) == cmd.ResolveReply(None, 0)
    assert driver.last.confirm, "a deposed owner must not say ONGOING"
    driver.end(session, 1, counts={P0: 4})
    assert resolve(driver, session.producer_id, 1) == cmd.ResolveReply(True, 0, None, 4)
    assert resolve(driver, session.producer_id, 1, P1).expected_records == 0
    driver.mark(1, P0, P1)
    assert resolve(driver, session.producer_id, 1).committed is True
    driver.end(session, 2, commit=False)
    assert resolve(driver, session.producer_id, 2).committed is False


@pytest.mark.case("C93")
def test_an_unknown_number_is_recorded_as_aborted_before_the_answer(driver: Driver) -> None:
    session = driver.init()
    records = len(driver.log)
    assert resolve(driver, session.producer_id, 1).committed is False
    assert len(driver.log) == records + 1
    with pytest.raises(errors.TxnAbortedError):
        driver.enrol(session, 1, P0)
    assert driver.end(session, 1, commit=False).committed is False
    with pytest.raises(errors.TxnAbortedError):
        driver.end(session, 1, commit=True)
    driver.enrol(session, 2, P0)


def test_an_unknown_number_ahead_waits_for_its_turn_and_is_skipped(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    assert resolve(driver, session.producer_id, 2).committed is False
    assert resolve(driver, session.producer_id, 3).committed is False
    assert driver.outcome(1).committed is None, "the open one is untouched"
    assert driver.outcome(3).committed is False
    driver.end(session, 1)
    assert driver.outcome(1).committed is True
    with pytest.raises(errors.TxnAbortedError):
        driver.enrol(session, 2, P0)
    driver.enrol(session, 4, P0)


def test_unknown_numbers_ahead_are_bounded() -> None:
    driver = Driver(Limits(aborted_ahead=2))
    session = driver.init()
    driver.enrol(session, 1, P0)
    for n in (5, 7):
        resolve(driver, session.producer_id, n)
    with pytest.raises(errors.ResourceExhaustedError):
        resolve(driver, session.producer_id, 9)
    assert resolve(driver, session.producer_id, 7).committed is False


def test_a_producer_id_that_nobody_has_is_recorded_too(driver: Driver) -> None:
    assert resolve(driver, 4711, 3) == cmd.ResolveReply(False, 0)
    records = len(driver.log)
    assert driver.replayed().table.index.orphans[4711].aborted == (3,)
    assert resolve(driver, 4711, 3).committed is False
    assert len(driver.log) == records


def test_a_forgotten_number_is_never_guessed() -> None:
    driver = Driver(Limits(kept_outcomes=2))
    session = driver.init()
    for n in range(1, 6):
        driver.end(session, n)
    with pytest.raises(errors.OutcomeForgottenError):
        resolve(driver, session.producer_id, 1)


@pytest.mark.parametrize("n", [0, -5])
def test_impossible_numbers(driver: Driver, n: int) -> None:
    with pytest.raises(errors.InvalidRequestError):
        resolve(driver, 1, n)


def test_a_group_shard_may_ask_without_a_partition(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, groups=("g",))
    driver.end(session, 1)
    reply = driver.do(cmd.Resolve(session.producer_id, 1, "", 17))
    assert reply == cmd.ResolveReply(True, 0, None, -1)


def test_markers_of_unknown_transactions_are_no_news(driver: Driver) -> None:
    driver.mark(1, P0)
    session = driver.init()
    driver.mark(1, P0)
    driver.enrol(session, 1, P0)
    driver.mark(1, P0)
    driver.end(session, 1)
    assert driver.outcome(1) == cmd.OutcomeReply(True, False), "a marker before the decision does not count"
