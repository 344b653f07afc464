"""Whole batches of one partition as they stand in the log, markers and all: for those who look, not for consumers."""

from __future__ import annotations

from typing import NamedTuple

from oncelog import errors
from oncelog.client.home.context import Context
from oncelog.client.routing.metadata import Metadata
from oncelog.client.routing.offset_lookup import isolation
from oncelog.config import READ_COMMITTED
from oncelog.core.batch.header import BatchHeader, partition_tag
from oncelog.core.consume.consumer import Aborted, by_name, committed
from oncelog.core.consume.fetch_answer import Bounds, check_batch, check_bounds, check_end, check_extent
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail


class RawBatch(NamedTuple):
    """One batch. `is_visible` False: a read_committed consumer does not get its records (or it is a control batch)."""

    header: BatchHeader
    data: memoryview
    is_visible: bool


class RawBatches(NamedTuple):
    """An answer; `next_offset` is where to go on."""

    batches: list[RawBatch]
    next_offset: int
    high_watermark: int
    last_stable_offset: int


class RawReader:
    """See the module."""

    def __init__(self, context: Context, metadata: Metadata) -> None:
        self._context = context
        self._metadata = metadata

    async def read(
        self, topic: str, partition: int, offset: int, isolation_level: str = READ_COMMITTED, max_wait_ms: int = 500
    ) -> RawBatches:
        """Batches from `offset` on; none when nothing came within `max_wait_ms`. Raises `OffsetOutOfRangeError`."""
        deadline_ms = self._context.deadline_ms()
        attempt = 0
        while True:
            found = await self._metadata.topic(topic, deadline_ms)
            where = PartitionId(found.topic_id, partition)
            try:
                return await self._try(where, offset, isolation_level, max_wait_ms, deadline_ms)
            except errors.OncelogError as error:
                attempt += 1
                if not error.retriable or not await self._context.pause(attempt, deadline_ms, error.retry_after_ms):
                    raise
            await self._metadata.refresh(deadline_ms)

    async def _try(
        self, where: PartitionId, offset: int, isolation_level: str, max_wait_ms: int, deadline_ms: int
    ) -> RawBatches:
        address = self._metadata.leader(where).address
        if address is None:
            raise errors.LeaderNotAvailableError(partition=where.partition)
        item = pb.FetchPartition(
            topic_id=where.topic_id, partition=where.partition, fetch_offset=offset, leader_epoch=-1
        )
        request = pb.FetchRequest(
            isolation_level=isolation(isolation_level),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            partitions=[item],
            skip_lost_transactions=True,
        )
        timeout_ms = self._context.call_timeout_ms(deadline_ms)
        reply, data = await methods.FETCH.call(self._context.transport, address, request, timeout_ms)
        if [(a.topic_id, a.partition) for a in reply.partitions] != [where]:
            raise errors.InvalidResponseError("the broker's answer does not fit the question", offset=offset)
        answer = reply.partitions[0]
        if answer.HasField("error"):
            raise from_detail(answer.error)
        from oncelog.core.batch.batch import iter_batches  # loads pyarrow, which most administration does without

        _check(where, offset, isolation_level, answer, data)
        aborted = by_name(
            Aborted(a.txn_producer_id, a.txn_no, a.all, frozenset(a.winners), a.data_loss) for a in answer.aborted
        )
        batches = [
            RawBatch(header, view, not header.is_control and committed(header, aborted, True))
            for header, view in iter_batches(data)
        ]
        return RawBatches(batches, answer.next_offset, answer.high_watermark, answer.last_stable_offset)


def _check(where: PartitionId, offset: int, isolation_level: str, answer: pb.FetchedPartition, data: Buffer) -> None:
    """Raises `InvalidResponseError`, as a consumer does."""
    from oncelog.core.batch.batch import iter_batches

    told = Bounds(answer.leader_epoch, answer.high_watermark, answer.last_stable_offset)
    check_bounds(Bounds(), told)
    limit = told.last_stable_offset if isolation_level == READ_COMMITTED else told.high_watermark
    check_extent(offset, answer.next_offset, len(data), limit)
    reached, tag = offset, partition_tag(*where)
    for number, (header, _) in enumerate(iter_batches(data)):
        check_batch(header, reached, tag, is_first=number == 0)
        reached = header.next_offset
    check_end(reached, answer.next_offset)
