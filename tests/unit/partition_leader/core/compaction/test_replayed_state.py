"""Which batches a replay needs though nobody reads them."""

from __future__ import annotations

from oncelog.core.batch.control import control_of
from oncelog.core.batch.header import BatchHeader, read_header
from oncelog_partition_leader.core.compaction.replayed_state import ReplayedState
from tests.unit.partition_leader.log_helpers import batch, fence, marker, plain


def needed(*batches: bytes) -> list[int]:
    """The numbers of the batches that must stay."""
    state, headers = ReplayedState(), list[BatchHeader]()
    for number, data in enumerate(batches):
        header = read_header(data)._replace(base_offset=number)
        state.see(header, control_of(data) if header.is_control else None)
        headers.append(header)
    return [header.base_offset for header in headers if state.needs(header)]


def test_the_newest_batch_of_each_producer() -> None:
    assert needed(batch(1, 0), batch(2, 0), plain(), batch(1, 1)) == [1, 3]


def test_a_fence_until_its_producer_writes_again() -> None:
    assert needed(batch(1, 0), fence(1, 1), fence(1, 2)) == [0, 2]
    assert needed(batch(1, 0), fence(1, 1), batch(1, 0, epoch=1)) == [2]


def test_the_marker_with_the_highest_number_of_each_id_wherever_it_lies() -> None:
    assert needed(marker((5, 1)), marker((5, 3)), marker((5, 2), coordinator_epoch=0), marker((6, 1))) == [1, 3]


def test_the_newest_marker_of_a_shard_with_its_highest_coordinator_epoch() -> None:
    assert needed(marker((5, 1), coordinator_epoch=9), marker((5, 2)), marker((5, 3))) == [0, 2]


def test_nothing_that_was_written_within_a_transaction() -> None:
    assert needed(batch(11, 0, txn=(5, 1)), marker((5, 1), winners=(11,))) == [1]
