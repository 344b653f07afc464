"""Reads a partition for channels, as a read_committed reader would: below the last stable offset, without markers and without
the records of aborted transactions.

Rule 1: a transaction that committed but lost records in a power cut ends the reading, and is named: a channel must not hand
        out a part of it.
Rule 2: only headers are looked at. What was deleted, by retention or by compaction, is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from oncelog.core.batch.batch import iter_batches
from oncelog.core.batch.header import BatchHeader
from oncelog.errors import StorageError, TransactionDataLossError
from oncelog.types import Buffer
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry
from oncelog_partition_leader.partition.partition import LocalPartition

_LOOKS: Final = 4
_LOOK_BYTES: Final = 1 << 20


class Found(NamedTuple):
    """A piece of the log."""

    batches: list[tuple[BatchHeader, memoryview]]
    """The batches with records that may be delivered."""
    next_offset: int
    """Everything before it was looked at."""
    loss: TransactionDataLossError | None = None
    """Why reading cannot go on at `next_offset`."""


def visible_end(partition: LocalPartition) -> int:
    """Returns the last stable offset."""
    return partition.log.last_stable_offset(partition.high_watermark)


def read_committed(partition: LocalPartition, offset: int, max_bytes: int, *, skips_lost: bool = False) -> Found:
    """Reads from the batch with `offset` on, at least one batch if there is one. Raises `StorageError`.

    `skips_lost`: what is left of a transaction that lost records is left out like that of an aborted one.
    """
    log, end = partition.log, visible_end(partition)
    offset = max(offset, log.log_start_offset)
    if offset >= end:
        return Found([], offset)
    data = read_log(partition, offset, max_bytes, end)
    headers = list(iter_batches(data))
    if not headers:  # a batch reaches above the end
        return Found([], offset)
    aborted = log.aborted_between(offset, headers[-1][0].next_offset)
    lost = None if skips_lost else next((entry for entry in aborted if entry.lost), None)
    if lost is None:
        return Found(_delivered(headers, aborted), headers[-1][0].next_offset)
    before = [item for item in headers if item[0].next_offset <= lost.first_offset]
    next_offset = before[-1][0].next_offset if before else offset
    loss = None if before else _loss(lost)
    return Found(_delivered(before, aborted), next_offset, loss)


def records_between(partition: LocalPartition, offset: int, end: int, unsettled: Callable[[int, int], int]) -> int:
    """Counts the records in [offset, end) that may be delivered: as far as a bounded look tells, and offsets beyond.

    `unsettled`: says how many offsets, from the first to the last one, are not settled already. What is left of a compacted
    batch is an upper bound. Raises `StorageError`.
    """
    records = 0
    for _ in range(_LOOKS):
        found = read_committed(partition, offset, _LOOK_BYTES) if offset < end else None
        if found is None or found.next_offset <= offset:
            break
        for header, _ in found.batches:
            records += min(header.record_count, unsettled(max(offset, header.base_offset), header.last_offset))
        offset = found.next_offset
    return records + unsettled(offset, end - 1)


def read_one(partition: LocalPartition, offset: int) -> tuple[BatchHeader, memoryview] | None:
    """Reads the batch with this offset; None when it was deleted meanwhile. Raises `StorageError`."""
    if offset < partition.log.log_start_offset:
        return None
    data = read_log(partition, offset, 1, visible_end(partition))
    return next(iter_batches(data), None)


def read_log(partition: LocalPartition, offset: int, max_bytes: int, end: int) -> Buffer:
    """Reads whole batches below `end`. Raises `StorageError`; a log that cannot be read has failed."""
    try:
        return partition.log.read(offset, max_bytes, end)
    except StorageError as error:
        if partition.log.failed is not None:
            partition.fail(error)
        raise


def _delivered(
    batches: Iterable[tuple[BatchHeader, memoryview]], aborted: list[AbortedEntry]
) -> list[tuple[BatchHeader, memoryview]]:
    return [(header, data) for header, data in batches if not header.is_control and not _is_aborted(header, aborted)]


def _is_aborted(header: BatchHeader, aborted: list[AbortedEntry]) -> bool:
    if not header.is_transactional:
        return False
    return any(entry.skips(header.producer_id, header.txn_producer_id, header.txn_no) for entry in aborted)


def _loss(lost: AbortedEntry) -> TransactionDataLossError:
    return TransactionDataLossError(
        txn_producer_id=lost.txn_producer_id,
        txn_no=lost.txn_no,
        first_offset=lost.first_offset,
        marker_offset=lost.marker_offset,
    )
