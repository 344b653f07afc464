"""The state of a channel as the coordinator's messages have it, and as the core has it.

Rule: the core counts pauses, the coordinator keeps the times at which they end, by most brokers' clocks (`PauseClock`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from oncelog.v1 import coordinator_pb2 as co
from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange
from oncelog_partition_leader.core.channels.stored_state import NOT_KNOWN, Retried, Stored, StoredPending, Write
from oncelog_partition_leader.core.producers.transactions import TxnName

BLOCK: Final = 1024
"""The offsets of a block."""


class ChannelPlace(NamedTuple):
    """One channel on one partition, in one leader epoch."""

    channel_id: str
    topic_id: str
    partition: int
    leader_epoch: int

    def opening(self, blocks: Iterable[int] = ()) -> co.OpenChannelPartitionRequest:
        """Returns the request for these blocks, by their first offsets; none = for everything."""
        return co.OpenChannelPartitionRequest(**self._asdict(), blocks=blocks)


def stored_of(reply: co.OpenChannelPartitionReply, now_ms: int) -> Stored:
    """Returns what the coordinator remembers. `now_ms`: the wall clock."""
    return Stored(
        settled_before=reply.settled_before,
        write_no=reply.write_no,
        seeks=reply.seeks,
        settled=tuple(merged(piece for piece in settled_in(reply.blocks) if piece[1] >= reply.settled_before)),
        retried=tuple(
            Retried(item.offset, item.deliveries, max(item.not_before_ms - now_ms, 0))
            for block in reply.blocks
            for item in block.retried
        ),
        pending=tuple(
            StoredPending(TxnName(item.txn_producer_id, item.txn_no), tuple(_ranges_of(item.acknowledged)))
            for item in reply.pending
        ),
        written_epoch=reply.written_epoch if reply.HasField("written_epoch") else NOT_KNOWN,
    )


def settled_in(blocks: Iterable[co.ChannelBlock]) -> Iterable[OffsetRange]:
    """Yields the settled offsets of blocks as ranges, in ascending order."""
    for block in blocks:
        bits = int.from_bytes(block.settled, "little")
        at = block.first_offset
        while bits:
            zeros = (bits & -bits).bit_length() - 1
            bits >>= zeros
            at += zeros
            ones = (~bits & (bits + 1)).bit_length() - 1
            yield at, at + ones - 1
            bits >>= ones
            at += ones


def merged(ranges: Iterable[OffsetRange]) -> Iterable[OffsetRange]:
    """Yields ascending ranges with those joined that touch."""
    begun: OffsetRange | None = None
    for first, last in ranges:
        if begun is not None and begun[1] + 1 == first:
            begun = begun[0], last
            continue
        if begun is not None:
            yield begun
        begun = first, last
    if begun is not None:
        yield begun


def write_request(place: ChannelPlace, write: Write, now_ms: int) -> co.WriteChannelStateRequest:
    """Returns the request of a write. `now_ms`: the wall clock. A repetition is this same request."""
    return co.WriteChannelStateRequest(
        **place._asdict(),
        write_no=write.write_no,
        settled_before=write.settled_before,
        settled=_wire(write.settled),
        retried=[
            co.RetriedRecord(
                offset=item.offset,
                deliveries=item.deliveries,
                not_before_ms=now_ms + item.pause_ms if item.pause_ms else 0,
            )
            for item in write.retried
        ],
        seek=write.seek,
    )


def forget_request(place: ChannelPlace, write_no: int, from_offset: int) -> co.WriteChannelStateRequest:
    """Returns the request after which nothing of this offset, and of all behind it, is remembered."""
    return co.WriteChannelStateRequest(**place._asdict(), write_no=write_no, forget_from=from_offset)


def acks_request(
    place: ChannelPlace, name: co.TransactionName, seeks: int, ranges: Iterable[OffsetRange]
) -> co.SendChannelAcksRequest:
    """Returns the request that makes acknowledgements a part of a transaction."""
    return co.SendChannelAcksRequest(**place._asdict(), name=name, seeks=seeks, acknowledged=_wire(ranges))


def blocks_of(ranges: Iterable[OffsetRange]) -> list[int]:
    """Returns the first offsets of the blocks that hold these offsets, in ascending order."""
    found = {number for first, last in ranges for number in range(first // BLOCK, last // BLOCK + 1)}
    return [number * BLOCK for number in sorted(found)]


def _wire(ranges: Iterable[OffsetRange]) -> list[co.OffsetRange]:
    return [co.OffsetRange(first_offset=first, last_offset=last) for first, last in ranges]


def _ranges_of(ranges: Iterable[co.OffsetRange]) -> Iterable[OffsetRange]:
    return ((item.first_offset, item.last_offset) for item in ranges)
