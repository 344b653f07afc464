"""The part of the façade without `await` that is written by hand (see `oncelog.sync`, whose rules hold here).

Rule 1: everything else is generated from the asynchronous classes by scripts/gen_sync.py. What is here is not: its shape is
        not that of the asynchronous method, as of a `for` loop.
Rule 2: a record that is sent, or comes out of a `for` loop, does not go through the event loop's thread one by one: the loop
        hands over what a whole batch needs (`Handover`, `Handout`).
Rule 3: a name that stands in a class here is not generated for the class that inherits from it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from oncelog.client.client import Client as AsyncClient
from oncelog.client.consume.consumer import Consumer as AsyncConsumer
from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.consume.group.group_reading import OnPartitions as AsyncOnPartitions
from oncelog.client.home.made_by_client import refuse_direct
from oncelog.client.once.in_log import OnceInLog as AsyncOnceInLog
from oncelog.client.once.log_work import LogWork as AsyncLogWork
from oncelog.client.process.entry import Job
from oncelog.client.process.processor import Processed, Stop
from oncelog.client.process.work import (
    OnProcessError,
    ProcessBatchFunction,
    ProcessFunction,
    each_in_thread,
    whole_in_thread,
)
from oncelog.client.produce.delivery import BatchDelivery as AsyncBatchDelivery
from oncelog.client.produce.delivery import Delivery as AsyncDelivery
from oncelog.client.produce.delivery import RecordMetadata, WrittenRange
from oncelog.client.produce.producer import Producer as AsyncProducer
from oncelog.client.produce.transactions.participant import Participant as AsyncParticipant
from oncelog.client.produce.transactions.transaction import Transaction as AsyncTransaction
from oncelog.client.produce.writer import Message, several
from oncelog.client.work.message import ChannelMessage as AsyncChannelMessage
from oncelog.client.work.worker import Worker as AsyncWorker
from oncelog.sync.admin import Admin
from oncelog.sync.loop import LoopThread, Wrapper, shared_thread
from oncelog.types import TopicPartition
from oncelog.value_types import NULL, Headers, K, Key, V, Value, fills_up

if TYPE_CHECKING:
    from oncelog.option_types import ReadingOptions, WritingOptions

T = TypeVar("T")
OnPartitions = Callable[[list[TopicPartition]], None]
"""A callback of `Consumer.subscribe`."""
_POLL_MS = 1_000
"""How long a `for` loop waits in the event loop's thread at a time."""


async def _await(item: Awaitable[T]) -> T:
    return await item


async def _next(rows: AsyncIterator[T]) -> T:
    return await anext(rows)


def in_thread(callback: OnPartitions | None) -> AsyncOnPartitions | None:
    """The callback for the event loop: it runs in another thread, where it may wait for calls of its own."""
    if callback is None:
        return None

    async def run(partitions: list[TopicPartition]) -> None:
        await asyncio.to_thread(callback, partitions)

    return run


class Delivery(Wrapper[AsyncDelivery]):
    """A record on its way."""

    __slots__ = ()

    def add_done_callback(self, function: Callable[[Delivery], object]) -> None:
        """Calls `function(delivery)` when the outcome is known, in the thread of the event loop: it must not block.

        What it raises goes to the log. See `oncelog.Delivery.add_done_callback`.
        """
        self._call(self._inner.add_done_callback, lambda _: function(self))

    def result(self) -> RecordMetadata:
        """Waits for the acknowledgement. Raises why the record was refused."""
        if self._inner.done():
            return self._inner.result()  # also in a callback, where nothing may wait
        return self._run(_await(self._inner))

    def done(self) -> bool:
        """True when the outcome is known."""
        return self._inner.done()


class BatchDelivery(Wrapper[AsyncBatchDelivery]):
    """Many rows on their way."""

    def add_done_callback(self, function: Callable[[BatchDelivery], object]) -> None:
        """As `Delivery.add_done_callback`, when every outcome is known."""
        self._call(self._inner.add_done_callback, lambda _: function(self))

    @property
    def rows(self) -> int:
        """How many."""
        return self._inner.rows

    def result(self) -> list[WrittenRange]:
        """Waits for all acknowledgements. Raises the first failure."""
        if self._inner.done():
            return self._inner.result()
        return self._run(_await(self._inner))

    def done(self) -> bool:
        """True when every outcome is known."""
        return self._inner.done()


A = TypeVar("A", bound=AsyncProducer | AsyncTransaction | AsyncParticipant)


class Writes(Wrapper[A], Generic[A, Key, Value]):
    """The methods that producer, transaction and participant have in common."""

    def __init__(self, inner: A, thread: LoopThread) -> None:
        super().__init__(inner, thread)
        self._handover = inner.handover()

    def send(
        self,
        topic: str,
        value: Value = NULL,
        key: Key = NULL,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        ttl_ms: int | None = None,
    ) -> Delivery:
        """Queues one record; waits for room, not for the acknowledgement. See `oncelog.Producer.send`.

        Serializers run in the caller's thread. Where the client is traced, and in `send_many` and `send_and_wait`, they run in
        the thread of the event loop.
        """
        if ttl_ms is not None:
            headers = self._handover.expiring(headers, ttl_ms)
        given = self._handover.given(topic, value, key, partition, timestamp_ms, headers)
        if given is None:
            return Delivery(
                self._run(self._inner.send(topic, value, key, partition, timestamp_ms, headers)), self._thread
            )
        if not self._thread.is_here or not self._handover.offer(given, self._thread.soon):
            self._run(self._handover.put(given))
        return Delivery(given, self._thread)

    def send_many(self, topic: str, rows: Iterable[Value | tuple[Key, Value] | Message[Key, Value]]) -> BatchDelivery:
        """Queues many records: values, `(key, value)` pairs, or `Message`s. See `oncelog.Producer.send_many`."""
        return BatchDelivery(self._run(self._inner.send_many(topic, list(several(rows)))), self._thread)

    def send_batch(self, topic: str, data: Any, partition: int | None = None) -> BatchDelivery:
        """Queues Arrow data without work per row. See `oncelog.Producer.send_batch`."""
        return BatchDelivery(self._run(self._inner.send_batch(topic, data, partition)), self._thread)


B = TypeVar("B", bound=AsyncProducer | AsyncTransaction)


class WritesDelayed(Writes[B, Key, Value], Generic[B, Key, Value]):
    """The methods that producer and transaction have in common."""

    def send(
        self,
        topic: str,
        value: Value = NULL,
        key: Key = NULL,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        ttl_ms: int | None = None,
        *,
        deliver_at: datetime | timedelta | int | None = None,
    ) -> Delivery:
        """Queues one record; waits for room, not for the acknowledgement. See `oncelog.Producer.send`.

        Serializers run in the caller's thread. Where the client is traced, for a delayed record, and in `send_many` and
        `send_and_wait`, they run in the thread of the event loop.
        """
        if deliver_at is None:
            return Writes.send(self, topic, value, key, partition, timestamp_ms, headers, ttl_ms)  # `super` costs 2 %
        record = (topic, value, key, partition, timestamp_ms, headers, ttl_ms)
        return Delivery(self._run(self._inner.send(*record, deliver_at=deliver_at)), self._thread)


class TransactionBase(WritesDelayed[AsyncTransaction[Key, Value], Key, Value]):
    """Acknowledgements of a channel, which a transaction takes beside records."""

    def ack(self, messages: ChannelMessage | Iterable[ChannelMessage]) -> None:
        """Acknowledges messages of a channel's worker with this transaction. See `oncelog.Transaction.ack`."""
        chosen = [messages] if isinstance(messages, ChannelMessage) else messages
        self._run(self._inner.ack(_inner_of(chosen)))


class ProducerBase(WritesDelayed[AsyncProducer[Key, Value], Key, Value]):
    """How a producer is made, and that it is not forgotten at the interpreter's end."""

    def __new__(cls, *given: object, **options: object) -> Self:
        """Raises `TypeError` that says how it is made."""
        refuse_direct(AsyncProducer, "oncelog.SyncClient", "producer", given, options)
        return super().__new__(cls)

    def __init__(self, inner: AsyncProducer[Key, Value], thread: LoopThread) -> None:
        thread.rescue_at_exit(inner)
        super().__init__(inner, thread)


class ParticipantBase(Writes[AsyncParticipant[Key, Value], Key, Value]):
    """The findings of a participant's join."""

    @property
    def already_committed(self) -> bool:
        """The batch's token is committed: write nothing."""
        return self._inner.already_committed

    @property
    def committed_rows(self) -> int:
        """Rows of the committed token."""
        return self._inner.committed_rows


class ConsumerBase(Wrapper[AsyncConsumer[K, V]], Generic[K, V]):
    """How a consumer is made, and what loops over it take."""

    def __new__(cls, *given: object, **options: object) -> Self:
        """Raises `TypeError` that says how it is made."""
        refuse_direct(AsyncConsumer, "oncelog.SyncClient", "consumer", given, options)
        return super().__new__(cls)

    def subscribe(
        self,
        *topics: str,
        pattern: str = "",
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Shares the partitions of these topics with the other members of the group. See `oncelog.Consumer.subscribe`.

        The callbacks run in a thread of their own while the read waits, so they may call `commit` and `seek` of this consumer.
        """
        told = (in_thread(on_assigned), in_thread(on_revoked), in_thread(on_lost))
        self._call(
            self._inner.subscribe, *topics, pattern=pattern, on_assigned=told[0], on_revoked=told[1], on_lost=told[2]
        )

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Gives records without an end. The position is always behind the last one that this gave.

        A Ctrl-C may come after a record was taken and before your loop has it: the position is behind that one too.
        """
        while not self._inner.is_closed:
            record, handout = self._run(self._inner.hand_out(_POLL_MS))
            while record is not None:
                yield record
                self._check_process()
                record = None if handout is None else handout.next()

    def _each(self, rows: AsyncIterator[T]) -> Iterator[T]:
        """A generator that the caller leaves open is closed by the loop: to wait for that could outlive the loop."""
        while True:
            try:
                yield self._run(_next(rows))
            except StopAsyncIteration:
                return


@fills_up
class ChannelMessage(Wrapper[AsyncChannelMessage[K, V]], Generic[K, V]):
    """A record that a worker was given. See `oncelog.ChannelMessage`."""

    __slots__ = ()

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._inner.topic

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self._inner.partition

    @property
    def offset(self) -> int:
        """The record's offset."""
        return self._inner.offset

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._inner.timestamp_ms

    @property
    def key(self) -> K:
        """The key, or None. See `oncelog.ChannelMessage.key`; a deserializer runs in the caller's thread."""
        return self._inner.key

    @property
    def value(self) -> V:
        """The value, or None. See `oncelog.ChannelMessage.value`; a deserializer runs in the caller's thread."""
        return self._inner.value

    @property
    def raw_key(self) -> bytes | None:
        """The key's bytes, as they were sent, or None."""
        return self._inner.raw_key

    @property
    def raw_value(self) -> bytes | None:
        """The value's bytes, as they were sent, or None."""
        return self._inner.raw_value

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """Names and values, in order."""
        return self._inner.headers

    @property
    def deliveries(self) -> int:
        """How often the record has been delivered, this time included."""
        return self._inner.deliveries

    @property
    def state(self) -> str:
        """See `oncelog.ChannelMessage.state`."""
        return self._inner.state

    def ack(self) -> None:
        """It is done: it never comes again. Returns when that is durable. Raises as `oncelog.ChannelMessage.ack`."""
        self._run(self._inner.ack())

    def nack(self, delay_ms: int | None = None) -> None:
        """It is not done, and comes again. See `oncelog.ChannelMessage.nack`."""
        self._run(self._inner.nack(delay_ms))

    def touch(self) -> None:
        """It is still worked on. See `oncelog.ChannelMessage.touch`."""
        self._run(self._inner.touch())

    def reject(self, reason: str = "") -> None:
        """It can never be done. See `oncelog.ChannelMessage.reject`."""
        self._run(self._inner.reject(reason))

    def __repr__(self) -> str:
        return repr(self._inner)


def _inner_of(messages: Iterable[ChannelMessage]) -> list[AsyncChannelMessage]:
    """The messages in the event loop. Raises `TypeError` for what is no message."""
    found = [*messages]
    for message in found:
        if not isinstance(message, ChannelMessage):
            raise TypeError(f"a worker settles the messages that it handed out, not a {type(message).__name__}")
    return [message._inner for message in found]


class WorkerBase(Wrapper[AsyncWorker[K, V]], Generic[K, V]):
    """How a worker is made, and what it hands out and takes back."""

    def __new__(cls, *given: object, **options: object) -> Self:
        """Raises `TypeError` that says how it is made."""
        refuse_direct(AsyncWorker, "oncelog.SyncClient", "worker", given, options)
        return super().__new__(cls)

    def __iter__(self) -> Iterator[ChannelMessage[K, V]]:
        """Hands out messages until `close`."""
        while not self._inner.is_closed:
            yield from self.getmany(1, _POLL_MS)

    def getmany(self, max_records: int | None = None, timeout_ms: int | None = None) -> list[ChannelMessage[K, V]]:
        """Up to `max_records` messages; waits for the first one, at most `timeout_ms`. See `oncelog.Worker.getmany`."""
        found = self._run(self._inner.getmany(max_records, timeout_ms))
        return [ChannelMessage(message, self._thread) for message in found]

    def claim(
        self,
        partition: int,
        *,
        offsets: Iterable[int] = (),
        min_idle_ms: int = 0,
        from_offset: int = 0,
        max_records: int = 100,
    ) -> list[ChannelMessage[K, V]]:
        """Takes records from other workers. See `oncelog.Worker.claim`."""
        found = self._run(
            self._inner.claim(
                partition,
                offsets=list(offsets),
                min_idle_ms=min_idle_ms,
                from_offset=from_offset,
                max_records=max_records,
            )
        )
        return [ChannelMessage(message, self._thread) for message in found]

    def processing(self, message: ChannelMessage[K, V]) -> contextlib.AbstractContextManager[None]:
        """Gives the work on a record a span. See `oncelog.Worker.processing`."""
        return self._inner.processing(message._inner)

    def ack(self, messages: Iterable[ChannelMessage]) -> None:
        """Acknowledges all of them, in one call for each broker. See `oncelog.Worker.ack`."""
        self._run(self._inner.ack(_inner_of(messages)))

    def nack(self, messages: Iterable[ChannelMessage], delay_ms: int | None = None) -> None:
        """Gives all of them back. See `oncelog.Worker.nack`."""
        self._run(self._inner.nack(_inner_of(messages), delay_ms))


class LogWork(Wrapper[AsyncLogWork]):
    """See `oncelog.LogWork`; enter it with `with`, before you ask for the next one."""

    __slots__ = ()

    @property
    def record(self) -> ConsumerRecord:
        """The record that is worked on."""
        return self._inner.record

    @property
    def record_id(self) -> str:
        """The record's own id; empty: it has none."""
        return self._inner.record_id

    @property
    def fencing(self) -> int:
        """A number that grows whenever another worker takes the partition over. See `oncelog.LogWork.fencing`."""
        return self._inner.fencing

    @property
    def is_committed(self) -> bool:
        """The block has ended, and all that it sent is committed."""
        return self._inner.is_committed

    def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Writes a record at the end of the block. See `oncelog.LogWork.send`."""
        self._check_process()
        self._inner.send(topic, value, key, partition, timestamp_ms, headers)

    def __enter__(self) -> Self:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))


class OnceInLogBase(Wrapper[AsyncOnceInLog]):
    """The loop over works."""

    def each(self) -> Iterator[LogWork]:
        """The works of the group's records that were not done yet, until `close`; enter each of them before the next.

        Raises as `oncelog.OnceInLog.each`.
        """
        works = self._inner.each()
        while True:
            try:
                work = self._run(_next(works))
            except StopAsyncIteration:
                return
            yield LogWork(work, self._thread)


class ClientBase(Wrapper[AsyncClient]):
    """Where a client lives, and what it has beside its methods."""

    def __init__(self, inner: AsyncClient) -> None:
        super().__init__(inner, shared_thread())
        self.admin = Admin(inner.admin, self._thread)
        """Topics, groups, transactions, the health of the cluster: a `sync.Admin`."""

    def process(
        self,
        topics: str | Sequence[str],
        to: str,
        fn: ProcessFunction,
        *,
        group_id: str,
        on_error: OnProcessError | None = None,
        stop: Stop | None = None,
        reading: ReadingOptions | None = None,
        writing: WritingOptions | None = None,
    ) -> Processed:
        """As `oncelog.Client.process`. The functions are plain ones, and run in another thread: they may block.

        A Ctrl-C ends it: the batch that is worked on is not committed. Set `stop` from another thread to end it after that.
        """
        work = each_in_thread(fn, on_error)
        return self._run(self._inner.run_job(Job(work, topics, to, group_id, stop, reading, writing)))

    def process_batches(
        self,
        topics: str | Sequence[str],
        to: str,
        fn: ProcessBatchFunction,
        *,
        group_id: str,
        stop: Stop | None = None,
        reading: ReadingOptions | None = None,
        writing: WritingOptions | None = None,
    ) -> Processed:
        """As `oncelog.Client.process_batches`. The function is a plain one, and runs in another thread: it may block.

        A Ctrl-C ends it as it ends `process`, and so does `stop`.
        """
        work = whole_in_thread(fn)
        return self._run(self._inner.run_job(Job(work, topics, to, group_id, stop, reading, writing)))
