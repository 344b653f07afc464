"""The table of a shard: what it asserts about a step, and what a later life finds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace

import pytest

from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions import records as rec
from oncelog_coordinator.core.transactions import states
from oncelog_coordinator.core.transactions.records import (
    DecidedTransaction,
    Expected,
    OpenTransaction,
    Target,
    TransactionRecord,
)
from oncelog_coordinator.core.transactions.states import Outcome
from oncelog_coordinator.core.transactions.transaction_index import ParticipantJoined, SignOfLife
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable, check_record
from tests.unit.coordinator.driver import P0, P1, Driver


def test_an_illegal_step_is_a_broken_invariant() -> None:
    driver = Driver()
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1)
    record = driver.table.index.find("t")
    assert record is not None
    wrong = dataclasses.replace(
        record, outcomes="A", decided=(dataclasses.replace(record.decided[0], outcome=states.Outcome.ABORTED),)
    )
    with pytest.raises(AssertionError):
        driver.table.apply(wrong)
    with pytest.raises(AssertionError):
        driver.table.apply(dataclasses.replace(record, last_txn_no=0, outcomes="", decided=()))


@pytest.mark.case("hole 8")
def test_pipelining_survives_compaction(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0, P1)
    driver.end(session, 1, counts={P0: 3})
    driver.enrol(session, 2, P0)
    other = driver.replayed(compacted=True)
    (markers,) = other.table.pending(other.now_ms)
    assert (markers.txn_no, markers.committed, markers.targets) == (1, True, (Target(*P0, 3), Target(*P1, 0)))
    other.end(session, 2, commit=False)
    assert [m.txn_no for m in other.table.pending(0)] == [1, 2]


IDLE_MS = 10_000


KEPT_MS = 4_000


LIMITS = Limits(transactional_id_expiration_ms=IDLE_MS, transactional_id_retention_ms=KEPT_MS)


@pytest.mark.case("hole 16")
def test_to_let_a_lasting_token_expire_is_a_broken_invariant() -> None:
    driver = Driver(LIMITS)
    driver.do(cmd.Commit("t", "r1", 0, cmd.BatchName("a", 1, "1"), (), driver.fresh()))
    record = driver.table.index.find("t")
    assert record is not None
    with pytest.raises(AssertionError, match="must last"):
        driver.table.apply(replace(record, tokens=(rec.Token("a", 1, 0, expires=True),)))


# ---------------------------------------------------------------- reading


def test_an_empty_table_has_nothing_to_do() -> None:
    table = TransactionTable()
    assert table.next_deadline_ms() is None
    assert table.pending(0) == ()
    assert not table.knows("t")
    assert table.decide(cmd.Tick(), 1 << 40).records == ()


def test_a_key_without_a_value_removes_it() -> None:
    assert TransactionTable().decode("txn:t", None) == rec.Tombstone("txn:t")


def test_a_note_that_nobody_knows_is_a_broken_invariant(driver: Driver) -> None:
    driver.init()
    with pytest.raises(AssertionError, match="unknown note"):
        driver.table.apply(object())


def test_a_replay_takes_steps_that_a_life_may_not(driver: Driver) -> None:
    """Compaction leaves the newest record of a key alone, so what lies between is not there to be checked."""
    table = TransactionTable()
    table.apply(TransactionRecord("t", 7))
    table.apply(TransactionRecord("t", 7, last_txn_no=3, outcomes="CCC"))
    table.loaded(0)
    with pytest.raises(AssertionError):
        table.apply(TransactionRecord("t", 7, last_txn_no=3, outcomes="CCA"))


# ---------------------------------------------------------------- invariants


DECIDED = DecidedTransaction(1, Outcome.COMMITTED, 0, (Target(*P0),))
RECORD = TransactionRecord("t", 7, last_txn_no=2, outcomes="CC", decided=(DECIDED,))
OPEN = OpenTransaction(3, 0, 500)


def test_a_sound_record_passes() -> None:
    check_record(RECORD, Limits())
    check_record(replace(RECORD, last_txn_no=3, open=OPEN), Limits())


@pytest.mark.parametrize(
    "broken",
    [
        lambda record: replace(record, decided=(DECIDED, DECIDED)),
        lambda record: replace(record, decided=(replace(DECIDED, txn_no=3),)),
        lambda record: replace(record, decided=(replace(DECIDED, targets=()),)),
        lambda record: replace(record, decided=(replace(DECIDED, outcome=Outcome.ABORTED),)),
        lambda record: replace(record, outcomes="CCC"),
        lambda record: replace(record, aborted_ahead=(2,)),
        lambda record: replace(record, aborted_ahead=(3,)),
        lambda record: replace(record, tokens=(rec.Token("a", 1, 1), rec.Token("a", 2, 1))),
        lambda record: replace(record, open=OPEN),
        lambda record: replace(record, last_txn_no=3, open=replace(OPEN, joined=True)),
        lambda record: replace(record, owner=rec.Ownership("run", 1), expected=Expected((P0,))),
        lambda record: replace(record, dead=True),
        lambda record: replace(record, dead=True, decided=()),
    ],
)
def test_a_record_that_contradicts_itself_is_a_broken_invariant(
    broken: Callable[[TransactionRecord], TransactionRecord],
) -> None:
    with pytest.raises(AssertionError):
        check_record(broken(RECORD), Limits())


@pytest.mark.parametrize(
    "limits", [Limits(max_unsynced_transactions=1), Limits(max_pending_transactions=1), Limits(kept_outcomes=1)]
)
def test_a_record_above_a_bound_is_a_broken_invariant(limits: Limits) -> None:
    with pytest.raises(AssertionError):
        check_record(replace(RECORD, last_txn_no=3, open=OPEN), limits)


@pytest.mark.parametrize(
    "back",
    [
        lambda record: replace(record, producer_id=8),
        lambda record: replace(record, session_epoch=0),
        lambda record: replace(record, tokens=()),
        lambda record: replace(record, tokens=(rec.Token("a", 1, 0),)),
        lambda record: replace(record, owner=rec.NO_OWNER),
    ],
)
def test_what_must_never_go_back_does_not(back: Callable[[TransactionRecord], TransactionRecord]) -> None:
    driver = Driver()
    driver.init()
    driver.init()
    driver.do(cmd.Commit("t", "r1", 0, cmd.BatchName("a", 2, "1"), (), 0))
    record = driver.table.index.find("t")
    assert record is not None
    with pytest.raises(AssertionError):
        driver.table.apply(back(record))


# ---------------------------------------------------------------- what the table keeps beside the records


def test_a_tick_decides_what_is_due_and_says_when_to_look_again() -> None:
    driver = Driver(LIMITS)
    session = driver.init(timeout_ms=500)
    driver.enrol(session, 1, P0)
    assert driver.table.next_deadline_ms() == driver.now_ms + 500
    driver.tick(500)
    assert driver.outcome(1).committed is False
    assert list(driver.table.index.completing) == ["t"]
    driver.mark(1, P0)
    driver.tick(IDLE_MS)
    driver.tick(KEPT_MS)
    assert not driver.table.knows("t")
    assert driver.table.next_deadline_ms() is None


def test_participants_and_signs_of_life_belong_to_the_open_number_alone() -> None:
    driver = Driver(LIMITS)
    first, second = driver.join(lease_ms=1_000), driver.join(lease_ms=1_000)
    entry = driver.table.index.entries["t"]
    assert entry.participants == {first.producer_id, second.producer_id}
    driver.now_ms += 700
    late = ParticipantJoined("t", 9, 70, driver.now_ms)
    driver.table.apply(late)
    driver.table.apply(SignOfLife("t", 9, driver.now_ms + 70))
    assert 70 not in entry.participants
    driver.table.apply(SignOfLife("t", first.txn_no, driver.now_ms))
    driver.tick(700)
    assert driver.outcome(first.txn_no).committed is None, "somebody lived 700 ms ago"
    driver.do(cmd.Abort("t", "r1", first.txn_no, "app", 0))
    assert not entry.participants


def test_markers_of_a_complete_transaction_are_forgotten_and_others_stay(driver: Driver) -> None:
    session = driver.init()
    for n in (1, 2):
        driver.enrol(session, n, P0, P1)
        driver.end(session, n)
        driver.mark(n, P0)
    entry = driver.table.index.entries["t"]
    assert set(entry.markers_in) == {1, 2}
    driver.mark(1, P1)
    assert (set(entry.markers_in), set(entry.markers_done)) == ({2}, {2})


@pytest.mark.parametrize("tid", ["token", "numbers"])
def test_what_has_not_expired_or_must_last_is_not_removed(tid: str) -> None:
    driver = Driver(LIMITS)
    driver.init("numbers")
    driver.do(cmd.Commit("token", "r1", 0, cmd.BatchName("a", 1, "1"), (), driver.fresh()))
    with pytest.raises(AssertionError, match="has not expired"):
        driver.table.apply(rec.Tombstone(f"txn:{tid}"))
    driver.tick(IDLE_MS)
    with pytest.raises(AssertionError, match="never forgotten" if tid == "token" else "higher numbers"):
        driver.table.apply(rec.Tombstone(f"txn:{tid}"))
