"""Rows and Arrow data on their way into a sender: serialised, checked, and given a partition.

Rule 1: everything about one record is checked before it is queued, so a mistake is the caller's, at once.
Rule 2: without a serializer, text becomes UTF-8 and bytes stay; anything else is refused with a hint.
Rule 3: rows without a key stay on one partition until a batch is full (and, outside transactions, until it is sent).
Rule 4: a call that waited (for metadata, for room) asks once more whether its transaction still takes records, right before it
        queues them: all transactions of a producer share one sender, which would write what is late in the next one.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, NamedTuple, SupportsIndex, TypeVar

from oncelog.client.home.context import Context
from oncelog.client.produce.delivery import BatchDelivery, Delivery, Part, Parts
from oncelog.client.produce.expiring import with_expiry
from oncelog.client.produce.observer import UNRECORDED, Origin
from oncelog.client.produce.sender import Sender
from oncelog.client.routing.metadata import Metadata, Topic, no_partition
from oncelog.config import ProducerConfig
from oncelog.core.batch.hashing import partition_for_key
from oncelog.core.batch.record import MAX_RECORD_HEADERS, TIMESTAMP_MAX_MS, HeaderList, not_milliseconds
from oncelog.core.produce.accumulator import ArrowRows, ArrowTable, Batch, Row, row_bytes
from oncelog.errors import InvalidRecordError, UnknownTopicError
from oncelog.types import PartitionId
from oncelog.value_types import NULL, Headers, K, Serializer, V, fills_up

T = TypeVar("T")
_CHUNK_BYTES = 16 << 20
Enrol = Callable[[list[PartitionId]], Awaitable[None]]


_row: Final[Callable[[tuple[object, ...]], Row]] = partial(tuple.__new__, Row)
"""As `Row._make`, without a call of Python for each record."""


@fills_up
class Message(NamedTuple, Generic[K, V]):
    """One record for `send_many`; what is left out is null or chosen."""

    value: V = NULL
    key: K = NULL
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    ttl_ms: int | None = None


class Writer:
    """See the module. `check` raises why a transaction takes no records; it was asked before anything here is called. `enrol`
    gets the partitions of a `send_batch` before they are written.
    """

    def __init__(
        self,
        context: Context,
        metadata: Metadata,
        config: ProducerConfig,
        sender: Sender,
        check: Callable[[], object] | None = None,
        enrol: Enrol | None = None,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._config = config
        self._sender = sender
        self._room = sender.room
        self._check = check
        self._enrol = enrol
        self._full_bytes = config.full_batch_bytes
        self._sticky: dict[str, int] = {}
        self.asks_caller = not isinstance(config.partitioner, str)
        """A function of the caller's chooses the partition of each row that does not name one."""

    async def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        ttl_ms: int | None = None,
    ) -> Delivery:
        """Queues one record; waits for metadata and room, not for the acknowledgement."""
        if ttl_ms is not None:
            headers = self.expiring(headers, ttl_ms)
        observer = self._sender.observer
        if not observer.records_origins or (origin := observer.origin(topic)) is UNRECORDED:
            return Delivery(*await self.queue(self.checked(topic, value, key, partition, timestamp_ms, headers)))
        with origin:
            return Delivery(*await self._queue_of(origin, topic, value, key, partition, timestamp_ms, headers))

    def expiring(self, headers: Headers, ttl_ms: int) -> Headers:
        """The headers of a record with a time to live. Raises `InvalidDelayError`."""
        return with_expiry(headers, ttl_ms, self._context.clock.now_ms())

    async def _queue_of(
        self,
        origin: Origin,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> tuple[Batch, int]:
        """`queue` of a record whose origin is recorded."""
        pairs = origin.headers(checked_headers(headers) if headers else ())
        placed = await self.queue(self.checked(topic, value, key, partition, timestamp_ms, pairs))
        origin.queued(placed[0])
        return placed

    async def queue(self, row: Row) -> tuple[Batch, int]:
        """Queues a checked record; waits for metadata and room. Its batch, and its index there. Raises as `Producer.send`."""
        name, number, _, _, _, _, size = row
        topic = self._metadata.known_topic(name)
        if topic is None or (number is not None and not 0 <= number < topic.partitions) or not self._room.may_add(size):
            topic = await self._waited_for(row)
        return self.put(topic, row)

    async def _waited_for(self, row: Row) -> Topic:
        """The row's topic, when there is room for the row, and it may still be written; it is queued before anything else."""
        if row.partition is None:
            topic = await self._topic(row.topic)
        else:
            topic = await self._topic_with(row.topic, row.partition)
        await self._reserve(row.size)
        return topic

    async def _reserve(self, size: int) -> None:
        """Waits for room; the caller queues before it waits for anything else. Raises as `Room.reserve`, and as `check`."""
        await self._room.reserve(size)
        if self._check is not None:
            self._check()

    def checked(
        self,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> Row:
        """A record as it will be written. Safe from any thread if the serializers are. Raises `InvalidRecordError`,
        `InvalidTimestampError`, and what a serializer raises.
        """
        config = self._config
        if key is not None or config.key_serializer is not None:  # most records have none: this saves a call
            key = _serialized(key, config.key_serializer, "key")
        value = _serialized(value, config.value_serializer, "value")
        pairs = checked_headers(headers) if headers else ()
        time = self._context.clock.now_ms() if timestamp_ms is None else _timestamp(timestamp_ms)
        if partition is not None and type(partition) is not int:
            partition = _whole(partition, "partition")
        return _row((topic, partition, key, value, time, pairs, row_bytes(key, value, pairs)))

    def put(self, topic: Topic, row: Row) -> tuple[Batch, int]:
        """Queues a record for which there is room, without waiting for anything. Its batch, and its index there.

        Raises `UnknownTopicError` for a partition that the topic does not have.
        """
        batch, index = self._sender.put_row(topic, self._number(topic, row), row)
        self._queued(topic, row, batch, index)
        return batch, index

    def put_rows(self, topic: Topic, rows: Sequence[Row]) -> tuple[Batch, int, int]:
        """As `put` for the first of these rows. All name the same partition, or name none and have no key; or there is one row.
        The batch, the index of the first row in it, and how many rows it took.
        """
        first = rows[0]
        batch, index, count = self._sender.put_rows(topic, self._number(topic, first), rows)
        self._queued(topic, first, batch, index)
        return batch, index, count

    async def send_many(self, topic: str, rows: Iterable[object]) -> BatchDelivery:
        """Queues many records: values, `(key, value)` pairs, or `Message`s. Raises `TypeError` for what is one record."""
        rows = several(rows)
        queued = Parts()
        with self._sender.observer.origin(topic) as origin:
            try:
                for row in rows:
                    if isinstance(row, Message):
                        headers = row.headers if row.ttl_ms is None else self.expiring(row.headers, row.ttl_ms)
                        options = (row.value, row.key, row.partition, row.timestamp_ms, headers)
                    elif type(row) is tuple and len(row) == 2:  # a named tuple, or a Row of Spark, is a value
                        options = (row[1], row[0], None, None, ())
                    else:
                        options = (row, None, None, None, ())
                    if origin is UNRECORDED:  # saves a coroutine for each record
                        queued.add(*await self.queue(self.checked(topic, *options)))
                    else:
                        queued.add(*await self._queue_of(origin, topic, *options))
            finally:
                origin.counted(queued.rows)
        return queued.delivery()

    async def send_batch(self, topic: str, data: ArrowRows | ArrowTable, partition: int | None = None) -> BatchDelivery:
        """Queues Arrow data (`RecordBatch` or `Table`): columns `value`, and optionally `key`, `headers`, `timestamp`,
        `partition`. No work per row; waits for room as it goes.
        """
        if partition is not None:
            partition = _whole(partition, "partition")
        batches: list[Batch] = []
        with self._sender.observer.origin(topic) as origin:
            try:
                found = self._metadata.known_topic(topic) or await self._topic(topic)
                if partition is not None and not 0 <= partition < found.partitions:
                    found = await self._topic_with(topic, partition)
                for chunk in _chunks(data):
                    batches += await self._send_chunk(found, chunk, partition, origin)
            finally:
                origin.counted(sum(batch.record_count for batch in batches))
        return BatchDelivery([Part(batch, 0, batch.record_count) for batch in batches])

    async def _send_chunk(self, topic: Topic, chunk: ArrowRows, partition: int | None, origin: Origin) -> list[Batch]:
        from oncelog.core.batch import batch as codec
        from oncelog.core.batch import partitioner

        if "value" not in chunk.schema.names:
            raise InvalidRecordError("the Arrow data has no column `value`", columns=", ".join(chunk.schema.names))
        codec.check_columns(chunk)  # here it is the caller's mistake; at the encoding it would fail a transaction
        if partition is None:
            if (highest := partitioner.highest_named(chunk)) >= topic.partitions:
                with contextlib.suppress(UnknownTopicError):  # `route` says which rows are wrong
                    topic = await self._topic_with(topic.name, highest)
            sticky = self._sticky_partition(topic)
            routed = partitioner.route(chunk, topic.partitions, sticky, self._config.key_hash)
            self._turn(topic, is_full=True)
        else:
            routed = [(partition, chunk)]
        if self._enrol is not None and len(routed) > 1:
            await self._enrol([PartitionId(topic.topic_id, number) for number, _ in routed])
        now = self._context.clock.now_ms()
        queues = [(number, partitioner.cut(rows, self._full_bytes)) for number, rows in routed]
        added: list[Batch] = []
        # One piece of each partition after the other, so that all brokers have work from the start.
        for i in range(max((len(pieces) for _, pieces in queues), default=0)):
            for number, pieces in queues:
                if i < len(pieces):
                    rows, size = pieces[i]
                    await self._reserve(size)
                    batch = self._sender.put_arrow(topic, number, rows, size, now)
                    origin.queued(batch)
                    added.append(batch)
        return added

    async def _topic(self, name: str) -> Topic:
        return await self._metadata.topic(name, self._context.deadline_ms(self._config.max_block_ms or 1))

    async def _topic_with(self, name: str, partition: int) -> Topic:
        deadline_ms = self._context.deadline_ms(self._config.max_block_ms or 1)
        return await self._metadata.topic_with(name, partition, deadline_ms)

    # ------------------------------------------------------------ partitions

    def _number(self, topic: Topic, row: Row) -> int:
        """The row's partition. Raises `UnknownTopicError` for one that the topic does not have."""
        if row.partition is None:
            return self._choose(topic, row.key)
        if not 0 <= row.partition < topic.partitions:
            raise no_partition(topic, row.partition)
        return row.partition

    def _choose(self, topic: Topic, key: bytes | None) -> int:
        if not isinstance(self._config.partitioner, str):  # `asks_caller`
            chosen = _whole(self._config.partitioner(key, topic.partitions), "what the partitioner returned")
            if not 0 <= chosen < topic.partitions:
                raise no_partition(topic, chosen)
            return chosen
        if key is None:
            return self._sticky_partition(topic)
        return partition_for_key(key, topic.partitions, self._config.key_hash)

    def _sticky_partition(self, topic: Topic) -> int:
        chosen = self._sticky.get(topic.topic_id)
        if chosen is None:
            chosen = self._sticky[topic.topic_id] = self._context.random.randrange(topic.partitions)
        return chosen % topic.partitions

    def _queued(self, topic: Topic, row: Row, batch: Batch, index: int) -> None:
        """This row, and others like it, are in this batch from `index` on: the next ones may turn to another partition."""
        if row.partition is None and row.key is None and (index == 0 or batch.size_bytes >= self._full_bytes):
            self._turn(topic, is_full=self._sender.has_filled(batch))

    def _turn(self, topic: Topic, is_full: bool) -> None:
        """The next row without a key goes to the next partition."""
        identity = self._sender.deliveries.identities.current
        if is_full or identity is None or not identity.is_transactional:
            self._sticky[topic.topic_id] = (self._sticky_partition(topic) + 1) % topic.partitions


def several(rows: Iterable[T]) -> Iterable[T]:
    """Rows for `send_many`. Raises `TypeError` for one record, whose letters, bytes, names or parts would be sent instead."""
    if isinstance(rows, str | bytes | bytearray | memoryview | Mapping | Message):
        raise TypeError(
            f"send_many takes rows, as a list or what else can be iterated; a {type(rows).__name__} is one record: use send,"
            " or put it into a list"
        )
    return rows


def checked_headers(headers: Headers) -> HeaderList:
    """Headers as a tuple of pairs. Raises `InvalidRecordError`."""
    checked: list[tuple[str, bytes | None]] = []
    for name, value in _pairs(headers):
        if not isinstance(name, str) or not name:
            raise InvalidRecordError("the name of a header is empty or no text", given=repr(name)[:64])
        if value is not None and type(value) is not bytes:
            value = _bytes_of(value, "the value of a header", "give bytes, text or None", header=name)
        if not name.isascii():
            _utf8(name, "the name of a header")
        checked.append((name, value))
    if len(checked) > MAX_RECORD_HEADERS:
        raise InvalidRecordError("too many headers in one record", limit=MAX_RECORD_HEADERS)
    return tuple(checked)


def _pairs(headers: Headers) -> list[Any]:
    """Things of two parts, of whatever types. Raises `InvalidRecordError`."""
    given: Iterable[Any] = headers.items() if isinstance(headers, Mapping) else headers
    with contextlib.suppress(TypeError):
        pairs = list(given)
        if all(len(pair) == 2 and not isinstance(pair, str) for pair in pairs):  # "ab" is no pair
            return pairs
    raise InvalidRecordError("headers are a mapping, or pairs of a name and a value", given=repr(headers)[:64])


def _serialized(item: object, serializer: Serializer | None, name: str) -> bytes | None:
    if serializer is not None:
        item = serializer(item)
    if item is None or type(item) is bytes:
        return item
    return _bytes_of(item, f"the {name}", f"give bytes or text, or set {name}_serializer")


def _bytes_of(item: object, what: str, advice: str, **context: Any) -> bytes:
    """Text as UTF-8, bytes as they are, in an object of our own. Raises `InvalidRecordError`."""
    if isinstance(item, str):
        return _utf8(item, what)
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item)
    raise InvalidRecordError(f"{what} is of type {type(item).__name__}; {advice}", **context)


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRecordError(
            f"{what} has half a character (a lone surrogate), which UTF-8 cannot hold: {error}"
        ) from None


def _timestamp(given: object) -> int:
    """Raises `InvalidRecordError` or `InvalidTimestampError`."""
    timestamp_ms = _whole(given, "timestamp_ms")
    if not 0 <= timestamp_ms <= TIMESTAMP_MAX_MS:
        raise not_milliseconds(timestamp_ms)
    return timestamp_ms


def _whole(number: object, name: str) -> int:
    """The number, which is whole. Raises `InvalidRecordError`."""
    if type(number) is int:
        return number
    with contextlib.suppress(TypeError):
        # a partition True is another argument in the wrong place
        if isinstance(number, SupportsIndex) and not isinstance(number, bool):
            return operator.index(number)
    raise InvalidRecordError(f"{name} is not a whole number", given=repr(number)[:64])


def _chunks(data: ArrowRows | ArrowTable) -> Iterator[ArrowRows]:
    """Arrow record batches of bounded size."""
    for batch in data.to_batches() if hasattr(data, "to_batches") else (data,):  # isinstance of a protocol costs 40 us
        rows, size = batch.num_rows, batch.nbytes
        step = rows if size <= _CHUNK_BYTES else max(1, rows * _CHUNK_BYTES // size)
        for start in range(0, rows, max(step, 1)):
            yield batch.slice(start, step)
