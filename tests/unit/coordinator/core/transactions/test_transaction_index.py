"""What is volatile about an id may be lost at any time, and what follows is always the safe side."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.errors import InvalidPidMappingError
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions.records import DecidedTransaction, Target, Token, TransactionRecord
from oncelog_coordinator.core.transactions.states import Outcome
from oncelog_coordinator.core.transactions.transaction_index import Entry, MarkersIn, TransactionIndex
from tests.unit.coordinator.driver import P0, P1

DECIDED = DecidedTransaction(1, Outcome.COMMITTED, 0, (Target(*P0), Target(*P1)), ("g",))
RECORD = TransactionRecord("t", 7, last_txn_no=1, outcomes="C", decided=(DECIDED,))


def index_with(record: TransactionRecord) -> TransactionIndex:
    index = TransactionIndex(Limits())
    index.entries[record.transactional_id] = Entry(record)
    index.ids[record.producer_id] = record.transactional_id
    index.note(record)
    return index


def test_a_transaction_is_visible_when_its_last_target_shows_the_marker() -> None:
    index = index_with(RECORD)
    entry = index.entries["t"]
    for target in (P0, "g"):
        entry.take_markers(MarkersIn("t", 1, (target,)))
        assert not index.is_visible(entry.record, 1)
    entry.take_markers(MarkersIn("t", 1, (P1,)))
    assert index.is_visible(entry.record, 1)
    assert entry.record.decided[0].was_visible


def test_a_marker_that_shows_is_not_yet_on_disk() -> None:
    entry = Entry(RECORD)
    entry.take_markers(MarkersIn("t", 1, (P0, P1, "g")))
    assert entry.not_on_disk(DECIDED) == {P0, P1, "g"}
    entry.take_markers(MarkersIn("t", 1, (P0,), on_disk=True))
    assert entry.not_on_disk(DECIDED) == {P1, "g"}


def test_of_a_complete_transactions_markers_nothing_is_kept() -> None:
    entry = Entry(RECORD)
    entry.take_markers(MarkersIn("t", 2, (P0,), on_disk=True))
    assert not entry.markers_in
    assert not entry.markers_done


def test_a_life_that_knows_of_no_marker_sends_them_again_also_of_what_was_visible() -> None:
    seen = replace(DECIDED, was_visible=True)
    index = index_with(replace(RECORD, decided=(seen,)))
    assert index.entries["t"].missing(seen) == {P0, P1, "g"}
    assert not index.is_visible(index.entries["t"].record, 1)


def test_an_open_number_is_not_visible_and_one_without_markers_is() -> None:
    index = index_with(replace(RECORD, decided=()))
    assert index.is_visible(index.entries["t"].record, 1)


@pytest.mark.parametrize("transactional_id", ["t", ""])
def test_an_id_is_found_by_its_names_or_by_its_producer_id_alone(transactional_id: str) -> None:
    index = index_with(RECORD)
    assert index.named(transactional_id, 7) is index.entries["t"]


@pytest.mark.parametrize(("transactional_id", "producer_id"), [("t", 8), ("", 8), ("other", 7)])
def test_names_that_do_not_belong_together_are_refused(transactional_id: str, producer_id: int) -> None:
    with pytest.raises(InvalidPidMappingError, match="start a new session"):
        index_with(RECORD).named(transactional_id, producer_id)


def test_an_expired_id_answers_to_no_name() -> None:
    index = index_with(replace(RECORD, decided=(), outcomes="", dead=True))
    for transactional_id in ("t", ""):
        with pytest.raises(InvalidPidMappingError):
            index.named(transactional_id, 7)


def test_the_newest_record_says_where_an_id_belongs() -> None:
    index = index_with(RECORD)
    assert (list(index.completing), list(index.open), list(index.lasting)) == (["t"], [], [])
    index.note(replace(RECORD, decided=(), tokens=(Token("a", 1, 1),)))
    assert (list(index.completing), list(index.open), list(index.lasting)) == ([], [], ["t"])


def test_a_removed_id_is_nowhere_and_may_be_removed_again() -> None:
    index = index_with(RECORD)
    for _ in range(2):
        index.remove("t")
        assert not any((index.entries, index.ids, index.open, index.completing, index.lasting))
    assert (index.find("t"), index.entry("t"), list(index.records())) == (None, None, [])
