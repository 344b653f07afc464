"""Converts messages about channels to the values of the core and back. The core checks the numbers; the names are checked here,
since they choose the shard.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from oncelog.core.names import is_partition_id
from oncelog.errors import InvalidRequestError
from oncelog.v1 import coordinator_pb2 as co
from oncelog_coordinator.core.channels.channel_commands import ChannelView, Leader
from oncelog_coordinator.core.channels.channel_records import (
    UNKNOWN,
    ChannelPartitionId,
    PendingAcks,
    Retry,
    block_bytes,
)
from oncelog_coordinator.core.channels.offset_ranges import OffsetRange
from oncelog_coordinator.rpc import wire


class OfLeader(Protocol):
    """A request of a leader about a channel on its partition."""

    channel_id: str
    topic_id: str
    partition: int
    leader_epoch: int


def leader(request: OfLeader) -> Leader:
    """Returns who asks about which channel. Raises `InvalidRequestError`."""
    if not is_partition_id(request.channel_id, request.partition):
        raise InvalidRequestError("a channel is named by an id of 32 hex digits, and a partition")
    wire.partition_id(request.topic_id, request.partition)
    where = ChannelPartitionId(request.channel_id, request.partition)
    return Leader(where, request.topic_id, request.leader_epoch)


def ranges(items: Iterable[co.OffsetRange]) -> tuple[OffsetRange, ...]:
    """Returns ranges of offsets."""
    return tuple(OffsetRange(item.first_offset, item.last_offset) for item in items)


def retries(items: Iterable[co.RetriedRecord]) -> tuple[Retry, ...]:
    """Returns records that were given back."""
    return tuple(Retry(item.offset, item.deliveries, item.not_before_ms) for item in items)


def view(state: ChannelView, epoch: int) -> co.OpenChannelPartitionReply:
    """Returns the answer to OpenChannelPartition, in this epoch of the shard."""
    reply = co.OpenChannelPartitionReply(
        known=state.known,
        settled_before=state.settled_before,
        write_no=state.write_no,
        seeks=state.seeks,
        pending=map(_pending, state.pending),
        coordinator_epoch=epoch,
        written_epoch=None if state.written_epoch == UNKNOWN else state.written_epoch,
    )
    for block in state.blocks:
        retried = (co.RetriedRecord(offset=n, deliveries=d, not_before_ms=at_ms) for n, d, at_ms in block.retried)
        reply.blocks.add(first_offset=block.first_offset, settled=block_bytes(block.settled), retried=retried)
    return reply


def _pending(item: PendingAcks) -> co.ChannelPending:
    return co.ChannelPending(
        txn_producer_id=item.txn_producer_id,
        txn_no=item.txn_no,
        txn_shard=item.txn_shard,
        acknowledged=[co.OffsetRange(first_offset=first, last_offset=last) for first, last in item.ranges],
    )
