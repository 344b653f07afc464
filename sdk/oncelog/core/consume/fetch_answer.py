"""Checks a leader's answer to a fetch, so that no record comes twice and none is left out in silence.

Rule 1: a log has no gaps. The first batch holds the offset that was asked for, each next one begins where the one before it
        ended, and `next_offset` is where the last one ended; without batches it is what was asked for.
Rule 2: within a leader epoch the high watermark and the last stable offset only grow, and nothing above them is sent.
Rule 3: a batch carries the tag of its partition, and as many records as it has offsets, unless it says that it was compacted.

An answer that breaks a rule is an `InvalidResponseError`, which says at which `offset`, and as `next_offset` where the next
batch begins when there is one: a `seek` there is the way past it. All of it is O(1) for an answer, and O(1) for each batch.
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog.core.batch.header import BatchHeader
from oncelog.errors import InvalidResponseError

MAX_OFFSET = (1 << 63) - 1


class Bounds(NamedTuple):
    """How far a leader says that its log goes. Epoch -1: nothing was said yet."""

    leader_epoch: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1


def check_bounds(known: Bounds, told: Bounds) -> None:
    """Rule 2 for an answer that follows another one."""
    if not 0 <= told.last_stable_offset <= told.high_watermark:
        raise InvalidResponseError(
            "the leader's last stable offset does not lie between 0 and its high watermark",
            last_stable_offset=told.last_stable_offset,
            high_watermark=told.high_watermark,
        )
    if told.leader_epoch != known.leader_epoch:
        return
    for name in ("high_watermark", "last_stable_offset"):
        before, now = getattr(known, name), getattr(told, name)
        if now < before:
            words = name.replace("_", " ")
            raise InvalidResponseError(
                f"the leader's {words} went back within its epoch",
                leader_epoch=told.leader_epoch,
                before=before,
                now=now,
            )


def check_extent(asked: int, next_offset: int, size: int, limit: int) -> None:
    """Rules 1 and 2 for the answer as a whole. `limit`: where the reader's isolation level ends."""
    if not size and next_offset != asked:
        raise InvalidResponseError(
            "the leader goes on at another offset without sending a batch", offset=asked, answered=next_offset
        )
    if size and not asked < next_offset <= limit:
        raise InvalidResponseError(
            "the leader's next offset does not lie behind the one asked for and within what may be read",
            offset=asked,
            answered=next_offset,
            limit=limit,
        )


def check_batch(header: BatchHeader, expected: int, tag: int, *, is_first: bool) -> None:
    """Rules 1 and 3 for one batch; `expected`: the offset asked for, or the end of the batch before."""
    if header.partition_tag != tag:
        raise InvalidResponseError(
            "the leader sent a batch of another partition", offset=expected, next_offset=header.next_offset
        )
    base, end = header.base_offset, header.next_offset
    if header.last_offset_delta < 0 or end > MAX_OFFSET or end <= expected:
        raise InvalidResponseError(
            "the leader sent a batch that lies before what was asked for", offset=expected, base=base
        )
    if base > expected:
        raise InvalidResponseError("the leader left out records", offset=expected, next_offset=base)
    if base < expected and not is_first:
        raise InvalidResponseError("the leader sent batches that overlap", offset=expected, base=base, next_offset=end)
    if not (header.is_control or header.is_compacted) and header.record_count != header.last_offset_delta + 1:
        raise InvalidResponseError(
            "the leader sent a batch with fewer records than offsets",
            offset=max(base, expected),
            record_count=header.record_count,
            next_offset=end,
        )


def check_end(reached: int, next_offset: int) -> None:
    """Rule 1 for the end of the last batch."""
    if reached != next_offset:
        raise InvalidResponseError(
            "the leader goes on at another offset than where its last batch ends", offset=reached, answered=next_offset
        )
