"""An answer of a broker to the records that it gives to a worker.

Rule 1: nothing of an answer that breaks the protocol is used: `InvalidResponseError`.
Rule 2: a batch that cannot be read raises once, with its place; the other records of the answer are the worker's all
        the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from oncelog import errors
from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.config import WorkerConfig
from oncelog.core.batch.header import BatchHeader, partition_tag
from oncelog.types import Buffer
from oncelog.v1 import channel_pb2 as ch

if TYPE_CHECKING:
    import pyarrow as pa

    from oncelog.core.batch.batch import Columns

    _Mine = tuple[Sequence[int], Columns, list[bool]]
    """The worker's records of a batch: offsets, columns, and which have expired."""


class Received(NamedTuple):
    """One record, and in which delivery it came."""

    record: ConsumerRecord[bytes | None, bytes | None]
    delivery: int
    leader_epoch: int
    ack_wait_ms: int
    is_expired: bool
    """Its time to live has passed."""


class Answer(NamedTuple):
    """The records of an answer."""

    records: list[Received]
    unread: int
    """How many records the broker gave that cannot be read."""
    error: errors.OncelogError | None
    """Why: the first reason."""


class _Batch(NamedTuple):
    """`few`: the records, where there are only a few; `rows` then is None."""

    header: BatchHeader
    rows: pa.RecordBatch | None
    few: Columns | None


class AnswerReader:
    """See the module. One per worker."""

    def __init__(self, topic: str, topic_id: str, config: WorkerConfig) -> None:
        self._topic = topic
        self._topic_id = topic_id
        self._config = config

    def read(self, reply: ch.ReceiveReply, payload: Buffer, now_ms: int) -> Answer:
        """The records of an answer; `now_ms` is milliseconds since 1970. Raises `InvalidResponseError`."""
        view = memoryview(payload)
        if sum(item.length for item in reply.records) != len(view) or any(item.length < 0 for item in reply.records):
            raise errors.InvalidResponseError("the broker's answer has another length than it says")
        found: list[Received] = []
        unread, error, at = 0, None, 0
        batch: _Batch | None = None
        for item in reply.records:
            if item.length:
                data, at = view[at : at + item.length], at + item.length
                try:
                    batch = self._batch(item, data)
                except (errors.CorruptMessageError, errors.InvalidRecordError) as problem:
                    batch, error = None, error or _placed(problem, self._topic, item)
            elif batch is None and error is None:
                raise errors.InvalidResponseError("the broker's answer names records without a batch")
            if batch is None:
                unread += item.last_offset - item.first_offset + 1
                continue
            _check(item, batch.header)
            found += self._records(item, batch, now_ms)
        return Answer(found, unread, error)

    def _batch(self, item: ch.ReceivedRecords, data: memoryview) -> _Batch:
        """One whole batch. Raises `CorruptMessageError`, `InvalidRecordError`; `InvalidResponseError` for another
        partition's.
        """
        from oncelog.core.batch.batch import decode_arrow
        from oncelog.core.batch.header import read_header
        from oncelog.core.batch.plain_batch import read_columns

        header = read_header(data)
        if header.partition_tag != partition_tag(self._topic_id, item.partition) or header.is_control:
            raise errors.InvalidResponseError("the broker sent a batch of another partition", partition=item.partition)
        most = self._config.max_uncompressed_batch_bytes
        few = read_columns(data, header, max_uncompressed_bytes=most)
        rows = decode_arrow(data, header, max_uncompressed_bytes=most) if few is None else None
        return _Batch(header, rows, few)

    def _records(self, item: ch.ReceivedRecords, batch: _Batch, now_ms: int) -> list[Received]:
        """Those of a batch that are the worker's."""
        found = _few_of(item, batch) if batch.rows is None else _many_of(item, batch.header, batch.rows, now_ms)
        offsets, (keys, values, times, headers), late = found
        return [
            Received(
                ConsumerRecord(self._topic, item.partition, offset, time, key, value, pairs),
                item.delivery,
                item.leader_epoch,
                item.ack_wait_ms,
                is_late,
            )
            for offset, time, key, value, pairs, is_late in zip(
                offsets, times, keys, values, headers, late, strict=True
            )
        ]


def _few_of(item: ch.ReceivedRecords, batch: _Batch) -> _Mine:
    """Without headers no record has a time to live."""
    assert batch.few is not None
    base = batch.header.base_offset
    mine = slice(item.first_offset - base, item.last_offset - base + 1)
    keys, values, times, headers = batch.few
    columns = keys[mine], values[mine], times[mine], headers[mine]
    count = len(columns[0])
    return range(item.first_offset, item.first_offset + count), columns, [False] * count


def _many_of(item: ch.ReceivedRecords, header: BatchHeader, rows: pa.RecordBatch, now_ms: int) -> _Mine:
    from oncelog.core.batch.batch import columns_of, row_at, row_offsets
    from oncelog.core.batch.expiry import expired_rows

    first, end = row_at(rows, header, item.first_offset), row_at(rows, header, item.last_offset + 1)
    mine = rows.slice(first, end - first)
    expired = expired_rows(mine, header, now_ms)
    late = [False] * mine.num_rows if expired is None else expired.tolist()
    return row_offsets(mine, header, first), columns_of(mine, header), late


def _check(item: ch.ReceivedRecords, header: BatchHeader) -> None:
    """Raises `InvalidResponseError` for records that the batch cannot have."""
    is_within = header.base_offset <= item.first_offset <= item.last_offset <= header.last_offset
    if not is_within or item.delivery < 1 or item.ack_wait_ms < 1:
        raise errors.InvalidResponseError(
            "the broker's answer names records that its batch does not have",
            partition=item.partition,
            first_offset=item.first_offset,
            last_offset=item.last_offset,
        )


def _placed(error: errors.OncelogError, topic: str, item: ch.ReceivedRecords) -> errors.OncelogError:
    for name, value in {"topic": topic, "partition": item.partition, "offset": item.first_offset}.items():
        error.context.setdefault(name, str(value))
    return error
