"""The same client for code without an event loop: notebooks, scripts, Spark tasks. Same names, no `await`.

    with oncelog.sync.Client("broker-0:9092") as client, client.producer() as producer:
        producer.send("orders", value=b"42").result()

Rule 1: all clients of a process share one daemon thread with one event loop; calls may come from any thread.
Rule 2: every blocking call can be interrupted (Ctrl-C); what it waited for is then cancelled on the loop.
Rule 3: after a fork the child has no such thread: clients that it inherited raise `ForkedClientError`.
Rule 4: what was sent by a producer that nobody closed is still written when the interpreter ends, within 5 s, if its links are
        there already. A forked child of `multiprocessing` ends without the interpreter's end: close what it makes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from oncelog.client import client as async_client
from oncelog.client.client import TransactionOutcome
from oncelog.client.consume.consumer import Consumer as AsyncConsumer
from oncelog.client.consume.fetched_records import ConsumerRecord, Records
from oncelog.client.consume.offsets import GroupMetadata, OffsetAndMetadata
from oncelog.client.made_by_client import refuse_direct
from oncelog.client.produce.delivery import BatchDelivery as AsyncBatchDelivery
from oncelog.client.produce.delivery import Delivery as AsyncDelivery
from oncelog.client.produce.delivery import RecordMetadata, WrittenRange
from oncelog.client.produce.participant import BatchCommit, ParticipantResult
from oncelog.client.produce.participant import Participant as AsyncParticipant
from oncelog.client.produce.producer import Producer as AsyncProducer
from oncelog.client.produce.transaction import Transaction as AsyncTransaction
from oncelog.client.produce.writer import Headers, Message, several
from oncelog.client.routing.offset_lookup import FoundOffset
from oncelog.ports import Transport, WallClock
from oncelog.sync.admin import Admin
from oncelog.sync.loop import LoopThread, Wrapper, shared_thread
from oncelog.trace.tracing import Tracer
from oncelog.types import TopicPartition
from oncelog.value_types import NULL, K, Key, V, Value, fills_up

if TYPE_CHECKING:
    from oncelog.option_types import ClientOptions, ConsumerOptions, ParticipantOptions, ProducerOptions
    from oncelog.value_types import ReadKey, ReadValue, SentKey, SentValue


async def _await(item: Any) -> Any:
    return await item


async def _next(rows: AsyncIterator[Any]) -> Any:
    return await anext(rows)


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
        metadata: RecordMetadata = self._run(_await(self._inner))
        return metadata

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
        ranges: list[WrittenRange] = self._run(_await(self._inner))
        return ranges

    def done(self) -> bool:
        """True when every outcome is known."""
        return self._inner.done()


A = TypeVar("A", bound=AsyncProducer | AsyncTransaction | AsyncParticipant)


class _Writes(Wrapper[A], Generic[A, Key, Value]):
    """What producer, transaction and participant have in common."""

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
    ) -> Delivery:
        """Queues one record; waits for room, not for the acknowledgement. See `oncelog.Producer.send`.

        Serializers run in the caller's thread. Where the client is traced, and in `send_many` and `send_and_wait`, they run in
        the thread of the event loop.
        """
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


@fills_up
class Transaction(_Writes[AsyncTransaction[Key, Value], Key, Value]):
    """`with producer.transaction() as txn:` commits on exit, aborts on error. See `oncelog.Transaction`."""

    @property
    def txn_no(self) -> int:
        """Number of this transaction."""
        return self._inner.txn_no

    @property
    def outcome(self) -> str:
        """ "committed", "aborted", or where it stands."""
        return self._inner.outcome

    def begin(self) -> Transaction[Key, Value]:
        """Begins."""
        self._run(self._inner.begin())
        return self

    def __enter__(self) -> Transaction[Key, Value]:
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def send_offsets(self, read: Any, group: GroupMetadata | None = None) -> None:
        """Commits offsets with this transaction."""
        self._run(self._inner.send_offsets(read, group))

    def flush(self) -> None:
        """Waits for every acknowledgement. Raises the first failure."""
        self._run(self._inner.flush())

    def commit(self, wait: str = "decided") -> None:
        """Commits. See `oncelog.Transaction.commit`."""
        self._run(self._inner.commit(wait))

    def abort(self) -> None:
        """Aborts."""
        self._run(self._inner.abort())


@fills_up
class Producer(_Writes[AsyncProducer[Key, Value], Key, Value]):
    """See `oncelog.Producer`."""

    def __new__(cls, *given: Any, **options: Any) -> Producer[Key, Value]:
        """Raises `TypeError` that says how it is made."""
        refuse_direct(AsyncProducer, "oncelog.SyncClient", "producer", given, options)
        return super().__new__(cls)

    def __enter__(self) -> Producer[Key, Value]:
        self._run(self._inner.start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def start(self) -> Producer[Key, Value]:
        """Gets the producer id."""
        return self.__enter__()

    def send_and_wait(
        self,
        topic: str,
        value: Value = NULL,
        key: Key = NULL,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """`send`, and its acknowledgement."""
        work = self._inner.send_and_wait(topic, value, key, partition, timestamp_ms, headers)
        metadata: RecordMetadata = self._run(work)
        return metadata

    def flush(self) -> None:
        """Waits until everything is acknowledged. Raises the first failure that nobody awaited."""
        self._run(self._inner.flush())

    def transaction(self) -> Transaction[Key, Value]:
        """A new transaction."""
        return Transaction(self._inner.transaction(), self._thread)

    def begin_transaction(self) -> Transaction[Key, Value]:
        """A new transaction, begun."""
        return self.transaction().begin()

    def close(self, timeout_ms: int | None = None) -> None:
        """Waits for what is on its way, then ends."""
        self._run(self._inner.close(timeout_ms))


@fills_up
class Participant(_Writes[AsyncParticipant[Key, Value], Key, Value]):
    """A writer of a shared transaction. See `oncelog.client.produce.participant`."""

    @property
    def already_committed(self) -> bool:
        """The batch's token is committed: write nothing."""
        return self._inner.already_committed

    @property
    def committed_rows(self) -> int:
        """Rows of the committed token."""
        return self._inner.committed_rows

    @property
    def txn_no(self) -> int:
        """Number of the transaction."""
        return self._inner.txn_no

    @property
    def session_token(self) -> bytes:
        """A secret, for an abort; empty when nothing was joined."""
        return self._inner.session_token

    @property
    def producer_id(self) -> int:
        """This participant's own id."""
        return self._inner.producer_id

    def __enter__(self) -> Participant[Key, Value]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def flush(self) -> ParticipantResult:
        """Waits for every acknowledgement; what to hand to the driver."""
        result: ParticipantResult = self._run(self._inner.flush())
        return result

    def renew(self) -> None:
        """Keeps the transaction alive; done by itself while the participant is open."""
        self._run(self._inner.renew())

    def close(self) -> None:
        """Stops renewing and drops what was not flushed."""
        self._run(self._inner.close())


@fills_up
class Consumer(Wrapper[AsyncConsumer[K, V]], Generic[K, V]):
    """See `oncelog.Consumer`."""

    def __new__(cls, *given: Any, **options: Any) -> Consumer[K, V]:
        """Raises `TypeError` that says how it is made."""
        refuse_direct(AsyncConsumer, "oncelog.SyncClient", "consumer", given, options)
        return super().__new__(cls)

    def __enter__(self) -> Consumer[K, V]:
        self._run(self._inner.start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> Consumer[K, V]:
        """Assigns the partitions of the topics that were given."""
        return self.__enter__()

    def close(self) -> None:
        """Stops reading; commits nothing."""
        self._run(self._inner.close())

    def subscribe(self, *topics: str, **options: Any) -> None:
        """Not available yet: always raises `IllegalStateError`."""
        self._inner.subscribe(*topics, **options)

    def assign(self, partitions: Iterable[Any]) -> None:
        """Reads exactly these (topic, partition) pairs from now on."""
        self._run(self._inner.assign(list(partitions)))

    def assignment(self) -> list[TopicPartition]:
        """What is read."""
        return self._inner.assignment()

    def pause(self, *partitions: Any) -> None:
        """Returns nothing of these partitions until `resume`."""
        self._call(self._inner.pause, *partitions)

    def resume(self, *partitions: Any) -> None:
        """Ends a pause."""
        self._call(self._inner.resume, *partitions)

    def position(self, partition: Any) -> int:
        """The next offset to return."""
        return int(self._run(self._inner.position(partition)))

    def seek(self, partition: Any, offset: int) -> None:
        """Goes on from this offset."""
        self._call(self._inner.seek, partition, offset)

    def seek_to_beginning(self, *partitions: Any) -> None:
        """Goes to the first record that is kept."""
        self._run(self._inner.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: Any) -> None:
        """Goes to the end of what may be read now."""
        self._run(self._inner.seek_to_end(*partitions))

    def offsets_for_times(self, times: Mapping[Any, int]) -> dict[TopicPartition, FoundOffset | None]:
        """Per partition the first record at or after this time."""
        found: dict[TopicPartition, FoundOffset | None] = self._run(self._inner.offsets_for_times(times))
        return found

    def beginning_offsets(self, partitions: Iterable[Any]) -> dict[TopicPartition, int]:
        """First offset that is kept."""
        found: dict[TopicPartition, int] = self._run(self._inner.beginning_offsets(list(partitions)))
        return found

    def end_offsets(self, partitions: Iterable[Any]) -> dict[TopicPartition, int]:
        """End of what may be read."""
        found: dict[TopicPartition, int] = self._run(self._inner.end_offsets(list(partitions)))
        return found

    def getmany(self, timeout_ms: int | None = None, max_records: int | None = None) -> Records[K, V]:
        """Records; waits for the first one, at most `timeout_ms`."""
        records: Records[K, V] = self._run(self._inner.getmany(timeout_ms, max_records))
        return records

    def processing(self, record: ConsumerRecord) -> AbstractContextManager[None]:
        """`with consumer.processing(record):` gives the work on a record a span; see `oncelog.Consumer.processing`."""
        return self._inner.processing(record)

    def getone(self, timeout_ms: int | None = None) -> ConsumerRecord[K, V] | None:
        """The next record; None when none came in time."""
        record: ConsumerRecord[K, V] | None = self._run(self._inner.getone(timeout_ms))
        return record

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Records for ever. The position is always behind the last one that this gave.

        A Ctrl-C may come after a record was taken and before your loop has it: the position is behind that one too.
        """
        while not self._inner.is_closed:
            record, handout = self._run(self._inner.hand_out(1_000))
            while record is not None:
                yield record
                self._check_process()
                record = None if handout is None else handout.next()

    def read_arrow(self, timeout_ms: int | None = None, include_headers: bool = False) -> Any:
        """The next rows of one partition as a `pyarrow.RecordBatch`; None when none came in time."""
        return self._run(self._inner.read_arrow(timeout_ms, include_headers))

    def arrow_batches(self, include_headers: bool = False) -> Iterator[Any]:
        """`read_arrow` for ever."""
        return self._each(self._inner.arrow_batches(include_headers))

    def read_range(
        self,
        partition: Any,
        start: int,
        end: int,
        include_headers: bool = False,
        timeout_ms: int | None = None,
        topic_id: str = "",
    ) -> Iterator[Any]:
        """The rows with `start` <= offset < `end` of one partition, as Arrow; then it is over."""
        return self._each(self._inner.read_range(partition, start, end, include_headers, timeout_ms, topic_id))

    def _each(self, rows: AsyncIterator[Any]) -> Iterator[Any]:
        """What is left open when the caller stops is closed by the loop: to wait for that could outlive the loop."""
        while True:
            try:
                yield self._run(_next(rows))
            except StopAsyncIteration:
                return

    def commit(self, offsets: Mapping[Any, Any] | None = None) -> None:
        """Commits offsets (None = all positions) for the group."""
        self._run(self._inner.commit(offsets))

    def committed(self, *partitions: Any) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets."""
        found: dict[TopicPartition, OffsetAndMetadata | None] = self._run(self._inner.committed(*partitions))
        return found


class Client(Wrapper[async_client.Client]):
    """See `oncelog.Client`; takes the same arguments."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = (),
        client_id: str = "oncelog-python",
        *,
        transport: Transport | None = None,
        clock: WallClock | None = None,
        random: Random | None = None,
        tracer: Tracer | None = None,
        **config: Unpack[ClientOptions],
    ) -> None:
        """Connects with the first call. Raises `ConfigError`."""
        inner = async_client.Client(
            bootstrap_servers,
            client_id,
            transport=transport,
            clock=clock,
            random=random,
            tracer=tracer,
            **config,
        )
        super().__init__(inner, shared_thread())
        self.admin = Admin(self._inner.admin, self._thread)
        """Topics, groups, transactions, the health of the cluster: a `sync.Admin`."""

    def start(self) -> Client:
        """Looks for the cluster. Raises `ClusterUnreachableError`."""
        self._run(self._inner.start())
        return self

    def __enter__(self) -> Client:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes what it made, then the connections."""
        self._run(self._inner.close())

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty before the first answer."""
        return self._inner.cluster_id

    @property
    def tracer(self) -> Tracer | None:
        """See `oncelog.Client.tracer`."""
        return self._inner.tracer

    def producer(self, **config: Unpack[ProducerOptions[SentKey, SentValue]]) -> Producer[SentKey, SentValue]:
        """A producer."""
        producer = self._call(self._inner.producer, **config)
        self._thread.rescue_at_exit(producer)
        return Producer(producer, self._thread)

    def consumer(
        self, *topics: str, **config: Unpack[ConsumerOptions[ReadKey, ReadValue]]
    ) -> Consumer[ReadKey, ReadValue]:
        """A consumer."""
        return Consumer(self._call(self._inner.consumer, *topics, **config), self._thread)

    def join_transaction(
        self,
        transactional_id: str,
        owner_run: str,
        app_id: str,
        batch_id: int,
        *,
        write_attempt: str = "",
        task_attempt: str = "",
        lease_ms: int = 60_000,
        max_duration_ms: int = 0,
        **config: Unpack[ParticipantOptions[SentKey, SentValue]],
    ) -> Participant[SentKey, SentValue]:
        """Joins the open transaction of a batch. See `oncelog.Client.join_transaction`."""
        work = self._inner.join_transaction(
            transactional_id,
            owner_run,
            app_id,
            batch_id,
            write_attempt=write_attempt,
            task_attempt=task_attempt,
            lease_ms=lease_ms,
            max_duration_ms=max_duration_ms,
            **config,
        )
        return Participant(self._run(work), self._thread)

    def commit_transaction(
        self,
        transactional_id: str,
        owner_run: str,
        app_id: str,
        batch_id: int,
        txn_no: int,
        winners: Sequence[ParticipantResult],
        **options: Any,
    ) -> BatchCommit:
        """Commits what the winners wrote. See `oncelog.Client.commit_transaction`."""
        inner = self._inner
        commit: BatchCommit = self._run(
            inner.commit_transaction(transactional_id, owner_run, app_id, batch_id, txn_no, winners, **options)
        )
        return commit

    def abort_transaction(
        self, transactional_id: str, owner_run: str, app_id: str, batch_id: int, txn_no: int, **options: Any
    ) -> bool:
        """Aborts what is open under this name. False: nothing was."""
        work = self._inner.abort_transaction(transactional_id, owner_run, app_id, batch_id, txn_no, **options)
        return bool(self._run(work))

    def get_outcome(self, transactional_id: str, txn_no: int) -> TransactionOutcome:
        """What became of a transaction."""
        outcome: TransactionOutcome = self._run(self._inner.get_outcome(transactional_id, txn_no))
        return outcome
