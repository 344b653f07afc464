"""Bounds on bytes are upper bounds: what a transaction was allowed to hold fits into one record of the log."""

from __future__ import annotations

import json

import pytest

from oncelog import errors
from oncelog.types import PartitionId
from oncelog_coordinator.core import sizes
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import checks
from oncelog_coordinator.core.transactions import transaction_state as state
from oncelog_coordinator.core.transactions.records import OpenTransaction, TransactionRecord
from oncelog_coordinator.core.transactions.states import Outcome

LIMITS = Limits()
LAST_PRODUCER_ID = 2**62


def partitions(count: int) -> tuple[PartitionId, ...]:
    """Each of a topic of its own, which takes most bytes."""
    return tuple(PartitionId(f"{number:032x}", 9_999) for number in range(count))


def has_room(record: TransactionRecord) -> bool:
    try:
        checks.require_room(record, LIMITS)
    except errors.ConcurrentTransactionsError:
        return False
    return True


@pytest.mark.parametrize(("text", "in_json"), [("", 2), ("g", 3), ('"', 4), ("é", 8), ("😀", 14)])
def test_text_counts_as_it_stands_in_json(text: str, in_json: int) -> None:
    assert sizes.text_bytes(text) == in_json


@pytest.mark.parametrize("group", ["g" * 1_024, "é" * 512, "€" * 341, "😀" * 256])
def test_no_group_id_of_1024_bytes_is_longer_than_the_quick_look_assumes(group: str) -> None:
    assert len(group.encode()) <= 1_024
    bound = sizes.enrolled_bytes(3, [group] * 10) - 1
    assert sizes.may_exceed(3, 10, bound), "the exact sum is asked for"


def test_few_names_need_no_exact_sum() -> None:
    assert not sizes.may_exceed(10, 10, LIMITS.max_enrolled_bytes)


def test_the_bound_of_open_names_is_above_their_bytes() -> None:
    groups = tuple(f"group-{number}-é" for number in range(100))
    opened = OpenTransaction(1, 0, 0, partitions(1_000), groups)
    without = len(json.dumps(OpenTransaction(1, 0, 0).to_json(), separators=(",", ":")))
    size = len(json.dumps(opened.to_json(), separators=(",", ":"))) - without
    assert size <= sizes.enrolled_bytes(1_000, groups)


def test_the_largest_record_of_an_id_fits_into_one_batch_of_the_log() -> None:
    """Transactions as large as they may be, until the next one has to wait; then the open one is decided, too."""
    targets = partitions(LIMITS.max_enrolled_bytes // sizes.PARTITION_BYTES)
    winners = tuple(range(LAST_PRODUCER_ID, LAST_PRODUCER_ID + LIMITS.max_winners))
    counts = dict.fromkeys(targets, 2**40)
    record = TransactionRecord("t" * 1_024, LAST_PRODUCER_ID)
    while has_room(record):
        opened = OpenTransaction(record.last_txn_no + 1, 2**41, 900_000, targets)
        checks.require_fits(opened, LIMITS)
        record = state.open_next(record, opened, 2**41)
        record = state.decide_open(record, Outcome.COMMITTED, 2**41, LIMITS, counts, winners)
    assert len(record.decided) > 1
    value = record.encode()
    assert value is not None
    assert LIMITS.max_pending_bytes < len(value) < sizes.LOG_BATCH_BYTES
