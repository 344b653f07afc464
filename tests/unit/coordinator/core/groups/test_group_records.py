"""The records of members survive their bytes, and look to the previous version like something that it knows."""

from __future__ import annotations

import json

import pytest

from oncelog.errors import CorruptMessageError
from oncelog_coordinator.core.groups.group_records import (
    GroupRecord,
    Identity,
    MemberRecord,
    Subscription,
    decode_membership_record,
    membership_key,
    parse_membership_key,
)
from oncelog_coordinator.core.groups.states import MemberState
from oncelog_coordinator.core.offsets.offset_records import EndedTransactions
from oncelog_coordinator.core.transactions.records import Tombstone
from tests.unit.coordinator.group_driver import part, topic_id

MEMBER = MemberRecord(
    "g:1",
    "m",
    3,
    Identity("i", "r", "c"),
    Subscription(2, ("a", "b"), "x.*", "range", 5),
    MemberState.UNREVOKED,
    epoch=7,
    previous_epoch=6,
    number=4,
    assigned={part("t", 1): 5, part("t", 0): 7, part("u", 0): 5},
    revoking={part("t", 2): 5},
    target=frozenset([part("t", 1), part("u", 9)]),
)
GROUP = GroupRecord("g:1", 8, 7, "sticky", 3, {topic_id("t"): 3}, (1, 99), 5)


@pytest.mark.parametrize("record", [MEMBER, GROUP, MemberRecord("g", "m", 1, state=MemberState.LEFT, left_ms=4)])
def test_a_record_survives_its_bytes(record: MemberRecord | GroupRecord) -> None:
    assert decode_membership_record(record.key, record.encode()) == record


def test_a_key_names_slot_and_group() -> None:
    assert parse_membership_key(MEMBER.key) == (3, "g:1")
    assert parse_membership_key(GROUP.key) == (0, "g:1")
    assert parse_membership_key("ended:5:g") is None
    assert parse_membership_key("offset:x:1:g") is None
    assert not any(map(parse_membership_key, ("ended:-x:g", "ended:-", "ended:-²:g", f"ended:-{'9' * 5_000}:g")))
    assert decode_membership_record(GROUP.key, None) == Tombstone(GROUP.key)


@pytest.mark.parametrize("record", [MEMBER, GROUP])
def test_the_previous_version_takes_it_for_an_ended_transaction_of_nobody(record: MemberRecord | GroupRecord) -> None:
    read = EndedTransactions.decode(json.loads(record.encode()))
    assert read.key == record.key
    assert (read.group_id, read.ended_up_to, read.txn_shard, read.coordinator_epoch) == ("g:1", 0, -1, -1)
    assert read.txn_producer_id < 0, "no transaction has such a producer id"


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"pid": -1}', GROUP.encode().replace(b'"g:1"', b'"g:2"')])
def test_what_cannot_be_read_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptMessageError):
        decode_membership_record(membership_key(0, "g:1"), value)


def test_the_bound_of_a_record_holds_without_partitions() -> None:
    bare = MemberRecord("g", "m" * 64, 3, Identity("é" * 80), Subscription(2**31, ("a", "b"), "é*"), epoch=2**31)
    assert len(bare.encode()) <= bare.size()
