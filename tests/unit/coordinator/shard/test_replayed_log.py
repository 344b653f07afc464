"""What a replay believes of fetched batches: nothing is missing, nothing comes from elsewhere, no epoch falls (hole 1)."""

from __future__ import annotations

import pytest

from oncelog.core.batch.batch import encode_batch
from oncelog.core.batch.header import read_header, stamp_prefix
from oncelog.errors import CorruptMessageError
from oncelog.types import PartitionId
from oncelog_coordinator.core.transactions.records import EPOCH_KEY, EpochRecord
from oncelog_coordinator.shard.log_port import LogBatch, LogItem, LogLostError
from oncelog_coordinator.shard.replayed_log import ReplayedLog

WRITER = 99
PLACE = PartitionId("0" * 32, 1)
OTHER = PartitionId("0" * 32, 2)


def epoch_item(epoch: int, free_below: int = 0) -> LogItem:
    return EPOCH_KEY, EpochRecord(epoch, free_below).encode()


def took(log: ReplayedLog, payload: bytes, offset: int) -> tuple[list[LogItem], bool]:
    """The records of `take` without their places."""
    batches, complete = log.take(payload, offset, PLACE)
    return [item for batch in batches for item in batch.items], complete


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
    assert took(log, batch(0, 1, epoch_item(1)) + batch(1, 1, A, B), 0) == ([epoch_item(1), A, B], False)
    last = batch(3, 1, C) + batch(4, 2, epoch_item(2)) + batch(5, 2, A)
    assert log.take(last, 3, PLACE) == ([LogBatch(3, [C]), LogBatch(4, [epoch_item(2)])], True)


def test_a_replay_may_begin_inside_of_a_batch() -> None:
    assert ReplayedLog(WRITER, 2).take(batch(0, 1, A, B), 1, PLACE) == ([LogBatch(1, [B], True)], False)
    assert took(ReplayedLog(WRITER, 2), batch(0, 1, A, B), 2) == ([], False)
    assert took(ReplayedLog(WRITER, 2), b"", 2) == ([], False)


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
    assert took(log, whole, 0) == ([A, B], False)


def test_a_fetch_that_goes_on_behind_the_end_of_the_one_before_leaves_something_out() -> None:
    log = ReplayedLog(WRITER, 3)
    log.take(batch(0, 1, A), 0, PLACE)
    with pytest.raises(CorruptMessageError, match="missing"):
        log.take(batch(2, 1, B), 2, PLACE)


def test_a_log_begins_where_an_owner_has_announced_that_nothing_is_needed_below() -> None:
    log = ReplayedLog(WRITER, 3)
    log.log_begins_at(7)
    payload = batch(7, 2, B) + batch(8, 2, epoch_item(2, free_below=7)) + batch(9, 3, epoch_item(3))
    batches, complete = log.take(payload, 7, PLACE)
    assert (batches[0], complete, log.free_below) == (LogBatch(7, [B], is_first=True), True, 7)
    assert not any(batch.is_first for batch in batches[1:])


def test_a_log_whose_beginning_is_missing_is_not_replayed() -> None:
    """As when somebody else deletes from it, or a replica leads that lagged behind the announcement."""
    log = ReplayedLog(WRITER, 3)
    log.log_begins_at(7)
    payload = batch(7, 2, B) + batch(8, 2, epoch_item(2, free_below=6)) + batch(9, 3, epoch_item(3))
    with pytest.raises(CorruptMessageError, match="beginning of this log is missing"):
        log.take(payload, 7, PLACE)


def test_what_was_read_before_the_beginning_moved_is_marked_as_superseded() -> None:
    log = ReplayedLog(WRITER, 3)
    log.take(batch(0, 1, A), 0, PLACE)
    log.log_begins_at(5)
    payload = batch(5, 2, epoch_item(2, free_below=5)) + batch(6, 3, epoch_item(3))
    batches, complete = log.take(payload, 5, PLACE)
    assert complete
    assert [batch.is_first for batch in batches] == [True, False]


def test_an_owner_whose_successor_has_deleted_its_epoch_record_is_told_so() -> None:
    log = ReplayedLog(WRITER, 3)
    log.log_begins_at(9)
    with pytest.raises(LogLostError) as lost:
        log.take(batch(9, 5, A), 9, PLACE)
    assert (lost.value.fenced, lost.value.newest_epoch) == (True, 5)


def test_a_log_that_brokers_compact_has_gaps_and_nothing_goes_back() -> None:
    log = ReplayedLog(WRITER, 3, is_compacted=True)
    assert took(log, batch(4, 1, A) + batch(9, 1, B), 0) == ([A, B], False)
    assert took(log, batch(20, 1, C), 15) == ([C], False)
    with pytest.raises(CorruptMessageError, match="overlap"):
        ReplayedLog(WRITER, 3, is_compacted=True).take(batch(4, 1, A, B) + batch(5, 1, B), 0, PLACE)


def test_an_epoch_record_that_cannot_be_read_is_a_named_error() -> None:
    with pytest.raises(CorruptMessageError):
        ReplayedLog(WRITER, 3).take(batch(0, 1, (EPOCH_KEY, b'{"v":1,"free_below":"x","epoch":1}')), 0, PLACE)
