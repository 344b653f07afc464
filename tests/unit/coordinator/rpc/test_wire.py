"""Hostile fields of requests get named errors before anything is asked of a core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog_coordinator.core.offsets.offset_commands import Member
from oncelog_coordinator.core.transactions.states import TxnState
from oncelog_coordinator.rpc import wire

TOPIC = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    "call",
    [
        lambda: wire.partition_id("../../etc", 0),
        lambda: wire.partition_id(TOPIC.upper(), 0),
        lambda: wire.partition_id(TOPIC, -1),
        lambda: wire.partition_id("", 0),
        lambda: wire.txn_name(co.TransactionName(transactional_id="a\nb")),
        lambda: wire.txn_name(co.TransactionName(transactional_id="x" * 1025)),
        lambda: wire.nonce("x" * 129),
        lambda: wire.counts([co.PartitionCount(topic_id=TOPIC, records=-1)]),
        lambda: wire.counts([co.PartitionCount(topic_id=TOPIC)] * 2),
        lambda: wire.is_commit(types_pb2.TRANSACTION_OUTCOME_ONGOING),
        lambda: wire.is_commit(types_pb2.TRANSACTION_OUTCOME_UNSPECIFIED),
        lambda: wire.states(["ONGOING", "NONSENSE"]),
    ],
)
def test_malformed(call: Callable[[], Any]) -> None:
    with pytest.raises(errors.InvalidRequestError):
        call()


def test_a_group_has_a_name() -> None:
    with pytest.raises(errors.InvalidGroupIdError):
        wire.member(co.GroupMember(group_id=""))


def test_a_simple_group_may_leave_the_epoch_out() -> None:
    assert wire.member(co.GroupMember(group_id="g")) == Member("g", "", -1)
    assert wire.member(co.GroupMember(group_id="g", member_id="m", member_epoch=3)) == Member("g", "m", 3)


@pytest.mark.parametrize(
    ("epoch", "is_known", "kept"), [(0, False, -1), (0, True, 0), (4, False, -1), (4, True, 4), (-1, False, -1)]
)
def test_an_epoch_counts_when_the_commit_says_that_it_is_known(epoch: int, is_known: bool, kept: int) -> None:
    entry = co.OffsetEntry(topic_id=TOPIC, topic="t", offset=5, leader_epoch=epoch, epoch_known=is_known)
    value = wire.offset_value(entry)
    assert value.leader_epoch == kept
    assert wire.offset_value(wire.offset_entry(value)) == value


def test_outcomes_and_states() -> None:
    assert [wire.outcome_of(value) for value in (None, True, False)] == [
        types_pb2.TRANSACTION_OUTCOME_ONGOING,
        types_pb2.TRANSACTION_OUTCOME_COMMITTED,
        types_pb2.TRANSACTION_OUTCOME_ABORTED,
    ]
    assert wire.states(["ONGOING"]) == (TxnState.ONGOING,)
    assert wire.states([]) == ()
