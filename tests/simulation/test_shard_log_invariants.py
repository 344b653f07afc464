"""The judge of the coordinators' logs knows what is needed, and sees a deletion of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog_coordinator.core.offsets.offset_records import EndedTransactions, PendingOffsets
from oncelog_coordinator.core.transactions.records import EPOCH_KEY, EpochRecord
from oncelog_runtime.metadata.cluster_keys import TRANSACTION_TOPIC
from tests.simulation.shard_log_invariants import NothingNeededIsDeleted, Reference


def reference(*records: tuple[str, bytes | None]) -> Reference:
    found = Reference()
    for offset, (key, value) in enumerate(records):
        found.take(offset, key, value)
    found.end = len(records)
    return found


def test_the_newest_record_of_a_key_is_needed_unless_it_is_a_tombstone() -> None:
    found = reference(("a", b"1"), ("b", b"1"), ("a", b"2"), ("b", None), (EPOCH_KEY, b"x"))
    assert found.first_needed() == (2, "a")
    assert reference(("a", b"1"), ("a", None)).first_needed() == (2, ""), "nothing is"


def test_only_a_life_whose_epoch_record_is_the_newest_of_all_can_be_compared() -> None:
    epoch = (EPOCH_KEY, EpochRecord(7).encode())
    assert reference(("a", b"1"), epoch).epoch() == 7
    assert reference(epoch, ("a", b"1")).epoch() == -1
    assert reference().epoch() == -1


@pytest.mark.parametrize(("start", "lost"), [(0, False), (1, False), (2, True)])
def test_a_log_that_begins_above_a_needed_record_is_a_violation(start: int, lost: bool) -> None:
    judge = NothingNeededIsDeleted(SimpleNamespace(), lambda: ())  # type: ignore[arg-type]
    judge._references[TRANSACTION_TOPIC, 0] = reference(("a", b"1"), ("a", b"2"), ("b", b"1"))
    partition = SimpleNamespace(
        topic=TRANSACTION_TOPIC, id=SimpleNamespace(partition=0), log=SimpleNamespace(log_start_offset=start)
    )
    sight: Any = SimpleNamespace(partition=partition, high_watermark=3, on_disk=(3, 3, start))
    if lost:
        with pytest.raises(AssertionError, match="a at 1 is needed, and the log begins at 2"):
            judge.see(None, sight)
    else:
        judge.see(None, sight)
    assert judge.deleted == (start > 0)


def ended(pid: int, up_to: int, epoch: int = 5, group: str = "g") -> tuple[str, bytes]:
    record = EndedTransactions(group, pid, up_to, 3, epoch, 1_000)
    return record.key, record.encode()


def pending(pid: int, txn_no: int) -> tuple[str, bytes]:
    record = PendingOffsets("g", pid, txn_no, 0, 3, 1, 1_000, ())
    return record.key, record.encode()


def test_offsets_that_come_after_the_end_of_their_transaction_are_a_violation_also_when_that_is_forgotten() -> None:
    key, _ = ended(7, 2)
    held, value = pending(7, 2)
    found = reference(
        (held, value), (held, value), (held, None), ended(7, 2), (key, None), pending(7, 3), pending(8, 1)
    )
    assert found.ended.forgotten == 1
    with pytest.raises(AssertionError, match="of a transaction that has ended: 2 has"):
        found.take(9, held, value)


def test_a_log_that_says_no_more_which_epoch_a_transaction_shard_has_reached_is_a_violation() -> None:
    first, second = ended(7, 2, epoch=5), ended(8, 2, epoch=6)
    found = reference(first, second, (first[0], None))
    found.ended.check((key, value) for key, (_, value) in found.newest.items())
    found = reference(first, second, (second[0], None))
    with pytest.raises(AssertionError, match="markers came from the epochs"):
        found.ended.check((key, value) for key, (_, value) in found.newest.items())
