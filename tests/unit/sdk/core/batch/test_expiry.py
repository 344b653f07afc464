"""Which records of a batch have expired, column by column."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.core.batch.batch import decode_arrow, encode_batch
from oncelog.core.batch.expiry import expired_rows
from oncelog.core.batch.header import read_header
from oncelog.core.batch.record import EXPIRES_HEADER, HeaderList


def expired(headers: list[HeaderList], now_ms: int = 100, first: int = 0) -> list[int] | None:
    """The rows from `first` on that have expired."""
    count = len(headers)
    data = encode_batch(
        [None] * count, [b""] * count, timestamps_ms=[0] * count, headers=headers, topic_id="0a" * 16, partition=0
    )
    header = read_header(data)
    found = expired_rows(decode_arrow(data, header).slice(first), header, now_ms)
    return None if found is None else found.nonzero()[0].tolist()


def at(time: bytes | None) -> HeaderList:
    return (("a", b"1"), (EXPIRES_HEADER, time))


def test_a_batch_without_headers_has_none() -> None:
    assert expired([(), ()]) is None


def test_other_headers_mean_nothing() -> None:
    assert expired([(("a", b"1"),), (("b", None),)]) is None


def test_a_record_expires_at_its_time() -> None:
    assert expired([at(b"99"), (), at(b"100"), at(b"101")]) == [0, 2]
    assert expired([at(b"101")]) is None


def test_rows_are_counted_from_where_a_slice_begins() -> None:
    assert expired([at(b"1"), (("a", b"1"), ("b", b"2")), at(b"1"), ()], first=1) == [1]


@pytest.mark.parametrize("time", [None, b"", b"-1", b"1.5", b"soon", b"\xff", b"1" * 19])
def test_what_is_no_time_means_nothing(time: Any) -> None:
    assert expired([at(time)]) is None


def test_the_earliest_of_several_counts() -> None:
    assert expired([((EXPIRES_HEADER, b"500"), (EXPIRES_HEADER, b"5"))]) == [0]
