"""Transactions that readers see and whose markers are not on disk yet: they hold nobody up, and are bounded (decision 0022)."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.types import PartitionId
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.records import parse
from tests.unit.coordinator.driver import P0, P1, Driver


def all_visible(driver: Driver, count: int, *partitions: PartitionId) -> cmd.SessionReply:
    """A session whose first numbers are committed, and all of their markers are, too."""
    session = driver.init()
    for n in range(1, count + 1):
        driver.enrol(session, n, *partitions)
        driver.end(session, n)
        for partition in partitions:
            driver.do(cmd.MarkersCommitted("t", n, (partition,)))
    return session


def test_visible_transactions_wait_for_the_disks_without_holding_the_next_one_up() -> None:
    driver = Driver(Limits(max_unsynced_transactions=9))
    session = all_visible(driver, 8, P0, P1)
    driver.enrol(session, 9, P0)
    driver.end(session, 9)
    with pytest.raises(errors.ConcurrentTransactionsError):  # nine of them could need their markers again
        driver.enrol(session, 10, P0)
    driver.mark(4, P0, P1)
    driver.enrol(session, 10, P0)


def test_a_later_life_sends_the_markers_of_visible_transactions_again_and_goes_on() -> None:
    driver = Driver()
    session = all_visible(driver, 8, P0)
    driver.enrol(session, 9, P0)
    later = driver.replayed()
    effects = later.table.pending(later.now_ms)
    assert [effect.txn_no for effect in effects] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not later.outcome(7).visible, "a power cut of all replicas may have taken its marker away"
    later.end(session, 9)
    later.enrol(session, 10, P0)


def test_a_record_shows_versions_before_visible_no_more_transactions_than_they_take() -> None:
    driver = Driver()
    session = all_visible(driver, 11, P0)
    for n in range(12, 16):
        driver.enrol(session, n, P0)
        driver.end(session, n)
    value = parse(driver.log[-1][1] or b"")
    assert [item["n"] for item in value["decided"]] == [12, 13, 14, 15], "at most five"
    assert [item["n"] for item in value["visible"]] == list(range(1, 12)), "complete to such a version"
