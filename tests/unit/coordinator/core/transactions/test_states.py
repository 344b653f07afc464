"""The transition table: complete, and every record that the table writes takes legal steps only."""

from __future__ import annotations

import dataclasses

import pytest

from oncelog.errors import CorruptMessageError
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import records as rec
from oncelog_coordinator.core.transactions import states
from oncelog_coordinator.core.transactions.states import TRANSITIONS, TxnState
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from tests.unit.coordinator.driver import P0, Driver


def test_every_state_can_be_reached_and_every_step_has_a_trigger() -> None:
    reached = {TxnState.EMPTY} | {new for _, new in TRANSITIONS}
    assert reached == set(TxnState)
    assert all(TRANSITIONS.values())


def test_what_is_decided_never_changes_its_mind() -> None:
    for old, new in TRANSITIONS:
        if "COMMIT" in old:
            assert "ABORT" not in new
            assert new is not TxnState.ONGOING
        if "ABORT" in old:
            assert "COMMIT" not in new
            assert new is not TxnState.ONGOING
        if old is not TxnState.DEAD:
            assert new is not TxnState.EMPTY


@pytest.mark.parametrize("outcome", list(states.Outcome))
def test_prepared_and_complete_go_together(outcome: states.Outcome) -> None:
    assert states.is_legal(states.prepared(outcome), states.complete(outcome))
    assert not states.is_legal(states.complete(outcome), states.prepared(outcome))


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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("txn:t", b"no json"),
        ("txn:t", b'{"v":2}'),
        ("txn:t", b'{"v":1}'),
        ("txn:t", b"[1]"),
        ("what:t", b'{"v":1}'),
        ("epoch", b'{"v":1,"epoch":"x"}'),
        ("txn:other", rec.TransactionRecord("t", 1).encode()),
    ],
)
def test_80_a_record_that_cannot_be_read_stops_the_load(key: str, value: bytes) -> None:
    with pytest.raises(CorruptMessageError):
        TransactionTable().decode(key, value)


def test_unknown_fields_of_a_newer_version_are_ignored() -> None:
    record = rec.TransactionRecord("t", 7, tokens=(rec.Token("a", 1, 2),))
    newer = record.encode()[:-1] + b',"zz_new":[1,2]}'
    assert TransactionTable().decode("txn:t", newer) == record


def test_equal_states_have_equal_bytes() -> None:
    one = rec.TransactionRecord("t", 7)
    assert one.encode() == rec.TransactionRecord.decode(rec.parse(one.encode())).encode()


def test_limits_are_above_zero() -> None:
    with pytest.raises(ValueError):
        Limits(max_partitions=0)
