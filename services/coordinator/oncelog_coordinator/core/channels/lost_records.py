"""Decides what stays remembered of a channel on a partition that has lost its last records.

A disaster took committed records (docs/durability.md). Their offsets are given out again, to records that were never worked on.

Rule 1: nothing of the lost offsets stays: no settled one, no delivery count, and no acknowledgement of an open transaction.
Rule 2: everything before them stays as it was: what was acknowledged and is still there does not come again.
Rule 3: what counts no more and was not removed yet is removed where it would count again, since `settled_before` goes back.
Rule 4: it is one append, bounded by the window: a half of it would let records come again, or keep others from coming.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from oncelog_coordinator.core.channels.channel_partition import ChannelPartition
from oncelog_coordinator.core.channels.channel_records import (
    RETRIED,
    SETTLED,
    ChannelHead,
    PendingAcks,
    RetriedBlock,
    SettledBlock,
    parse_channel_key,
)
from oncelog_coordinator.core.channels.offset_ranges import BLOCK, before_offset, from_offset_on, ranges_before
from oncelog_coordinator.core.decision import LogRecord
from oncelog_coordinator.core.transactions.records import Tombstone


def forgotten(here: ChannelPartition, head: ChannelHead, from_offset: int) -> Iterator[LogRecord]:
    """Yields the records after which nothing from this offset on is remembered. `head`: as the write makes it otherwise."""
    new = replace(head, settled_before=min(head.settled_before, from_offset))
    yield new
    for settled in here.settled.values():
        yield from _settled(settled, new.settled_before, from_offset)
    for retried in here.retried.values():
        yield from _retried(here, retried, from_offset)
    for pending in here.pending.values():
        yield from _pending(pending, from_offset)
    yield from (Tombstone(key) for key in here.outdated if _may_count_again(key, new.settled_before))


def _may_count_again(key: str, before: int) -> bool:
    """Rule 3. A replay takes the newest record of each key, and looks at the head alone."""
    parsed = parse_channel_key(key)
    assert parsed is not None, f"{key} is another core's"
    return parsed.kind in (SETTLED, RETRIED) and not _lies_before(parsed.numbers[0], before)


def _settled(record: SettledBlock, before: int, from_offset: int) -> Iterator[LogRecord]:
    if _lies_before(record.block, from_offset):
        return
    bits = from_offset_on(record.block, before_offset(record.block, record.bits, from_offset), before)
    yield replace(record, bits=bits) if bits else Tombstone(record.key)


def _retried(here: ChannelPartition, record: RetriedBlock, from_offset: int) -> Iterator[LogRecord]:
    if _lies_before(record.block, from_offset):
        return
    left = [item for item in here.retries(record.block) if item.offset < from_offset]
    yield RetriedBlock.of(record.id, record.block, record.seeks, left) if left else Tombstone(record.key)


def _pending(record: PendingAcks, from_offset: int) -> Iterator[LogRecord]:
    left = ranges_before(record.ranges, from_offset)
    if left != record.ranges:
        yield replace(record, ranges=left) if left else Tombstone(record.key)


def _lies_before(block: int, offset: int) -> bool:
    return (block + 1) * BLOCK <= offset
