"""Messages about channels become the values of the core, and its answer becomes a message."""

from __future__ import annotations

import pytest

from oncelog.errors import InvalidRequestError
from oncelog.v1 import coordinator_pb2 as co
from oncelog_coordinator.core.channels.channel_commands import BlockView, ChannelView, Leader
from oncelog_coordinator.core.channels.channel_records import ChannelPartitionId, PendingAcks, Retry
from oncelog_coordinator.core.channels.offset_ranges import OffsetRange
from oncelog_coordinator.rpc import channel_wire
from tests.unit.coordinator.channel_driver import CHANNEL, TOPIC

HERE = ChannelPartitionId(CHANNEL, 7)


def test_a_leader_names_its_channel() -> None:
    request = co.OpenChannelPartitionRequest(channel_id=CHANNEL, topic_id=TOPIC, partition=7, leader_epoch=3)
    assert channel_wire.leader(request) == Leader(HERE, TOPIC, 3)


@pytest.mark.parametrize(
    ("channel_id", "topic_id", "partition"), [("", TOPIC, 0), (CHANNEL, "", 0), (CHANNEL, TOPIC, -1)]
)
def test_names_that_are_none_are_refused(channel_id: str, topic_id: str, partition: int) -> None:
    with pytest.raises(InvalidRequestError):
        channel_wire.leader(
            co.OpenChannelPartitionRequest(channel_id=channel_id, topic_id=topic_id, partition=partition)
        )


def test_ranges_and_retried_records_come_in() -> None:
    assert channel_wire.ranges([co.OffsetRange(first_offset=1, last_offset=2)]) == (OffsetRange(1, 2),)
    assert channel_wire.retries([co.RetriedRecord(offset=1, deliveries=2, not_before_ms=3)]) == (Retry(1, 2, 3),)


def test_a_state_goes_out() -> None:
    pending = PendingAcks(HERE, 7, 2, 1, 3, 0, 99, (OffsetRange(5, 6),))
    state = ChannelView(True, 4, 9, 2, (BlockView(1_024, 0b101, (Retry(1_025, 2, 3),)),), (pending,))
    assert channel_wire.view(state, 8) == co.OpenChannelPartitionReply(
        known=True,
        settled_before=4,
        write_no=9,
        seeks=2,
        blocks=[
            co.ChannelBlock(
                first_offset=1_024,
                settled=b"\x05",
                retried=[co.RetriedRecord(offset=1_025, deliveries=2, not_before_ms=3)],
            )
        ],
        pending=[
            co.ChannelPending(
                txn_producer_id=7,
                txn_no=2,
                txn_shard=3,
                acknowledged=[co.OffsetRange(first_offset=5, last_offset=6)],
            )
        ],
        coordinator_epoch=8,
    )
