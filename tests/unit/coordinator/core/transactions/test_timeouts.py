"""What a clock may do: abort what is over its time, forget what is idle, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog import errors
from oncelog_coordinator.core.decision import TransactionEnded
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions import records as rec
from oncelog_coordinator.core.transactions import timeouts
from oncelog_coordinator.core.transactions.records import OpenTransaction, TransactionRecord
from oncelog_coordinator.core.transactions.states import TxnState
from oncelog_coordinator.core.transactions.timeouts import Deadlines
from oncelog_coordinator.core.transactions.transaction_index import Entry
from tests.unit.coordinator.driver import P0, Driver, name, participant


def state(driver: Driver) -> TxnState:
    view: cmd.TransactionView = driver.do(cmd.Describe("t"))
    return view.state


@pytest.mark.case("C66", "C69")
def test_a_timeout_aborts_and_the_late_commit_hears_so(driver: Driver) -> None:
    session = driver.init(timeout_ms=500)
    driver.enrol(session, 1, P0)
    driver.tick(499)
    assert state(driver) is TxnState.ONGOING
    assert driver.table.next_deadline_ms() == driver.now_ms + 1
    driver.tick(1)
    assert state(driver) is TxnState.PREPARE_ABORT
    with pytest.raises(errors.TxnAbortedError) as info:
        driver.end(session, 1)
    assert info.value.requires_abort
    driver.enrol(session, 2, P0)
    assert driver.end(session, 2).committed


def test_a_timeout_of_an_earlier_life_ends_at_its_own_time_or_one_timeout_after_the_replay(driver: Driver) -> None:
    session = driver.init(timeout_ms=500)
    driver.enrol(session, 1, P0)
    driver.now_ms += 400
    other = driver.replayed()
    assert other.table.next_deadline_ms() == driver.now_ms + 100
    driver.now_ms -= 100_000
    back = driver.replayed()
    assert back.table.next_deadline_ms() == driver.now_ms + 500
    driver.now_ms += 100_000


@pytest.mark.case("C77")
def test_an_idle_id_expires_and_keeps_what_must_stay(driver: Driver) -> None:
    session = driver.init(nonce="a")
    driver.end(session, 1)
    driver.tick(7 * 86_400_000 - 1)
    assert state(driver) is TxnState.COMPLETE_COMMIT
    driver.tick(1)
    assert state(driver) is TxnState.DEAD
    with pytest.raises(errors.InvalidPidMappingError):
        driver.enrol(session, 2, P0)
    with pytest.raises(errors.OutcomeForgottenError):
        driver.outcome(1)
    back = driver.init(nonce="a")
    assert (back.producer_id, back.producer_epoch, back.next_txn_no) == (session.producer_id, 1, 3)
    assert state(driver) is TxnState.COMPLETE_ABORT, "the expired session was given 2, and may have noted it"


def test_ids_with_work_do_not_expire(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1)
    driver.tick(30 * 86_400_000)
    assert state(driver) is TxnState.PREPARE_COMMIT
    driver.mark(1, P0)
    driver.tick(8 * 86_400_000)
    assert state(driver) is TxnState.DEAD


def test_many_time_outs_are_decided_in_portions() -> None:
    driver = Driver(Limits(expire_per_tick=10))
    for i in range(25):
        session = driver.init(tid=f"t{i}", timeout_ms=100)
        driver.do(cmd.Enrol(name(session, 1, f"t{i}"), (P0,)))
    driver.tick(100)
    for _ in range(5):
        driver.tick(0)
    assert all(view.state is TxnState.PREPARE_ABORT for view in driver.do(cmd.ListIds()))
    assert len(driver.effects) == 25


def test_a_time_out_is_told_as_such(driver: Driver) -> None:
    session = driver.init(timeout_ms=1_000)
    driver.enrol(session, 1, P0)
    driver.now_ms += 1_000
    driver.do(cmd.Tick())
    assert driver.last.ended == (TransactionEnded("timed_out", 1_000),)
    assert not driver.table.index.open
    assert list(driver.table.index.completing) == ["t"]


def test_a_lease_is_renewed_by_any_participant_and_ends_what_nobody_finishes(driver: Driver) -> None:
    joined = driver.join(lease_ms=1_000)
    for _ in range(3):
        driver.tick(900)
        driver.do(cmd.Renew(participant(joined), "r1"))
    driver.tick(900)
    driver.join(lease_ms=1_000)
    driver.tick(999)
    assert driver.outcome(1).committed is None
    driver.tick(1)
    assert driver.outcome(1).committed is False
    with pytest.raises(errors.TxnAbortedError):
        driver.do(cmd.Renew(participant(joined), "r1"))


def test_the_hard_cap_ends_a_transaction_that_is_renewed_for_ever(driver: Driver) -> None:
    joined = driver.join(lease_ms=1_000, max_duration_ms=2_500)
    for _ in range(2):
        driver.tick(900)
        driver.do(cmd.Renew(participant(joined), "r1"))
    driver.tick(700)
    assert driver.outcome(1).committed is False


def test_a_lease_begins_anew_at_fail_over_the_hard_cap_does_not(driver: Driver) -> None:
    driver.join(lease_ms=1_000, max_duration_ms=1_500)
    driver.now_ms += 900
    other = driver.replayed()
    assert other.table.next_deadline_ms() == driver.now_ms + 600


IDLE_MS = 10_000


KEPT_MS = 4_000


LIMITS = Limits(transactional_id_expiration_ms=IDLE_MS, transactional_id_retention_ms=KEPT_MS)


def test_f_the_deadline_is_computed_from_the_record_alone() -> None:
    record = rec.TransactionRecord("t", 1, updated_ms=100)
    assert timeouts.idle_deadline_ms(record, LIMITS) == 100 + IDLE_MS
    assert timeouts.idle_deadline_ms(replace(record, dead=True), LIMITS) == 100 + KEPT_MS
    lasting = replace(record, dead=True, tokens=(rec.Token("a", 1, 1),))
    assert timeouts.idle_deadline_ms(lasting, LIMITS) is None


# ---------------------------------------------------------------- deadlines


def deadlines(**due_ms: int) -> Deadlines:
    found = Deadlines()
    for one, ms in due_ms.items():
        found.watch(one, ms)
    return found


def test_what_is_due_comes_first_and_is_not_taken() -> None:
    found = deadlines(c=30, a=10, d=40, b=20)
    for _ in range(2):
        assert found.due(30, 10) == ["a", "b", "c"]
    assert found.due(30, 2) == ["a", "b"]
    assert found.due(9, 10) == []
    assert found.next_ms == 10


def test_an_earlier_time_counts_at_once_and_a_later_one_when_the_first_is_looked_at() -> None:
    found = deadlines(a=10)
    found.watch("a", 5)
    assert found.next_ms == 5
    found.watch("a", 50)
    assert found.next_ms == 5
    found.looked(("a",), 10)
    assert found.next_ms is None
    found.watch("a", 50)
    assert found.due(50, 10) == ["a"]


def test_what_was_noted_meanwhile_is_not_forgotten_with_what_was_looked_at() -> None:
    found = deadlines(b=20, c=30)
    seen = tuple(found.due(30, 10))
    found.watch("a", 10)
    found.looked(seen, 30)
    assert found.due(30, 10)[0] == "a"


def test_a_lease_ends_a_joined_transaction_before_its_cap_unless_somebody_lives() -> None:
    opened = OpenTransaction(1, 1_000, 500, joined=True, lease_ms=100)
    entry = Entry(TransactionRecord("t", 7, last_txn_no=1, open=opened), opened_here=True)
    assert timeouts.open_deadline_ms(entry, None) == 1_100
    entry.touched_ms = 1_050
    assert timeouts.open_deadline_ms(entry, None) == 1_150
    entry.touched_ms = 1_499
    assert timeouts.open_deadline_ms(entry, None) == 1_500, "the cap stays"
    entry.record = replace(entry.record, open=replace(opened, joined=False))
    assert timeouts.open_deadline_ms(entry, None) == 1_500
    entry.record = replace(entry.record, open=None)
    assert timeouts.open_deadline_ms(entry, None) is None


@pytest.mark.parametrize(("started_ms", "deadline_ms"), [(1_000, 1_500), (90_000, 2_500)])
def test_what_an_earlier_life_opened_is_counted_from_the_end_of_the_replay_at_the_latest(
    started_ms: int, deadline_ms: int
) -> None:
    entry = Entry(TransactionRecord("t", 7, last_txn_no=1, open=OpenTransaction(1, started_ms, 500)))
    assert timeouts.open_deadline_ms(entry, 2_000) == deadline_ms
    entry.opened_here = True
    assert timeouts.open_deadline_ms(entry, 2_000) == started_ms + 500


@pytest.mark.parametrize("dead", [False, True])
def test_what_is_open_or_waits_for_markers_is_never_idle(dead: bool, driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1)
    record = driver.table.index.find("t")
    assert record is not None
    assert timeouts.idle_deadline_ms(replace(record, dead=dead), LIMITS) is None
