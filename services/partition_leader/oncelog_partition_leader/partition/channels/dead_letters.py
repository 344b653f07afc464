"""Writes dead records to the dead-letter topic of their channel (docs/internals/channels.md, "Dead letters").

Rule 1: a letter is written with acks=all, and only its confirmation settles the record. An unknown outcome is written again, so
        a letter may come twice, and never gets lost.
Rule 2: key, value and headers are the record's own; headers `oncelog.dead.*` say where it comes from and why. The record's
        time to live is left out: readers of the letter would pass over it once that has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oncelog.core.batch.batch import encode_batch, records_of, row_at
from oncelog.core.batch.header import BatchHeader
from oncelog.core.batch.record import EXPIRES_HEADER, MAX_RECORD_HEADERS, Record
from oncelog.errors import (
    InvalidResponseError,
    InvalidTopicError,
    LeaderNotAvailableError,
    RecordListTooLargeError,
)
from oncelog.ports import Transport, WallClock
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_partition_leader.core.appends.commands import ACKS_ALL
from oncelog_partition_leader.core.channels.settlement import Dead
from oncelog_partition_leader.partition.channels.reading.batch_cutting import Unpacked
from oncelog_partition_leader.partition.channels.reading.committed_reading import read_one
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.metadata.waiting_topics import is_waiting

PREFIX: Final = "oncelog.dead."
_OWN_HEADERS: Final = 6
_TOGETHER_BYTES: Final = 8 << 20
"""The most bytes of letters that are written together: topics take no larger batches by default."""


class LetterWriter:
    """Writes letters of all channels on this broker. One per broker."""

    def __init__(
        self, transport: Transport, view: ClusterView, clock: WallClock, unpacked: Unpacked, timeout_ms: int
    ) -> None:
        self._transport = transport
        self._view = view
        self._clock = clock
        self._unpacked = unpacked
        self._timeout_ms = timeout_ms

    async def bury(self, source: LocalPartition, channel: str, topic: str, dead: Sequence[Dead]) -> None:
        """Returns when the letters of these records are committed in `topic`; a record that was deleted gets none.

        Raises `OncelogError`: then they may be written, or not.
        """
        if topic in INTERNAL_TOPICS or is_waiting(topic):
            raise InvalidTopicError("dead letters do not go to the cluster's own topics", topic=topic)
        found = self._view.topic(topic)
        letters = await self._letters(source, channel, dead)
        if not letters:
            return
        target = PartitionId(found.topic_id, source.id.partition % found.partitions)
        now_ms = self._clock.now_ms()
        data = encode_batch(
            [record.key for record in letters],
            [record.value for record in letters],
            timestamps_ms=[now_ms] * len(letters),
            headers=[record.headers for record in letters],
            topic_id=target.topic_id,
            partition=target.partition,
        )
        await self._produce(target, data)

    async def _letters(self, source: LocalPartition, channel: str, dead: Sequence[Dead]) -> list[Record]:
        """Raises `RecordListTooLargeError` for several that are large together: then the caller has each written alone."""
        letters: list[Record] = []
        size = 0
        for one in dead:
            letter = await self._letter(source, channel, one)
            if letter is None:
                continue
            letters.append(letter)
            size += sum(
                len(part or b"") for part in (letter.key, letter.value, *(value for _, value in letter.headers))
            )
            if size > _TOGETHER_BYTES and len(letters) > 1:
                raise RecordListTooLargeError("these letters are too large together", together_bytes=_TOGETHER_BYTES)
        return letters

    async def _letter(self, source: LocalPartition, channel: str, dead: Dead) -> Record | None:
        batch = read_one(source, dead.offset)
        record = None if batch is None else await self._record(batch, dead.offset)
        if record is None:
            return None
        told = {
            "topic": source.topic,
            "partition": str(source.id.partition),
            "offset": str(dead.offset),
            "channel": channel,
            "deliveries": str(dead.deliveries),
            "reason": dead.reason,
        }
        own = tuple((PREFIX + name, value.encode()) for name, value in told.items())
        kept = tuple(header for header in record.headers if header[0] != EXPIRES_HEADER)
        return record._replace(headers=kept[: MAX_RECORD_HEADERS - _OWN_HEADERS] + own)

    async def _record(self, batch: tuple[BatchHeader, memoryview], offset: int) -> Record | None:
        header, data = batch
        if header.is_control or not header.record_count:
            return None
        rows = await self._unpacked.rows(data, header)
        row = row_at(rows, header, offset)
        begin = header if header.is_compacted else header._replace(base_offset=header.base_offset + row)
        records = records_of(rows.slice(row, 1), begin)
        return records[0] if records and records[0].offset == offset else None

    async def _produce(self, target: PartitionId, data: bytes) -> None:
        leader = self._view.require_leader(target)
        address = self._view.address_of(leader.broker_id)
        if address is None:
            raise LeaderNotAvailableError("the leader is not registered at the moment", partition=target.partition)
        item = pb.ProducePartition(topic_id=target.topic_id, partition=target.partition, length=len(data))
        request = pb.ProduceRequest(acks=ACKS_ALL, timeout_ms=self._timeout_ms, partitions=[item])
        reply, _ = await methods.PRODUCE.call(self._transport, address, request, self._timeout_ms + 1_000, data)
        if not reply.partitions:
            raise InvalidResponseError("the leader answered for no partition", partition=target.partition)
        answer = reply.partitions[0]
        if answer.HasField("error"):
            raise from_detail(answer.error)
