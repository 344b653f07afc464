"""Which records count follows from the head, in whichever order they come."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from oncelog_coordinator.core.channels.channel_partition import ChannelPartition
from oncelog_coordinator.core.channels.channel_records import (
    ChannelHead,
    ChannelPartitionId,
    PendingAcks,
    RetriedBlock,
    Retry,
    SettledBlock,
)
from oncelog_coordinator.core.channels.offset_ranges import OffsetRange
from tests.unit.coordinator.channel_driver import CHANNEL, TOPIC

HERE = ChannelPartitionId(CHANNEL, 0)
HEAD = ChannelHead(HERE, TOPIC, 1, 3, 1_030, 2)
BEFORE = SettledBlock(HERE, 0, 2, 0b1)
COUNTS = SettledBlock(HERE, 1, 2, 0b1 | 1 << 9)
SOUGHT = SettledBlock(HERE, 2, 1, 0b1)
RETRIED = RetriedBlock.of(HERE, 1, 2, [Retry(1_025, 1), Retry(1_033, 2), Retry(1_034, 3)])
OLD_ACKS = PendingAcks(HERE, 7, 1, 0, 3, 1, 0, (OffsetRange(2_000, 2_000),))
ACKS = PendingAcks(HERE, 7, 2, 0, 3, 2, 0, (OffsetRange(2_000, 2_001), OffsetRange(2_005, 2_005)))


def take(here: ChannelPartition, record: Any) -> None:
    if isinstance(record, ChannelHead):
        here.put_head(record)
    elif isinstance(record, PendingAcks):
        here.put_pending(record)
    else:
        here.put_block(record)


def test_the_order_of_the_records_does_not_matter() -> None:
    for records in permutations((HEAD, BEFORE, COUNTS, SOUGHT, RETRIED, OLD_ACKS, ACKS)):
        here = ChannelPartition(HERE)
        for record in records:
            take(here, record)
        assert here.loaded() == []
        here.check()
        assert set(here.records()) == {COUNTS, RETRIED, ACKS}
        assert set(here.outdated) == {BEFORE.key, SOUGHT.key, OLD_ACKS.key}


def taken(*records: Any) -> ChannelPartition:
    here = ChannelPartition(HERE)
    for record in records:
        take(here, record)
    return here


def test_what_the_head_says_is_not_told_again() -> None:
    here = taken(HEAD, COUNTS, RETRIED)
    assert here.settled_bits(1) == 1 << 9
    assert here.settled_bits(5) == 0
    assert list(here.retries(1)) == [Retry(1_034, 3)], "the others are settled"
    assert list(here.retries(5)) == []
    assert here.remembered_retries() == 3
    assert here.bits() == {1: COUNTS.bits}


def test_acknowledgements_are_told_when_a_head_outdates_them() -> None:
    here = taken(HEAD, ACKS)
    assert here.pending_ranges() == 2
    assert here.put_head(ChannelHead(HERE, TOPIC, 1, 4, 0, 3)) == [ACKS]
    assert here.pending == {}
    assert not here.put_pending(ACKS), "a late one is outdated too"


def test_without_its_head_everything_is_outdated() -> None:
    here = taken(HEAD, COUNTS, ACKS)
    assert here.drop_head() == [ACKS]
    here.check()
    assert not here.is_empty
    for key in list(here.outdated):
        here.drop(key)
    assert here.is_empty


def test_a_tombstone_removes_one_record() -> None:
    here = taken(HEAD, COUNTS, RETRIED, ACKS)
    assert here.drop(ACKS.key) == [ACKS]
    assert here.drop(COUNTS.key) == here.drop(RETRIED.key) == here.drop(ACKS.key) == []
    assert not any(here.records())


def test_a_block_that_is_written_again_counts_again() -> None:
    here = taken(HEAD, SOUGHT)
    assert SOUGHT.key in here.outdated
    take(here, SettledBlock(HERE, 2, 2, 0b10))
    assert not here.outdated
