"""Batches are judged before the log writes its first byte."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from oncelog.core.batch.header import PREFIX_BYTES, read_header, stamp_prefix
from oncelog.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    MisdirectedBatchError,
    OffsetOutOfRangeError,
    OncelogError,
    PolicyViolationError,
)
from oncelog_partition_leader.log.batch_stamping import OFFSET_MAX, check_chunk, stamp
from tests.unit.partition_leader.log_helpers import NOW_MS, TAG, marker, plain


def stamped(*batches: bytes, at: int = 0, epoch: int = 3) -> bytes:
    """The batches as a leader writes them."""
    appended = stamp([(read_header(data), data) for data in batches], TAG, at, epoch, NOW_MS)
    return b"".join(batch.data for batch in appended)


def test_offsets_follow_each_other() -> None:
    batches = [plain(count=2), plain(count=3)]
    appended = stamp([(read_header(data), data) for data in batches], TAG, 10, 3, NOW_MS)
    assert [(batch.base_offset, batch.next_offset) for batch in appended] == [(10, 12), (12, 15)]
    assert [read_header(batch.data) for batch in appended] == [batch.header for batch in appended]


def test_a_batch_of_another_partition_gets_no_offset() -> None:
    data = plain(tag=TAG + 1)
    with pytest.raises(MisdirectedBatchError):
        stamp([(read_header(data), data)], TAG, 0, 3, NOW_MS)


def test_offsets_end_somewhere() -> None:
    assert stamped(plain(), at=OFFSET_MAX - 1)
    with pytest.raises(PolicyViolationError, match="used up"):
        stamped(plain(), at=OFFSET_MAX)


def test_a_follower_takes_what_a_leader_stamped() -> None:
    headers, controls = check_chunk(stamped(plain(count=2), marker((9, 1)), at=5), TAG, 5, 3, 3)
    assert [header.base_offset for header in headers] == [5, 7]
    assert [control is None for control in controls] == [True, False]


def test_a_follower_refuses_gaps_and_old_or_new_epochs() -> None:
    data = stamped(plain(), at=5)
    for log_end_offset in (4, 6):
        with pytest.raises(OffsetOutOfRangeError):
            check_chunk(data, TAG, log_end_offset, 3, 3)
    for last_epoch, leader_epoch in ((4, 4), (2, 2)):
        with pytest.raises(FencedLeaderEpochError):
            check_chunk(data, TAG, 5, last_epoch, leader_epoch)


def test_a_flipped_bit_anywhere_is_found() -> None:
    data = stamped(plain(), at=5)
    for position in range(len(data)):
        bad = bytearray(data)
        bad[position] ^= 1
        with pytest.raises(OncelogError):
            check_chunk(bytes(bad), TAG, 5, 3, 3)


@pytest.mark.parametrize("counts", [(0, -1), (-65_535, 3), (3, 1), (1, -(1 << 31))])
def test_a_batch_that_ends_before_it_begins_turns_no_offset_back(counts: tuple[int, int]) -> None:
    """Its checksums are right: nobody but a leader gone wrong writes it, and no follower takes it."""
    data = bytearray(plain())
    struct.pack_into("<ii", data, 48, *counts)
    struct.pack_into("<I", data, PREFIX_BYTES, crc32c(bytes(data[40:])))
    whole = stamp_prefix(0, len(data), 3, NOW_MS) + bytes(data[PREFIX_BYTES:])
    with pytest.raises(CorruptMessageError):
        check_chunk(whole, TAG, 0, 3, 3)
