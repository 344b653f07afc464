"""The coordinator's messages and the core's values say the same."""

from __future__ import annotations

from oncelog.v1 import coordinator_pb2 as co
from oncelog_partition_leader.core.channels.stored_state import NOT_KNOWN, Retried, Write
from oncelog_partition_leader.core.producers.transactions import TxnName
from oncelog_partition_leader.partition.channels.wire_state import (
    ChannelPlace,
    blocks_of,
    forget_request,
    merged,
    settled_in,
    stored_of,
    write_request,
)

PLACE = ChannelPlace("c" * 32, "0" * 32, 3, 9)


def _block(first: int, *offsets: int) -> co.ChannelBlock:
    bits = sum(1 << offset - first for offset in offsets)
    return co.ChannelBlock(first_offset=first, settled=bits.to_bytes(128, "little").rstrip(b"\0"))


def test_bitmaps_are_ranges() -> None:
    blocks = [_block(1024, 1024, 1025, 1030), _block(2048), _block(3072, 3500)]
    assert list(settled_in(blocks)) == [(1024, 1025), (1030, 1030), (3500, 3500)]
    full = [_block(0, *range(1024)), _block(1024, 1024)]
    assert list(merged(settled_in(full))) == [(0, 1024)], "ranges of neighbouring blocks are one"


def test_what_is_remembered_becomes_the_state_of_a_core() -> None:
    block = _block(1024, 1030, 1031)
    block.retried.add(offset=1029, deliveries=2, not_before_ms=10_500)
    block.retried.add(offset=1032, deliveries=1)
    pending = co.ChannelPending(
        txn_producer_id=7, txn_no=2, acknowledged=[co.OffsetRange(first_offset=1033, last_offset=1034)]
    )
    reply = co.OpenChannelPartitionReply(
        known=True, settled_before=1029, write_no=4, seeks=1, blocks=[block], pending=[pending]
    )
    stored = stored_of(reply, now_ms=10_000)
    assert (stored.settled_before, stored.write_no, stored.seeks) == (1029, 4, 1)
    assert stored.settled == ((1030, 1031),)
    assert stored.retried == (Retried(1029, 2, 500), Retried(1032, 1, 0))
    assert stored.pending == ((TxnName(7, 2), ((1033, 1034),)),)
    assert stored.written_epoch == NOT_KNOWN
    reply.written_epoch = 0
    assert stored_of(reply, now_ms=10_000).written_epoch == 0


def test_a_write_names_times_of_the_wall_clock() -> None:
    write = Write(5, 100, ((102, 110),), (Retried(101, 3, 250), Retried(111, 1, 0)))
    request = write_request(PLACE, write, now_ms=1_000)
    assert (request.channel_id, request.partition, request.leader_epoch, request.write_no) == ("c" * 32, 3, 9, 5)
    assert [(item.first_offset, item.last_offset) for item in request.settled] == [(102, 110)]
    assert [(item.offset, item.deliveries, item.not_before_ms) for item in request.retried] == [
        (101, 3, 1_250),
        (111, 1, 0),
    ]
    assert not request.seek
    assert not request.HasField("forget_from")
    request = forget_request(PLACE, 6, 0)
    assert (request.leader_epoch, request.write_no, request.forget_from) == (9, 6, 0)
    assert request.HasField("forget_from")


def test_only_the_blocks_of_the_ranges_are_asked_for() -> None:
    assert blocks_of([(0, 3), (1023, 1024), (5000, 5001)]) == [0, 1024, 4096]
