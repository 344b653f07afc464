"""Prepares batches for an append: a leader stamps them, a follower checks the leader's stamps.

Rule: every check comes before the log writes its first byte; nothing here changes the log or the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from oncelog.core.batch.control import Control, control_of
from oncelog.core.batch.header import PREFIX_BYTES, BatchHeader, read_header, stamp_prefix
from oncelog.errors import (
    FencedLeaderEpochError,
    MisdirectedBatchError,
    OffsetOutOfRangeError,
    PolicyViolationError,
)
from oncelog.types import Buffer
from oncelog_partition_leader.log.segment_file import check_whole

OFFSET_MAX: Final = (1 << 63) - 1


class Appended(NamedTuple):
    """A batch as the log holds it. `header` has the leader's fields; `data` are the log's own bytes."""

    header: BatchHeader
    data: bytes
    base_offset: int
    next_offset: int


def stamp(
    batches: Sequence[tuple[BatchHeader, Buffer]], tag: int, log_end_offset: int, leader_epoch: int, now_ms: int
) -> list[Appended]:
    """Returns the batches with the leader's fields; their offsets begin at `log_end_offset`.

    Raises `MisdirectedBatchError` (a batch of another partition than `tag`'s) and `PolicyViolationError` (offsets used
    up).
    """
    offset, appended = log_end_offset, []
    for header, data in batches:
        if header.partition_tag != tag:
            raise MisdirectedBatchError(base_sequence=header.base_sequence)
        prefix = stamp_prefix(offset, header.batch_length, leader_epoch, now_ms)
        stamped = header._replace(
            base_offset=offset,
            leader_epoch=leader_epoch,
            append_timestamp_ms=now_ms,
            delete_horizon_ms=-1,
            prefix_crc=int.from_bytes(prefix[-4:], "little"),
        )
        next_offset = offset + header.last_offset_delta + 1
        if next_offset > OFFSET_MAX:
            raise PolicyViolationError("the partition's offsets are used up", log_end_offset=log_end_offset)
        joined = b"".join((prefix, memoryview(data)[PREFIX_BYTES:]))
        appended.append(Appended(stamped, joined, offset, next_offset))
        offset = next_offset
    return appended


def check_chunk(
    data: Buffer, tag: int, log_end_offset: int, last_epoch: int, leader_epoch: int
) -> tuple[list[BatchHeader], list[Control | None]]:
    """Checks a leader's bytes; returns their headers, and the content of those that are control batches.

    Every checksum and the partition tag must be right; the first batch begins at `log_end_offset`, each next one where
    the last ended; epochs never fall from `last_epoch` on and none is above `leader_epoch`. Raises
    `CorruptMessageError`, `UnsupportedMessageFormatError`, `OffsetOutOfRangeError` and `FencedLeaderEpochError`.
    """
    headers: list[BatchHeader] = []
    controls: list[Control | None] = []
    offset, epoch, position, end = log_end_offset, last_epoch, 0, len(data)
    while position < end:
        header = read_header(data, position)
        check_whole(data, header, position, tag)
        if header.base_offset != offset:
            raise OffsetOutOfRangeError("not at the log end", base_offset=header.base_offset, log_end_offset=offset)
        if not epoch <= header.leader_epoch <= leader_epoch:
            raise FencedLeaderEpochError(
                "the batch's epoch does not follow", leader_epoch=header.leader_epoch, last_epoch=epoch
            )
        next_position = position + header.batch_length
        batch = memoryview(data)[position:next_position] if header.is_control else b""
        controls.append(control_of(batch) if header.is_control else None)
        headers.append(header)
        offset, epoch, position = header.next_offset, header.leader_epoch, next_position
    return headers, controls
