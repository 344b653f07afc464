"""The records of transactional ids: equal states have equal bytes, and each number has its outcome."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from oncelog_coordinator.core.transactions import records as rec
from oncelog_coordinator.core.transactions.records import Expected, TransactionRecord, parse
from oncelog_coordinator.core.transactions.states import Outcome, TxnState
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from tests.unit.coordinator.driver import P0, P1, P2


def test_unknown_fields_of_a_newer_version_are_ignored() -> None:
    record = rec.TransactionRecord("t", 7, tokens=(rec.Token("a", 1, 2),))
    newer = record.encode()[:-1] + b',"zz_new":[1,2]}'
    assert TransactionTable().decode("txn:t", newer) == record


def test_equal_states_have_equal_bytes() -> None:
    one = rec.TransactionRecord("t", 7)
    assert one.encode() == rec.TransactionRecord.decode(rec.parse(one.encode())).encode()


def test_an_older_version_reads_the_tokens_and_keeps_them_for_ever() -> None:
    tokens = (rec.Token("a", 1, 2), rec.Token("b", 3, 4, expires=True))
    value = json.loads(rec.TransactionRecord("t", 7, tokens=tokens).encode())
    assert value["tokens"] == [["a", 1, 2], ["b", 3, 4]]
    assert rec.TransactionRecord.decode(value).tokens == tokens
    del value["expiring"]
    assert rec.TransactionRecord.decode(value).is_lasting


def test_a_record_without_expectations_has_the_bytes_of_before() -> None:
    plain = TransactionRecord("t", 7)
    assert "expected" not in parse(plain.encode())
    assert not TransactionRecord.decode(parse(plain.encode())).expected


def test_what_comes_from_a_log_is_in_doubt() -> None:
    known = TransactionRecord("t", 7, expected=Expected((P1, P0), ("g",)))
    read = TransactionRecord.decode(parse(known.encode()))
    assert read == known
    assert read.expected.may_be_open
    assert not known.expected.may_be_open


# ---------------------------------------------------------------- what a record says


ALL = rec.TransactionRecord(
    "t",
    7,
    session_epoch=3,
    updated_ms=1_000,
    last_txn_no=5,
    open=rec.OpenTransaction(5, 900, 500, (P0, P1), ("g",), True, 100, "app", 4, "0001"),
    decided=(
        rec.DecidedTransaction(3, Outcome.COMMITTED, 2, (rec.Target(*P0, 7),), ("g",), (8, 9), was_visible=True),
        rec.DecidedTransaction(4, Outcome.ABORTED, 3, (rec.Target(*P1),)),
    ),
    outcomes="CCA",
    aborted_ahead=(7,),
    sessions=(rec.Session("nonce", 3, 5),),
    owner=rec.Ownership("run", 2, "0001", (("old", "0000"),), "w", (("app", 3, "0000"),), "v"),
    tokens=(rec.Token("a", 1, 2, expires=True), rec.Token("b", 3, 4)),
)


def test_everything_that_is_known_of_an_id_is_read_back() -> None:
    read = rec.TransactionRecord.decode(rec.parse(ALL.encode()))
    assert read == ALL
    assert [item.was_visible for item in read.decided] == [True, False]
    assert read.encode() == ALL.encode()


def test_each_number_has_its_outcome_and_its_state() -> None:
    known = {number: (ALL.outcome_of(number), ALL.state_of(number)) for number in range(1, 9)}
    assert known == {
        1: (None, TxnState.DEAD),
        2: (Outcome.COMMITTED, TxnState.COMPLETE_COMMIT),
        3: (Outcome.COMMITTED, TxnState.PREPARE_COMMIT),
        4: (Outcome.ABORTED, TxnState.PREPARE_ABORT),
        5: (None, TxnState.ONGOING),
        6: (None, TxnState.EMPTY),
        7: (Outcome.ABORTED, TxnState.COMPLETE_ABORT),
        8: (None, TxnState.EMPTY),
    }
    assert [number for number in range(-1, 9) if ALL.is_forgotten(number)] == [1]
    assert (ALL.last_decided, ALL.state) == (4, TxnState.ONGOING)


def test_a_session_was_given_the_next_number_and_a_run_only_what_it_opened() -> None:
    closed = replace(ALL, open=None)
    assert (ALL.last_given, closed.last_given) == (5, 5)
    assert replace(closed, owner=rec.NO_OWNER).last_given == 6


def test_an_id_comes_back_from_dead_as_empty() -> None:
    record = rec.TransactionRecord("t", 7, last_txn_no=4)
    assert replace(record, dead=True).state is TxnState.DEAD
    assert record.state is TxnState.EMPTY


def test_what_an_earlier_life_may_have_let_leaders_open_is_ongoing() -> None:
    record = rec.TransactionRecord("t", 7, last_txn_no=4, expected=Expected((P0,), may_be_open=True))
    assert record.state_of(5) is TxnState.ONGOING
    assert replace(record, expected=Expected((P0,))).state_of(5) is TxnState.EMPTY


@pytest.mark.parametrize(
    ("record", "lasts"),
    [
        (rec.TransactionRecord("t", 7), False),
        (rec.TransactionRecord("t", 7, tokens=(rec.Token("a", 1, 2, expires=True),)), False),
        (rec.TransactionRecord("t", 7, tokens=(rec.Token("a", 1, 2),)), True),
        (rec.TransactionRecord("t", 7, aborted_ahead=(3,)), True),
        (rec.TransactionRecord("t", 7, dead=True, outcomes="A"), True),
        (rec.TransactionRecord("t", 7, outcomes="A"), False),
    ],
)
@pytest.mark.case("hole 16")
def test_what_must_last_is_known_by_the_record(record: rec.TransactionRecord, lasts: bool) -> None:
    assert record.is_lasting is lasts


def test_records_are_expected_on_counted_partitions_only() -> None:
    decided = rec.DecidedTransaction(1, Outcome.COMMITTED, 0, (rec.Target(*P0, 7), rec.Target(*P1)))
    assert [decided.expected_on(*place) for place in (P0, P1, P2)] == [7, rec.NOT_COUNTED, rec.NOT_COUNTED]


def test_nothing_expected_covers_nothing() -> None:
    expected = Expected((P0, P1), ("g",))
    assert expected.covers([P1], ["g"])
    assert not expected.covers([P2], [])
    assert not expected.covers([], ["other"])
    assert not rec.NOTHING_EXPECTED.covers([], []), "a later life would not know that the number may be open"
