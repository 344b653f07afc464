"""The log records of a group shard are read back as they were written, and what cannot be read stops the load."""

from __future__ import annotations

import pytest

from oncelog.errors import CorruptMessageError
from oncelog.types import PartitionId
from oncelog_coordinator.core.offsets import offset_records as rec
from oncelog_coordinator.core.transactions.records import EpochRecord, Tombstone

TOPIC = "b" * 32
VALUE = rec.OffsetValue(TOPIC, "topic", 3, 70, 4, "note")
COMMITTED = rec.CommittedOffset("g", VALUE, 9, rec.Writer("m", 2, 5), 1_000)
PENDING = rec.PendingOffsets("g", 7, 3, 1, 2, 5, 1_000, (rec.PendingOffset(VALUE, 10),))
ENDED = rec.EndedTransactions("g", 7, 3, 2, 6)


@pytest.mark.parametrize("record", [COMMITTED, PENDING, ENDED, EpochRecord(4)], ids=lambda one: type(one).__name__)
def test_a_record_is_read_back_as_it_was_written(record: rec.GroupLogRecord) -> None:
    assert rec.decode_group_record(record.key, record.encode()) == record


def test_a_record_without_a_value_removes_its_key() -> None:
    assert rec.decode_group_record(COMMITTED.key, None) == Tombstone(COMMITTED.key)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("offset:x", b"no json"),
        (COMMITTED.key, b'{"v":2}'),
        (COMMITTED.key, b'{"v":1}'),
        (PENDING.key, b'{"v":1,"group":"g","offsets":[[1]]}'),
        (ENDED.key, b"[]"),
        ("what:t", b'{"v":1}'),
        ("what:t", None),
        (COMMITTED.key, PENDING.encode()),
        (rec.offset_key("other", VALUE.id), COMMITTED.encode()),
    ],
)
@pytest.mark.case("C80")
def test_a_record_that_cannot_be_read_stops_the_load(key: str, value: bytes | None) -> None:
    with pytest.raises(CorruptMessageError):
        rec.decode_group_record(key, value)


@pytest.mark.parametrize("group", ["g", "a:b", "offset:x:1:g", "", "ended:7"])
def test_no_group_id_can_look_like_another_key(group: str) -> None:
    assert rec.parse_offset_key(rec.offset_key(group, PartitionId(TOPIC, 3))) == (group, PartitionId(TOPIC, 3))


@pytest.mark.parametrize(
    "key", [PENDING.key, ENDED.key, "epoch", "offset:", "offset:t:x:g", "offset:t:-1:g", "offset:t:1"]
)
def test_other_keys_name_no_offset(key: str) -> None:
    assert rec.parse_offset_key(key) is None


@pytest.mark.parametrize("text", ["", "plain", '"' * 100, "é" * 100, "😀" * 100])
def test_the_bytes_of_an_offset_are_an_upper_bound(text: str) -> None:
    most = 2**63 - 1
    value = rec.OffsetValue(TOPIC, text, 2**31 - 1, most, 2**31 - 1, text)
    record = rec.CommittedOffset(text, value, most, rec.Writer("", -1, 2**31 - 1), 2**42)
    assert len(record.key.encode()) + len(record.encode()) <= rec.offset_bytes(text, value)
