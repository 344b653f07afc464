"""What read_committed readers skip (case D105; hole 7)."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry, AbortedIndex, load_entries


def _entry(first: int, marker: int, unstable: int | None = None, number: int = 1) -> AbortedEntry:
    return AbortedEntry(5, number, first, marker, True, (), False, marker + 1 if unstable is None else unstable)


def _index(*entries: AbortedEntry) -> AbortedIndex:
    index = AbortedIndex()
    for entry in entries:
        index.add(entry)
        index.check()
    return index


@pytest.mark.parametrize("marker", [9, 5])
def test_marker_offsets_grow(marker: int) -> None:
    index = _index(_entry(1, 9))
    with pytest.raises(CorruptMessageError):
        index.add(_entry(1, marker))
    assert len(index) == 1


@pytest.mark.case("hole 7")
def test_overlapping_transactions_are_told_apart_by_name() -> None:
    aborted = _entry(10, 12, number=1)
    assert aborted.skips(5, 5, 1)
    assert not aborted.skips(5, 5, 2)


def test_the_winners_are_not_skipped() -> None:
    entry = AbortedEntry(5, 1, 0, 9, False, (7, 8), False, 10)
    assert [entry.skips(producer, 5, 1) for producer in (6, 7, 8, 9)] == [True, False, False, True]


@pytest.mark.parametrize(
    ("start", "end", "markers"),
    [
        (0, 100, [10, 20, 30]),
        (0, 3, []),
        (0, 4, [10, 20]),
        (11, 100, [20, 30]),
        (21, 25, []),
        (21, 26, [30]),
        (31, 99, []),
    ],
)
def test_range_query(start: int, end: int, markers: list[int]) -> None:
    index = _index(_entry(3, 10, unstable=3), _entry(3, 20), _entry(25, 30))
    assert [entry.marker_offset for entry in index.between(start, end)] == markers


@given(st.data())
def test_the_early_end_of_a_query_misses_nothing(data: st.DataObject) -> None:
    """A random history of overlapping transactions; the query must equal a plain filter."""
    open_at: dict[int, int] = {}
    index, entries = AbortedIndex(), []
    for offset in range(data.draw(st.integers(0, 40))):
        if open_at and data.draw(st.booleans()):
            number = data.draw(st.sampled_from(sorted(open_at)))
            first = open_at.pop(number)
            entry = _entry(first, offset, min(open_at.values(), default=offset + 1), number)
            index.add(entry)
            entries.append(entry)
        else:
            open_at[offset] = offset
    index.check()
    start, length = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 40))
    expected = [e for e in entries if e.marker_offset >= start and e.first_offset < start + length]
    assert index.between(start, start + length) == expected


def test_truncation_and_bytes() -> None:
    index = _index(_entry(3, 10), AbortedEntry(5, 2, 11, 20, False, (7, 9), True, 21), _entry(25, 30))
    assert list(load_entries(index.dump(5, 25), 5, 25)) == index.between(0, 25)
    index.truncate_tail(30)
    index.truncate_head(11)
    index.check()
    assert [entry.marker_offset for entry in index.between(0, 99)] == [20]


def test_bytes_of_another_segment_or_damaged_ones_are_refused() -> None:
    data = _index(_entry(3, 10)).dump(0, 20)
    damaged = bytearray(data)
    damaged[-1] ^= 1
    for given_data, end in ((data, 21), (bytes(damaged), 20), (data[:-1], 20), (b"", 20)):
        with pytest.raises(CorruptMessageError):
            load_entries(given_data, 0, end)


@pytest.mark.parametrize(
    ("first", "marker", "winners", "claimed"),
    [(10, 9, 0, 1), (1, 9, 0, 2), (1, 9, 0, 0), (1, 9, 1 << 30, 1)],
    ids=[
        "data behind its marker",
        "fewer entries than it says",
        "more bytes than it says",
        "winners that are not there",
    ],
)
def test_a_right_checksum_of_an_index_that_cannot_be_is_no_index(
    first: int, marker: int, winners: int, claimed: int
) -> None:
    entry = struct.pack("<qqqqqBxxxI", 5, 1, first, marker, marker + 1, 1, winners)
    data = struct.pack("<IqqII", 0x4F4C5831, 0, 100, claimed, crc32c(entry)) + entry
    with pytest.raises(CorruptMessageError):
        load_entries(data, 0, 100)
