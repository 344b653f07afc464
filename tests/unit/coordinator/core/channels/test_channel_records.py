"""The records of a channel survive their bytes, and to an older version they are ended transactions that it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.errors import CorruptMessageError
from oncelog_coordinator.core.channels.channel_records import (
    BLOCK_BYTES,
    UNKNOWN,
    ChannelHead,
    ChannelPartitionId,
    PendingAcks,
    RetriedBlock,
    Retry,
    SettledBlock,
    block_bytes,
    decode_channel_record,
    is_channel_key,
    parse_channel_key,
)
from oncelog_coordinator.core.channels.offset_ranges import ALL_SETTLED, OffsetRange
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_commands import GroupMarker
from oncelog_coordinator.core.offsets.offset_records import ended_key
from oncelog_coordinator.core.offsets.offset_table import OffsetTable
from oncelog_coordinator.core.transactions.commands import Tick
from oncelog_coordinator.core.transactions.records import Tombstone
from tests.unit.coordinator.channel_driver import CHANNEL, TOPIC

HERE = ChannelPartitionId(CHANNEL, 7)
RETRIES = (Retry(2_049, 3, 1_700_000_000_000), Retry(3_071, 2**31 - 1, 0))
RECORDS: list[Any] = [
    ChannelHead(HERE, TOPIC, 5, 6, 7, 8),
    ChannelHead(HERE, TOPIC, 0),
    ChannelHead(HERE, TOPIC, 5, 6, 7, 8, 4),
    SettledBlock(HERE, 2, 1, ALL_SETTLED),
    SettledBlock(HERE, 2, 1, 0b1001),
    RetriedBlock.of(HERE, 2, 1, reversed(RETRIES)),
    PendingAcks(HERE, 7, 3, 1, 4, 2, 99, (OffsetRange(1, 2), OffsetRange(4, 4))),
]


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_survives_its_bytes(record: Any) -> None:
    assert decode_channel_record(record.key, record.encode()) == record
    assert is_channel_key(record.key)
    assert decode_channel_record(record.key, None) == Tombstone(record.key)


def test_a_head_of_an_older_version_does_not_say_who_wrote_last() -> None:
    head = ChannelHead(HERE, TOPIC, 5, 6, 7, 8, 4)
    older = head.encode().replace(b',"written_epoch":4', b"")
    assert older != head.encode()
    assert decode_channel_record(head.key, older) == ChannelHead(HERE, TOPIC, 5, 6, 7, 8, UNKNOWN)


def test_retried_records_are_told_by_offset() -> None:
    block = RetriedBlock.of(HERE, 2, 1, reversed(RETRIES))
    assert block.retries() == RETRIES
    assert len(block) == 2


def test_a_bit_map_ends_with_its_last_bit() -> None:
    assert [block_bytes(bits) for bits in (0, 1, 1 << 8)] == [b"", b"\x01", b"\x00\x01"]


def test_a_block_and_a_head_are_as_small_as_is_reckoned() -> None:
    where = ChannelPartitionId(CHANNEL, 2**31 - 1)
    for record in (
        SettledBlock(where, 2**52, 2**62, ALL_SETTLED),
        ChannelHead(where, TOPIC, 2**31 - 1, 2**62, 2**62, 2**62),
    ):
        assert len(record.key) + len(record.encode()) <= BLOCK_BYTES


@pytest.mark.parametrize("key", [f"{RECORDS[0].key}:x:1", f"{RECORDS[0].key}:s", f"{RECORDS[0].key}:s:01"])
def test_a_key_that_this_version_does_not_know_is_refused(key: str) -> None:
    with pytest.raises(CorruptMessageError):
        decode_channel_record(key, RECORDS[0].encode())


@pytest.mark.parametrize("value", [b"x", b"{}", b'{"v":1}', b'{"v":1,"up_to":{"seeks":1,"bits":7}}'])
def test_a_value_that_is_none_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptMessageError):
        decode_channel_record(RECORDS[2].key, value)


def test_other_keys_are_not_of_channels() -> None:
    for key in (ended_key("__channel.x", 7), "ended:-1:g", "epoch", "offset:x:1:g"):
        assert parse_channel_key(key) is None


def test_an_older_version_keeps_these_records_for_ever_and_serves() -> None:
    table = OffsetTable(Limits(ended_retention_ms=1_000))
    for record in RECORDS:
        table.apply(table.decode(record.key, record.encode()))
    table.loaded(10_000)
    for now_ms in (12_000, 14_000, 16_000):
        decision = table.decide(Tick(), now_ms)
        assert not decision.records
        for note in decision.notes:
            table.apply(note)
    for record in table.decide(GroupMarker(HERE.group_id, 7, 3, True, 4, 1), 16_000).records:
        assert not is_channel_key(record.key)
        table.apply(record)
    table.check()


@pytest.mark.parametrize("record", RECORDS)
def test_an_older_owner_of_the_log_that_repeats_a_record_loses_nothing_of_it(record: Any) -> None:
    repeated = OffsetTable().decode(record.key, record.encode())
    assert decode_channel_record(record.key, repeated.encode()) == record


def test_an_older_version_takes_a_tombstone_of_a_record_that_it_has_not_seen() -> None:
    table = OffsetTable()
    table.apply(table.decode(RECORDS[2].key, None))
    table.check()
