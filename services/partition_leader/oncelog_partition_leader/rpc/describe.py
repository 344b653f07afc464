"""Describes a partition for operators: its offsets, its producers, and the number of records that a reader has not read.

Rule: `count_records` reads batch headers, not records, and stops at a bound, so that an operator's request never holds up
        the broker. Other tasks run between two pieces of the log.
"""

from __future__ import annotations

import asyncio
from typing import Final

from oncelog.core.batch.header import BatchHeader, read_header
from oncelog.types import Buffer
from oncelog.v1 import partition_pb2 as pb
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.partition.leadership import Leadership

COUNT_BYTES_MAX: Final = 16 << 20
"""The most of a log that one count reads."""
_PIECE_BYTES: Final = 256 << 10


def producers_reply(states: ProducerStates) -> pb.DescribeProducersReply:
    """Lists active producers outside of transactions, then the writers of open ones, and the open transactions."""
    reply = pb.DescribeProducersReply()
    for producer_id, entry in states.producers.live.items():
        reply.producers.add(
            producer_id=producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.window.last_sequence,
            last_timestamp_ms=entry.last_seen_ms,
            txn_producer_id=-1,
            txn_start_offset=-1,
            coordinator_epoch=-1,
        )
    for opened in states.open_transactions:
        for producer_id, writer in sorted(opened.writers.items()):
            reply.producers.add(
                producer_id=producer_id,
                producer_epoch=opened.session_epoch,
                last_sequence=writer.window.last_sequence,
                txn_producer_id=opened.name.txn_producer_id,
                txn_no=opened.name.txn_no,
                txn_start_offset=opened.first_offset,
                coordinator_epoch=states.transactions.shard_epochs.get(opened.txn_shard, -1),
            )
        reply.transactions.add(
            txn_producer_id=opened.name.txn_producer_id,
            txn_no=opened.name.txn_no,
            first_offset=opened.first_offset,
            txn_shard=opened.txn_shard,
            open_since_ms=opened.open_since_ms,
            session_epoch=opened.session_epoch,
            records=opened.records_of(None),
        )
    return reply


def describe(leadership: Leadership, answer: pb.DescribedPartition) -> None:
    """Fills in the offsets of a led log, all from one instant."""
    log = leadership.log
    answer.leader_epoch = leadership.epoch
    answer.log_start_offset = log.log_start_offset
    answer.high_watermark = leadership.high_watermark
    answer.last_stable_offset = log.last_stable_offset(leadership.high_watermark)
    answer.log_end_offset = log.log_end_offset
    answer.size_bytes = log.size_bytes
    answer.open_transactions = len(log.producers.open_transactions)
    answer.min_insync_replicas = leadership.replicas.min_insync_replicas
    in_sync = {ref.broker_id for ref in leadership.replicas.committed}
    for broker_id, follower in sorted(leadership.replicas.followers.items()):
        if broker_id not in in_sync:
            answer.lagging.add(broker_id=broker_id, log_end_offset=follower.end)


async def count_records(log: PartitionLog, start: int, end: int, bytes_max: int = COUNT_BYTES_MAX) -> tuple[int, int]:
    """Counts records; returns (those that a read_committed reader gets from `start` on, the offset where the count ended).

    `end`: the last stable offset; the count ends there, or when `bytes_max` are read. Raises `StorageError`.
    """
    offset = min(max(start, log.log_start_offset), end)
    records = read = 0
    while offset < end and read < bytes_max:
        data = log.read(offset, _PIECE_BYTES, end)
        if not len(data):
            break
        count, after = _count(log, data, offset)
        records, read, offset = records + count, read + len(data), after
        await asyncio.sleep(0)
        offset = min(max(offset, log.log_start_offset), end)  # more may have been deleted meanwhile
    return records, offset


def _count(log: PartitionLog, data: Buffer, start: int) -> tuple[int, int]:
    headers = _headers(data)
    after = headers[-1].next_offset
    aborted = log.aborted_between(start, after)
    return sum(_visible(header, start, aborted) for header in headers), after


def _headers(data: Buffer) -> list[BatchHeader]:
    found, position = [], 0
    while position < len(data):
        header = read_header(data, position, len(data) - position)
        found.append(header)
        position += header.batch_length
    return found


def _visible(header: BatchHeader, start: int, aborted: list[AbortedEntry]) -> int:
    """Counts the records of a batch at or above `start` that a read_committed reader gets."""
    if header.is_control:
        return 0
    if header.is_transactional and any(
        entry.skips(header.producer_id, header.txn_producer_id, header.txn_no) for entry in aborted
    ):
        return 0
    return min(header.record_count, header.next_offset - max(start, header.base_offset))
