"""The small cores of the client: back-off, transaction table, positions and the read_committed filter."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.core.backoff import Backoff
from oncelog.core.batch.batch import encode_batch
from oncelog.core.batch.header import BatchHeader, read_header
from oncelog.core.consume.consumer import Aborted, Cursor, by_name, committed
from oncelog.core.produce.transaction import TransactionCore, TransactionState
from oncelog.types import PartitionId, TopicPartition

# ---------------------------------------------------------------- back-off


def test_backoff_doubles_up_to_its_maximum() -> None:
    backoff = Backoff(20, 250)
    assert [backoff.delay_ms(n, draw=1.0) for n in (1, 2, 3, 4, 5, 100)] == [20, 40, 80, 160, 250, 250]
    assert backoff.delay_ms(1, draw=0.0) == 10
    assert backoff.delay_ms(1, draw=0.0, at_least_ms=500) == 500


# ---------------------------------------------------------------- transaction


def test_a_failed_transaction_can_only_be_aborted() -> None:
    core = TransactionCore(1)
    core.fail(errors.MessageTooLargeError())
    core.fail(errors.NetworkError())
    with pytest.raises(errors.MessageTooLargeError):
        core.check_open()
    with pytest.raises(errors.MessageTooLargeError):
        core.begin_commit()
    core.begin_abort()
    core.decided(is_committed=False)
    assert core.is_over


def test_a_commit_that_was_asked_for_can_be_repeated_but_not_aborted() -> None:
    core = TransactionCore(1)
    core.begin_commit()
    with pytest.raises(errors.IllegalStateError):
        core.begin_abort()
    with pytest.raises(errors.IllegalStateError):
        core.check_open()
    core.begin_commit()
    core.decided(is_committed=True)
    assert core.state is TransactionState.COMMITTED


def test_the_coordinator_may_have_aborted_what_we_commit() -> None:
    core = TransactionCore(1)
    core.begin_commit()
    core.decided(is_committed=False)
    assert core.state is TransactionState.ABORTED


@pytest.mark.parametrize("is_committed", [True, False])
def test_nothing_follows_a_decision(is_committed: bool) -> None:
    core = TransactionCore(1)
    core.decided(is_committed)
    for move in (core.begin_commit, core.begin_abort, core.check_open):
        with pytest.raises(errors.IllegalStateError):
            move()


def test_one_new_partition_is_left_to_its_leader_several_are_enrolled_ahead() -> None:
    core = TransactionCore(1)
    p = [PartitionId("t", i) for i in range(4)]
    assert core.to_enrol([p[0]]) == []
    assert core.to_enrol([p[0], p[1], p[0]]) == [p[0], p[1]]
    core.enrolled([p[0], p[1]])
    assert core.to_enrol([p[0], p[1], p[2]]) == []
    assert core.to_enrol([p[1], p[2], p[3]]) == [p[2], p[3]]


def test_offset_commits_are_numbered_per_group() -> None:
    core = TransactionCore(1)
    assert [core.next_offset_sequence(group) for group in ("a", "a", "b")] == [1, 2, 1]


# ---------------------------------------------------------------- read_committed


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


# ---------------------------------------------------------------- positions


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
    made.fetched(50, 8)
    made.seek(0)
    assert made.generation != generation
    assert (made.position, made.fetch_offset, made.buffered_bytes) == (0, 0, 0)
    assert made.may_fetch(0, 100)


@pytest.mark.parametrize(
    "why", [{"is_paused": True}, {"is_fetching": True}, {"buffered_bytes": 100}, {"retry_at_ms": 11}]
)
def test_reasons_not_to_fetch(why: dict[str, int]) -> None:
    made = cursor()
    made.seek(0)
    for name, value in why.items():
        setattr(made, name, value)
    assert not made.may_fetch(10, 100)
