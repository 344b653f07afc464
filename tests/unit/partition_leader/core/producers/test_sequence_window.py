"""Which sequence may follow, and what is a repeat (hole 21)."""

from __future__ import annotations

import pytest

from oncelog.config import MAX_REQUESTS_IN_FLIGHT
from oncelog.core.batch.sequence import DUPLICATE_WINDOW, MAX_SEQUENCE
from oncelog.errors import DuplicateSequenceError, OutOfOrderSequenceError
from oncelog_partition_leader.core.producers.sequence_window import KEPT_BATCHES, OLDER, KeptBatch, SequenceWindow


def _written(*batches: tuple[int, int]) -> SequenceWindow:
    window, offset = SequenceWindow(), 100
    for base, count in batches:
        window.push(base, count, offset, body_crc=base, timestamp_ms=1)
        window.check()
        offset += count
    return window


@pytest.mark.parametrize(("last", "following"), [(-1, 0), (1, 2), (MAX_SEQUENCE, 0), (MAX_SEQUENCE - 1, MAX_SEQUENCE)])
def test_next_is_next(last: int, following: int) -> None:
    assert SequenceWindow(last, last + 1).judge(following, 10, 0) is None


@pytest.mark.parametrize("base", [1, 5, DUPLICATE_WINDOW, DUPLICATE_WINDOW + 7])
def test_after_the_wrap_only_zero_is_next(base: int) -> None:
    window = SequenceWindow(MAX_SEQUENCE, written=10)
    with pytest.raises(OutOfOrderSequenceError):
        window.judge(base, 1, 0)


def test_the_batch_after_the_wrap_is_no_duplicate() -> None:
    window = SequenceWindow(MAX_SEQUENCE, written=MAX_SEQUENCE + 1)
    assert window.judge(0, 10, 0) is None, "comparing 9 <= last would lose it (hole 21)"


def test_an_exact_repeat_of_each_kept_batch_is_found() -> None:
    window = _written((0, 2), (2, 2), (4, 2), (6, 2), (8, 2))
    for base in range(0, 10, 2):
        assert window.judge(base, 2, body_crc=base) == KeptBatch(base, base + 1, 100 + base, base, 1)


def test_a_repeat_older_than_the_kept_ones_is_known_as_written() -> None:
    window = _written(*[(n, 1) for n in range(KEPT_BATCHES + 4)])
    assert [window.judge(n, 1, n) for n in range(4)] == [OLDER] * 4
    assert isinstance(window.judge(4, 1, 4), KeptBatch)
    assert window.judge(1, 3, 0) is OLDER


def test_other_content_is_a_bug() -> None:
    with pytest.raises(DuplicateSequenceError):
        _written((0, 2), (2, 2)).judge(0, 2, body_crc=99)


@pytest.mark.parametrize(
    ("base", "count"),
    [(11, 1), (7, 2), (4, 6), (5, 2), (8, 4), (20, 1), (MAX_SEQUENCE, 1), (MAX_SEQUENCE - 2, 3), (MAX_SEQUENCE, 3)],
)
def test_gaps_overlaps_and_what_was_never_written_are_out_of_order(base: int, count: int) -> None:
    window = _written((0, 6), (6, 3))
    with pytest.raises(OutOfOrderSequenceError):
        window.judge(base, count, 0)


def test_a_repeat_more_than_half_a_ring_back_is_not_taken_for_one() -> None:
    window = SequenceWindow(DUPLICATE_WINDOW + 5, written=DUPLICATE_WINDOW + 6)
    assert window.judge(6, 1, 0) is OLDER
    with pytest.raises(OutOfOrderSequenceError):
        window.judge(4, 1, 0)


def test_a_batch_that_straddles_the_wrap_can_be_repeated() -> None:
    window = SequenceWindow(MAX_SEQUENCE - 11, written=MAX_SEQUENCE - 10)
    window.push(MAX_SEQUENCE - 10, 21, 500, body_crc=3, timestamp_ms=1)
    window.check()
    assert window.last_sequence == 9
    repeat = window.judge(MAX_SEQUENCE - 10, 21, 3)
    assert isinstance(repeat, KeptBatch)
    assert repeat.base_offset == 500
    assert window.judge(10, 1, 0) is None


def test_a_replica_takes_a_gap_as_written() -> None:
    window = _written((0, 2), (10, 2))
    assert window.written == 12
    assert window.judge(4, 1, 0) is OLDER
    assert window.judge(12, 1, 0) is None


@pytest.mark.parametrize(("base", "last", "known"), [(0, 1, True), (2, 3, True), (1, 2, False), (4, 5, False)])
def test_find_answers_by_sequences_alone(base: int, last: int, known: bool) -> None:
    assert (_written((0, 2), (2, 2)).find(base, last) is not None) is known


def test_a_batch_that_was_compacted_is_known_by_its_sequences_alone() -> None:
    window = SequenceWindow()
    window.push(0, 3, 0, 11, 0)
    window.pass_over(3, 5, 3)
    assert (window.last_sequence, window.written, window.end_offset, window.kept) == (7, 8, 8, [])
    assert window.judge(3, 5, 99) is OLDER, "whatever its content was"
    assert window.judge(8, 1, 0) is None
    window.check()


def test_as_many_batches_are_remembered_as_a_producer_may_have_in_flight() -> None:
    assert KEPT_BATCHES == MAX_REQUESTS_IN_FLIGHT
