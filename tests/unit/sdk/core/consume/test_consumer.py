"""Which fetched batches a read_committed reader may see, and when a partition may be fetched."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.core.batch.batch import encode_batch
from oncelog.core.batch.header import BatchHeader, read_header
from oncelog.core.consume.consumer import Aborted, Cursor, by_name, committed
from oncelog.types import PartitionId, TopicPartition


def header(producer_id: int = 10, txn_producer_id: int = 1, txn_no: int = 5) -> BatchHeader:
    data = encode_batch(
        [None],
        [b"v"],
        timestamps_ms=[0],
        producer_id=producer_id,
        txn_producer_id=txn_producer_id,
        txn_no=txn_no,
        topic_id="t",
        partition=0,
    )
    return read_header(data)


def test_what_is_not_named_is_committed() -> None:
    assert committed(header(), by_name([]))
    assert committed(header(txn_no=6), by_name([Aborted(1, 5)])), "the next transaction of the same producer"
    assert committed(header(txn_producer_id=-1, txn_no=0), by_name([Aborted(1, 5)]))


def test_an_aborted_name_hides_all_its_producers() -> None:
    aborted = by_name([Aborted(1, 5)])
    assert not committed(header(producer_id=10), aborted)
    assert not committed(header(producer_id=11), aborted)


def test_winners_are_seen_and_losers_are_not() -> None:
    aborted = by_name([Aborted(1, 5, all=False, winners=frozenset({10}))])
    assert committed(header(producer_id=10), aborted)
    assert not committed(header(producer_id=11), aborted)


def test_lost_records_are_an_error_unless_they_are_skipped() -> None:
    aborted = by_name([Aborted(1, 5, all=False, winners=frozenset({10}), data_loss=True)])
    with pytest.raises(errors.TransactionDataLossError):
        committed(header(), aborted)
    assert not committed(header(), aborted, skip_lost=True)


def cursor() -> Cursor:
    return Cursor(TopicPartition("topic", 0), PartitionId("t", 0))


def test_nothing_is_fetched_before_a_position_is_known() -> None:
    made = cursor()
    assert not made.may_fetch(0, 100)
    made.seek(5)
    assert made.may_fetch(0, 100)
    made.check()


def test_a_seek_makes_what_was_fetched_stale() -> None:
    made = cursor()
    made.seek(5)
    generation = made.generation
    made.is_fetching = True
    made.fetched(50, 8, 1)
    made.seek(0)
    assert made.generation != generation
    assert (made.position, made.fetch_offset, made.buffered_bytes) == (0, 0, 0)
    assert made.may_fetch(0, 100)


def test_the_epoch_of_what_was_read_goes_with_the_position() -> None:
    made = cursor()
    made.found(5, 3)
    assert (made.fetch_epoch, made.last_leader_epoch) == (3, 3), "as the commit says"
    made.fetched(50, 8, 4)
    assert (made.fetch_epoch, made.last_leader_epoch) == (4, 3), "what is fetched was not returned yet"
    made.returned(7, 4)
    made.fetched(50, 9, 6)
    made.seek(7)
    assert (made.fetch_epoch, made.last_leader_epoch) == (4, 4), "what was fetched and not returned is fetched again"
    made.seek(2)
    assert (made.fetch_epoch, made.last_leader_epoch) == (4, 4), "what lies before an earlier offset was there, too"


@pytest.mark.parametrize("offset", [8, -1])
def test_nothing_is_known_of_what_lies_before_another_offset(offset: int) -> None:
    made = cursor()
    made.found(5, 3)
    made.fetched(50, 9, 4)
    made.returned(7, 4)
    made.seek(offset)
    assert (made.fetch_epoch, made.last_leader_epoch) == (-1, -1)
    made.found(12)
    assert made.fetch_epoch == -1


@pytest.mark.parametrize(
    "why", [{"is_paused": True}, {"is_fetching": True}, {"buffered_bytes": 100}, {"retry_at_ms": 11}]
)
def test_reasons_not_to_fetch(why: dict[str, int]) -> None:
    made = cursor()
    made.seek(0)
    for name, value in why.items():
        setattr(made, name, value)
    assert not made.may_fetch(10, 100)
