"""An answer to a fetch has no gap, no overlap and nothing above what may be read; each broken rule says where it is."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.core.batch import header as hd
from oncelog.core.batch.batch import encode_batch
from oncelog.core.consume.fetch_answer import MAX_OFFSET, Bounds, check_batch, check_bounds, check_end, check_extent
from oncelog.errors import InvalidResponseError

TAG = hd.partition_tag("0a" * 16, 0)


def batch(base: int, count: int = 2, **changes: Any) -> hd.BatchHeader:
    made = encode_batch([None] * count, [b"v"] * count, timestamps_ms=[5] * count, topic_id="0a" * 16, partition=0)
    return hd.read_header(made)._replace(base_offset=base, **changes)


# ---------------------------------------------------------------- how far the log goes


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (Bounds(), Bounds(0, 0, 0)),
        (Bounds(1, 5, 4), Bounds(1, 5, 4)),
        (Bounds(1, 5, 4), Bounds(1, 6, 6)),
        (Bounds(1, 5, 4), Bounds(2, 3, 3)),
    ],
    ids=["the first", "the same", "more", "a new leader may know less"],
)
def test_bounds_grow_within_an_epoch(known: Bounds, told: Bounds) -> None:
    check_bounds(known, told)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (Bounds(1, 4, 4), "high watermark went back within its epoch"),
        (Bounds(1, 5, 3), "last stable offset went back within its epoch"),
        (Bounds(1, 5, 6), "does not lie between 0 and its high watermark"),
        (Bounds(2, 5, -1), "does not lie between 0 and its high watermark"),
    ],
)
def test_bounds_that_cannot_be_are_refused(told: Bounds, words: str) -> None:
    with pytest.raises(InvalidResponseError, match=words):
        check_bounds(Bounds(1, 5, 4), told)


# ---------------------------------------------------------------- the answer as a whole


@pytest.mark.parametrize(("asked", "next_offset", "size"), [(5, 5, 0), (5, 6, 10), (5, 9, 10)])
def test_an_answer_goes_on_where_its_bytes_end(asked: int, next_offset: int, size: int) -> None:
    check_extent(asked, next_offset, size, limit=9)


@pytest.mark.parametrize(
    ("asked", "next_offset", "size", "words"),
    [
        (5, 6, 0, "without sending a batch"),
        (5, 4, 0, "without sending a batch"),
        (5, 5, 10, "next offset does not lie behind"),
        (5, 4, 10, "next offset does not lie behind"),
        (5, 10, 10, "within what may be read"),
    ],
)
def test_an_answer_that_goes_on_elsewhere_is_refused(asked: int, next_offset: int, size: int, words: str) -> None:
    with pytest.raises(InvalidResponseError, match=words):
        check_extent(asked, next_offset, size, limit=9)


# ---------------------------------------------------------------- its batches


@pytest.mark.parametrize(
    ("header", "expected", "is_first"),
    [(batch(5), 5, True), (batch(5), 6, True), (batch(5), 5, False), (batch(MAX_OFFSET - 2), MAX_OFFSET - 2, True)],
    ids=["where it was asked", "its first records were read before", "behind another", "the last offsets of all"],
)
def test_a_batch_begins_where_the_one_before_it_ended(header: hd.BatchHeader, expected: int, is_first: bool) -> None:
    check_batch(header, expected, TAG, is_first=is_first)


@pytest.mark.parametrize(
    ("header", "expected", "is_first", "words", "where"),
    [
        (batch(5), 7, True, "before what was asked for", ("7", None)),
        (batch(6), 5, True, "left out records", ("5", "6")),
        (batch(6), 5, False, "left out records", ("5", "6")),
        (batch(5), 6, False, "overlap", ("6", "7")),
        (batch(5, record_count=1), 5, True, "fewer records than offsets", ("5", "7")),
        (batch(5, record_count=1), 6, True, "fewer records than offsets", ("6", "7")),
        (batch(5, last_offset_delta=-1), 5, True, "before what was asked for", ("5", None)),
        (batch(MAX_OFFSET - 1), MAX_OFFSET - 1, True, "before what was asked for", (str(MAX_OFFSET - 1), None)),
        (batch(5, partition_tag=1), 5, True, "another partition", ("5", "7")),
    ],
)
def test_a_batch_that_breaks_a_rule_says_at_which_offset_and_where_the_next_one_begins(
    header: hd.BatchHeader, expected: int, is_first: bool, words: str, where: tuple[str, str | None]
) -> None:
    with pytest.raises(InvalidResponseError, match=words) as caught:
        check_batch(header, expected, TAG, is_first=is_first)
    assert (caught.value.context["offset"], caught.value.context.get("next_offset")) == where


def test_a_marker_has_one_record_and_may_stand_for_more_offsets() -> None:
    check_batch(batch(5, attributes=hd.CONTROL, record_count=1), 5, TAG, is_first=True)


def test_the_answer_ends_where_its_last_batch_ends() -> None:
    check_end(7, 7)
    for next_offset in (6, 8):
        with pytest.raises(InvalidResponseError, match="than where its last batch ends"):
            check_end(7, next_offset)


def test_a_compacted_batch_may_have_fewer_records_than_offsets() -> None:
    check_batch(batch(5, record_count=1, attributes=hd.COMPACTED), 5, TAG, is_first=True)
    check_batch(batch(5, record_count=0, attributes=hd.COMPACTED), 6, TAG, is_first=True)
