"""Numbers that healing has closed under a producer id of nobody: they are forgotten some time, and never become a commit."""

from __future__ import annotations

import json

import pytest

from oncelog import errors
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord, RemovedIds
from tests.unit.coordinator.driver import P0, Driver

KEPT_MS = 4_000
LIMITS = Limits(transactional_id_expiration_ms=10**9, transactional_id_retention_ms=KEPT_MS, expire_per_tick=3)


@pytest.fixture
def driver() -> Driver:
    return Driver(LIMITS)


def ask(driver: Driver, producer_id: int, txn_no: int = 1) -> cmd.ResolveReply:
    reply: cmd.ResolveReply = driver.do(cmd.Resolve(producer_id, txn_no, *P0))
    return reply


def pass_time(driver: Driver, ms: int) -> None:
    """With a `Tick` whenever one is due."""
    end_ms = driver.now_ms + ms
    while (due_ms := driver.table.next_deadline_ms()) is not None and due_ms <= end_ms:
        driver.tick(max(0, due_ms - driver.now_ms))
    driver.now_ms = end_ms


def test_an_orphan_is_forgotten_some_time_after_its_last_number(driver: Driver) -> None:
    for producer_id in range(70, 80):
        ask(driver, producer_id)
    pass_time(driver, KEPT_MS - 1)
    ask(driver, 75, 2)
    pass_time(driver, 1)
    assert set(driver.table.index.orphans) == {75}
    assert set(driver.replayed(compacted=True).table.index.orphans) == {75}
    pass_time(driver, KEPT_MS)
    assert driver.durable() == {}
    assert driver.table.next_deadline_ms() is None


def test_who_asks_later_hears_the_same(driver: Driver) -> None:
    assert ask(driver, 77) == cmd.ResolveReply(False, 0)
    pass_time(driver, KEPT_MS)
    assert ask(driver, 77) == cmd.ResolveReply(False, 0)
    assert set(driver.table.index.orphans) == {77}, "it is recorded before it is said"


def test_a_number_that_a_removed_id_may_have_had_is_never_guessed_later(driver: Driver) -> None:
    ask(driver, 77)
    driver.table.apply(RemovedIds(500, 9))
    assert ask(driver, 77) == cmd.ResolveReply(False, 0), "as it was said before"
    pass_time(driver, KEPT_MS)
    with pytest.raises(errors.OutcomeForgottenError):
        ask(driver, 77)


def test_the_record_of_an_older_version_gets_a_time_and_goes_then(driver: Driver) -> None:
    for producer_id in (77, 78):
        driver.log.append((f"orphan:{producer_id}", json.dumps({"v": 1, "pid": producer_id, "aborted": [3]}).encode()))
    driver = driver.replayed()
    assert driver.table.index.orphans[77].closed_ms == 0
    pass_time(driver, 1)
    began_ms = driver.now_ms - 1
    driver = driver.replayed()
    assert driver.table.index.orphans[77] == OrphanRecord(77, (3,), began_ms), "the next owner does not begin again"
    pass_time(driver, KEPT_MS)
    assert driver.durable() == {}


def test_a_time_that_is_to_come_counts_from_the_replay(driver: Driver) -> None:
    """The clock of the owner that wrote it was ahead."""
    driver.now_ms += 10**9
    ask(driver, 77)
    driver.now_ms -= 10**9
    driver = driver.replayed()
    pass_time(driver, KEPT_MS - 1)
    assert set(driver.table.index.orphans) == {77}
    pass_time(driver, 1)
    assert driver.durable() == {}


@pytest.mark.parametrize("key", ["orphan:78", "orphan:x", "orphan:", "txn:orphan:77", "orphan:" + "7" * 5_000, "77"])
def test_no_other_key_names_an_orphan(driver: Driver, key: str) -> None:
    ask(driver, 77)
    assert driver.table.index.orphan("orphan:77") == OrphanRecord(77, (1,), driver.now_ms)
    assert driver.table.index.orphan(key) is None
