"""Every record of a transaction shard's log is read by its key, and one that cannot be read stops the load."""

from __future__ import annotations

import json

import pytest

from oncelog.errors import CorruptMessageError
from oncelog_coordinator.core.transactions import record_kinds as kinds
from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord, RemovedIds
from oncelog_coordinator.core.transactions.records import EpochRecord, TransactionRecord
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("txn:t", b"no json"),
        ("txn:t", b'{"v":2}'),
        ("txn:t", b'{"v":1}'),
        ("txn:t", b"[1]"),
        ("what:t", b'{"v":1}'),
        ("epoch", b'{"v":1,"epoch":"x"}'),
        ("txn:other", TransactionRecord("t", 1).encode()),
    ],
)
@pytest.mark.case("C80")
def test_a_record_that_cannot_be_read_stops_the_load(key: str, value: bytes) -> None:
    with pytest.raises(CorruptMessageError):
        TransactionTable().decode(key, value)


@pytest.mark.parametrize("removed", [None, [], [1], [1, 2, 3], ["x", 1], {}])
@pytest.mark.case("C80")
def test_what_is_kept_of_removed_ids_and_cannot_be_read_stops_the_load(removed: object) -> None:
    value = json.dumps({"v": 1, "pid": 0, "aborted": [], "removed": removed}).encode()
    with pytest.raises(CorruptMessageError):
        TransactionTable().decode("orphan:0", value)


@pytest.mark.parametrize("record", [EpochRecord(4), OrphanRecord(9, (1, 3)), RemovedIds(7, 2)])
def test_the_other_records_are_read_back(record: kinds.TransactionLogRecord) -> None:
    value = record.encode()
    assert value is not None
    assert kinds.decode_transaction_record(record.key, value) == record
