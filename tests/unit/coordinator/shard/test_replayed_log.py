"""What a replay believes of fetched batches: nothing is missing, nothing comes from elsewhere, no epoch falls (hole 1)."""

from __future__ import annotations

import pytest

from oncelog.core.batch.batch import encode_batch
from oncelog.core.batch.header import read_header, stamp_prefix
from oncelog.errors import CorruptMessageError
from oncelog.types import PartitionId
from oncelog_coordinator.core.transactions.records import EPOCH_KEY, EpochRecord
from oncelog_coordinator.shard.log_port import LogItem
from oncelog_coordinator.shard.replayed_log import ReplayedLog

WRITER = 99
PLACE = PartitionId("0" * 32, 1)
OTHER = PartitionId("0" * 32, 2)


def epoch_item(epoch: int) -> LogItem:
    return EPOCH_KEY, EpochRecord(epoch).encode()


def batch(offset: int, epoch: int, *items: LogItem, place: PartitionId = PLACE, writer: int = WRITER) -> bytes:
    """A batch of an owner, as the log's leader stamps it."""
    data = encode_batch(
        [key.encode() for key, _ in items],
        [value for _, value in items],
        timestamps_ms=[1] * len(items),
        producer_id=writer,
        producer_epoch=epoch,
        base_sequence=0,
        topic_id=place.topic_id,
        partition=place.partition,
    )
    return stamp_prefix(offset, read_header(data).batch_length, 1, 5) + data[36:]


A, B, C = (("a", b"1"), ("b", b"2"), ("c", None))


def test_records_come_in_order_up_to_the_epoch_record_of_this_epoch() -> None:
    log = ReplayedLog(WRITER, 2)
    assert log.take(batch(0, 1, epoch_item(1)) + batch(1, 1, A, B), 0, PLACE) == ([epoch_item(1), A, B], False)
    last = batch(3, 1, C) + batch(4, 2, epoch_item(2)) + batch(5, 2, A)
    assert log.take(last, 3, PLACE) == ([C, epoch_item(2)], True)


def test_a_replay_may_begin_inside_of_a_batch() -> None:
    assert ReplayedLog(WRITER, 2).take(batch(0, 1, A, B), 1, PLACE) == ([B], False)
    assert ReplayedLog(WRITER, 2).take(batch(0, 1, A, B), 2, PLACE) == ([], False)
    assert ReplayedLog(WRITER, 2).take(b"", 2, PLACE) == ([], False)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (batch(1, 1, A), "missing"),
        (batch(0, 1, A) + batch(2, 1, B), "missing"),
        (batch(0, 1, A, B) + batch(1, 1, A, B), "overlap"),
        (batch(0, 1, A, place=OTHER), "another partition"),
        (batch(0, 2, A) + batch(1, 1, B), "deposed owner"),
        (batch(0, 1, epoch_item(1)) + batch(1, 3, A), "without its epoch record"),
        (batch(0, 1, A)[:-1], "does not fit"),
        (batch(0, 1, A)[:-1] + b"!", "body checksum"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_batches_that_do_not_fit_are_a_named_error(payload: bytes, why: str) -> None:
    with pytest.raises(CorruptMessageError, match=why):
        ReplayedLog(WRITER, 3).take(payload, 0, PLACE)


def test_an_epoch_falls_also_between_two_fetches() -> None:
    log = ReplayedLog(WRITER, 3)
    log.take(batch(0, 2, A), 0, PLACE)
    with pytest.raises(CorruptMessageError, match="deposed owner"):
        log.take(batch(1, 1, B), 1, PLACE)


def test_after_an_error_the_same_batches_may_be_fetched_again() -> None:
    log = ReplayedLog(WRITER, 3)
    whole = batch(0, 1, A) + batch(1, 2, B)
    with pytest.raises(CorruptMessageError):
        log.take(whole + batch(2, 2, C)[:-1] + b"!", 0, PLACE)
    assert log.take(whole, 0, PLACE) == ([A, B], False)
