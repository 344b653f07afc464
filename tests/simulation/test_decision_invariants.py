"""Markers are judged by the committed records of coordinators: the judge knows each way in which they can differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.core.batch.control import Marker
from oncelog.types import PartitionId
from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord
from oncelog_coordinator.core.transactions.records import (
    DecidedTransaction,
    Expected,
    OpenTransaction,
    Target,
    Token,
    TransactionRecord,
)
from oncelog_coordinator.core.transactions.states import Outcome
from tests.simulation.decision_invariants import Decisions

HERE = PartitionId("0123456789abcdef0123456789abcdef", 3)
COMMITTED = DecidedTransaction(4, Outcome.COMMITTED, 2, (Target(*HERE, 7),))
RECORD = TransactionRecord("orders", 9, session_epoch=2, last_txn_no=4, decided=(COMMITTED,), outcomes="AAAC")


def decisions(*records: TransactionRecord | OrphanRecord) -> Decisions:
    found = Decisions()
    for record in records:
        found.take(record.key, record.encode())
    return found


def test_a_marker_says_what_was_decided() -> None:
    found, marker = decisions(RECORD), Marker(True, 1, 2, None, 7)
    assert found.problem((9, 4), HERE, marker) == ""
    assert "expects 7" in found.problem((9, 4), HERE, replace(marker, expected_records=-1))
    for other in (replace(marker, committed=False), replace(marker, session_epoch=1), replace(marker, winners=(9,))):
        assert "the decision was" in found.problem((9, 4), HERE, other)


def test_what_nobody_decided_has_no_marker_unless_it_is_recorded_as_aborted() -> None:
    abort = Marker(False, 1, 2)
    found = decisions(replace(RECORD, aborted_ahead=(6,)), OrphanRecord(11, (3,)))
    assert found.problem((9, 5), HERE, abort) == found.problem((12, 1), HERE, abort) == "nobody has decided it"
    assert found.problem((9, 6), HERE, replace(abort, committed=True)) == "nobody has decided it"
    assert found.problem((9, 6), HERE, abort) == found.problem((11, 3), HERE, abort) == ""


def test_a_transaction_is_complete_when_its_record_no_longer_has_it() -> None:
    found, done = decisions(RECORD), replace(RECORD, decided=())
    assert found.take(done.key, done.encode()) == [(9, 4)]
    assert found.problem((9, 4), HERE, Marker(True, 1, 2, None, 7)) == "", "a leader that lost it gets it again"
    assert found.problem((9, 4), HERE, Marker(True, 1, 2, None, -1)) == "", "the counts are forgotten"
    assert "expects 7" in found.problem((9, 4), HERE, Marker(True, 1, 2, None, 6))


def test_an_id_goes_when_nothing_of_it_is_needed() -> None:
    done = replace(RECORD, decided=())
    dead = replace(done, dead=True, outcomes="")
    found = decisions(RECORD, done, dead)
    found.take(dead.key, None)
    assert found.removed == {9}
    with pytest.raises(AssertionError, match="of a removed id"):
        found.take(dead.key, dead.encode())
    again = replace(dead, producer_id=10, dead=False)
    found.take(again.key, again.encode())


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (RECORD, "before it had expired"),
        (replace(RECORD, dead=True), "markers are missing"),
        (replace(RECORD, dead=True, decided=(), open=OpenTransaction(5, 0, 1)), "while it is open"),
        (replace(RECORD, dead=True, decided=(), tokens=(Token("a", 1, 1),)), "a token was forgotten"),
    ],
)
def test_an_id_that_is_needed_stays(last: TransactionRecord, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        decisions(last).take(last.key, None)
    again = replace(RECORD, producer_id=10)
    with pytest.raises(AssertionError, match=why):
        decisions(last).take(again.key, again.encode())


def test_a_new_session_expects_nothing() -> None:
    found = decisions(RECORD)
    expecting = replace(RECORD, expected=Expected((HERE,)))
    found.take(expecting.key, expecting.encode())
    later = replace(expecting, session_epoch=3)
    with pytest.raises(AssertionError, match="a new session"):
        found.take(later.key, later.encode())
