"""Producer ids without a transactional id, and removed ids: what is kept of them can be read by older versions too."""

from __future__ import annotations

import json

import pytest

from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord, RemovedIds
from oncelog_coordinator.core.transactions.records import TransactionRecord
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable


def test_what_is_kept_of_removed_ids_is_read_back() -> None:
    removed = RemovedIds(70, 4)
    assert TransactionTable().decode(removed.key, removed.encode()) == removed


def test_an_older_version_takes_it_for_a_producer_id_that_nobody_has() -> None:
    """It reads "pid" and "aborted" of what begins with "orphan:", requires that the key is theirs, and ignores the rest."""
    removed = RemovedIds(70, 4)
    value = json.loads(removed.encode())
    assert OrphanRecord.decode(value) == OrphanRecord(0, ())
    assert OrphanRecord.decode(value).key == removed.key


@pytest.mark.parametrize(
    ("txn_no", "producer_id", "may"),
    [(1, 1, True), (4, 70, True), (4, None, True), (0, 1, False), (5, 1, False), (1, 71, False), (1, 0, False)],
)
def test_a_removed_id_may_have_had_what_is_not_above_the_highest_of_all(
    txn_no: int, producer_id: int | None, may: bool
) -> None:
    assert RemovedIds(70, 4).may_have_had(txn_no, producer_id) is may


def test_removed_ids_only_ever_grow() -> None:
    removed = RemovedIds(70, 4)
    assert removed.with_id(TransactionRecord("t", 9, last_txn_no=1)) == removed
    assert removed.with_id(TransactionRecord("t", 90, last_txn_no=5)) == RemovedIds(90, 6)
