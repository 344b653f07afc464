"""The entrance: one `Client` per cluster and process; producers, consumers and administration come from it.

    async with oncelog.Client("broker-0:9092,broker-1:9092") as client:
        async with client.producer() as producer:
            metadata = await producer.send_and_wait("orders", value=b"42", key=b"7")

Rule 1: a client, and what it made, belongs to the event loop of its first call and to one process, until its `close`: used in
        another loop, or later, it raises `IllegalStateError`; in a forked child `ForkedClientError`.
Rule 2: configuration has the names that Kafka users type; what `Client` takes may also be given to `producer(...)` or
        `consumer(...)`, for that one alone. Unknown names raise `ConfigError` with the nearest known one.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from oncelog.client.admin.admin import Admin
from oncelog.client.consume.consumer import Consumer
from oncelog.client.home.closing import Closing
from oncelog.client.home.context import Context
from oncelog.client.home.stays_here import StaysHere
from oncelog.client.once.in_log import OnceInLog
from oncelog.client.once.log_options import REMEMBER_IDS_MS, LogJob, once_in_log
from oncelog.client.process.entry import Job, processor
from oncelog.client.process.processor import Processed, Stop
from oncelog.client.process.work import OnProcessError, ProcessBatchFunction, ProcessFunction, each, whole
from oncelog.client.produce import unclosed
from oncelog.client.produce.producer import Producer
from oncelog.client.produce.transactions.participant import (
    BatchCommit,
    Batches,
    JoinOptions,
    Participant,
    ParticipantResult,
)
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.client.work.worker import Worker
from oncelog.config import ClientConfig, ConsumerConfig, ProducerConfig, WorkerConfig, addresses, load
from oncelog.errors import ConfigError, OncelogError
from oncelog.ports import Transport, WallClock
from oncelog.trace.client_tracer import client_tracer, flush_traces
from oncelog.trace.tracing import Tracer
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire import methods

if TYPE_CHECKING:
    from oncelog.option_types import (
        ClientOptions,
        ConsumerOptions,
        ParticipantOptions,
        ProducerOptions,
        ReadingOptions,
        WorkerOptions,
        WritingOptions,
    )
    from oncelog.value_types import ReadKey, ReadValue, SentKey, SentValue

M = TypeVar("M", Producer, Consumer, Participant, Worker)
_SHARED = frozenset(item.name for item in dataclasses.fields(ClientConfig))
_SHARED_WITH_WORKERS = _SHARED - {item.name for item in dataclasses.fields(WorkerConfig)}
"""A worker's `retry_backoff_ms` is the channel's."""
_Own = dict[str, object]
"""The options of one producer, consumer or worker, by name."""


@dataclasses.dataclass(frozen=True, slots=True)
class TransactionOutcome:
    """`outcome` is "committed", "aborted", "ongoing" or "not_begun"; `visible`: every partition has its marker.

    The first two never change. "ongoing" is not decided yet. "not_begun": nothing has been heard of this number; a late
    message may still begin it. A new producer with the transactional id settles it for the numbers of the producer before it,
    also for the one after its last: they are "aborted". Higher ones were not given to any producer yet, and may be anybody's.
    """

    outcome: str
    visible: bool


class Client(StaysHere):
    """See the module. `transport`, `clock`, `random` and `tracer` are for the simulation and for tests.

    Traces: with the application's OpenTelemetry tracer provider, if it has set one up; else to `otlp_endpoint`, or to
    ONCELOG_OTLP_ENDPOINT of the environment; else none.
    """

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
        """`bootstrap_servers`: "host:port,host:port", or a list. Raises `ConfigError`. Connects with the first call."""
        options: dict[str, Any] = {**config}
        servers = options.pop("bootstrap.servers", None) or bootstrap_servers
        given = {"client_id": client_id, **options, "bootstrap_servers": addresses(servers)}
        self.config = load(ClientConfig, given)
        """The options, checked."""
        self._watches = transport is None  # simulated clients vanish unclosed when their process crashes
        self._context = _context(self.config, transport, clock, random, tracer)
        self._metadata = Metadata(self._context)
        self._caller = Caller(self._context, self._metadata)
        self._made: dict[int, Producer | Consumer | Participant | Worker] = {}
        self._closing = Closing(self._context.home)
        self.admin = Admin(self._context, self._metadata, self._caller)
        """Topics, groups, transactions, the health of the cluster: an `Admin`."""

    # ------------------------------------------------------------ life

    async def start(self) -> Client:
        """Looks for the cluster. Raises `ClusterUnreachableError` that says what happened at each address."""
        await self._metadata.refresh(self._context.deadline_ms())
        return self

    async def __aenter__(self) -> Client:
        self._context.home.check()  # in a wrong loop nothing of the right one is closed
        try:
            return await self.start()
        except BaseException:
            with contextlib.suppress(OncelogError):  # the first one says more
                await self.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes what is still open of its producers and consumers, then the connections. Idempotent: a further call waits for
        the same.

        What it made, and `admin`, raise `IllegalStateError` from then on. Raises the first failure of a producer that no
        caller awaited, when all is closed. A cancellation closes the rest without waiting for what is on its way.
        """
        await self._closing.once(self._close)

    async def _close(self) -> None:
        try:
            await self._close_made()
        finally:
            self._context.home.close()
            try:
                await self._metadata.close()
            finally:
                await self._context.transport.close()
            await flush_traces(self._context.tracer)

    async def _close_made(self) -> None:
        """Each of them, also when another one fails, and what is made meanwhile. Raises the first failure."""
        first: OncelogError | None = None
        try:
            while self._made:
                key, item = next(iter(self._made.items()))
                try:
                    await item.close()
                except OncelogError as error:
                    first = first or error
                self._made.pop(key, None)
        except BaseException:
            await self._drop_made()
            raise
        if first is not None:
            raise first

    async def _drop_made(self) -> None:
        """Closes the rest now: what lived on would write later, and could not be closed any more."""
        for item in list(self._made.values()):
            if not item.is_closed:  # else another caller closes it, and has the time that it gave
                with contextlib.suppress(OncelogError):
                    # A task of its own: in a cancelled one, early releases of Python 3.11 take a time-out for the cancellation.
                    await asyncio.create_task(item._drop() if isinstance(item, Producer) else item.close())

    def give_up_after(self, timeout_ms: int) -> None:
        """From now on all calls together have this long (ms), not each one alone; a later call of this begins a new time.

        For programs that run once, as a command line does. Records on their way have their `delivery_timeout_ms`.
        """
        self._context.ends_ms = self._context.now_ms() + timeout_ms

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty before the first answer."""
        return self._metadata.cluster_id

    @property
    def tracer(self) -> Tracer | None:
        """Makes this client's spans (`oncelog.trace.tracing`); None: it is not traced."""
        return self._context.tracer

    # ------------------------------------------------------------ what it makes

    def producer(self, **config: Unpack[ProducerOptions[SentKey, SentValue]]) -> Producer[SentKey, SentValue]:
        """A producer; see `ProducerConfig` for its options. Raises `ConfigError`, and `IllegalStateError` after `close`."""
        context, own = self._for_one(config)
        caller = Caller(context, self._metadata)
        producer = self._keep(Producer(context, self._metadata, caller, load(ProducerConfig, own, _SHARED)))
        if self._watches:
            unclosed.watch(producer)
        return producer

    def consumer(
        self, *topics: str, **config: Unpack[ConsumerOptions[ReadKey, ReadValue]]
    ) -> Consumer[ReadKey, ReadValue]:
        """A consumer of these topics: of all their partitions, or, with a `group_id`, of its share among the group's members.

        Topics with a `group_id` are subscribed to, as in Kafka's clients. Without topics it reads what you `assign` or
        `subscribe` to: `consumer(group_id=...)` and `assign_topics` read everything, and the group only keeps the offsets.
        See `ConsumerConfig` for its options: read_committed is the default (unlike Kafka's Java client). Raises `ConfigError`,
        and `IllegalStateError` after `close`.
        """
        context, own = self._for_one(config)
        caller = Caller(context, self._metadata)
        return self._keep(Consumer(context, self._metadata, caller, load(ConsumerConfig, own, _SHARED), topics))

    def worker(
        self, topic: str, *, channel: str, **config: Unpack[WorkerOptions[ReadKey, ReadValue]]
    ) -> Worker[ReadKey, ReadValue]:
        """A worker of a channel of this topic: the channel's workers share its records, record by record.

        See `WorkerConfig` for its options. The channel is made with the first read when it is not there, unless `create=False`.
        Its name is 1 to 64 characters of `[a-zA-Z0-9._-]`. Raises `ConfigError`, `InvalidTopicError`,
        `InvalidRequestError` for a name that is none, and `IllegalStateError` after `close`.
        """
        context, own = self._for_one(config, _SHARED_WITH_WORKERS)
        caller = Caller(context, self._metadata)
        options = load(WorkerConfig, own, _SHARED_WITH_WORKERS)
        return self._keep(Worker(context, self._metadata, caller, topic, channel, options))

    @property
    def throttled_ms(self) -> int:
        """How long servers asked this client to wait because of quotas, together; it waits by itself."""
        return self._context.throttles.throttled_ms

    def _for_one(self, config: Mapping[str, object], names: frozenset[str] = _SHARED) -> tuple[Context, _Own]:
        """Options of the client apply to this one alone; the others are its own. Raises `IllegalStateError` after `close`."""
        self._context.home.check_open()
        plain: _Own = {name.replace(".", "_"): value for name, value in config.items()}
        if "bootstrap_servers" in plain:
            raise ConfigError("bootstrap_servers belongs to the client: oncelog.Client(bootstrap_servers=...)")
        shared = {name: plain.pop(name) for name in list(plain) if name in names}
        if not shared:
            return self._context, plain
        before = {name: getattr(self.config, name) for name in _SHARED}
        context = self._context
        return Context(
            load(ClientConfig, before | shared),
            context.transport,
            context.clock,
            context.random,
            context.tracer,
            context,
        ), plain

    def _keep(self, item: M) -> M:
        self._made = {key: kept for key, kept in self._made.items() if not kept._closing.is_over}
        self._made[id(item)] = item
        return item

    # ------------------------------------------------------------ work that is done once

    async def process(
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
        """Reads `topics` as a member of the group, calls `fn(record)`, and writes what it returns to the topic `to`.

        Outputs and offsets of a batch are committed in one transaction: each input is in the output once, in order per key,
        whatever dies, and however many processes run this under one `group_id`. It runs until `stop` is set (an
        `asyncio.Event`, or one of `threading`) or it is cancelled.

        `fn` is a function or a coroutine function. It returns None, a value (its key is that of the record), a `Message`, or
        a list of those. A function that blocks belongs into a thread (`asyncio.to_thread`), or into the client without `await`.
        When it raises, nothing of the batch is committed, and `ProcessingError` names the record. With
        `on_error(record, error)` it goes on instead: what that returns is written in place of it, None skips the record.

        `reading` and `writing` are options of the consumer and the producer; `auto_offset_reset` is "earliest" here, and
        `transaction_timeout_ms` 10 s. With a `group_instance_id` in `reading` a restart takes over at once what was left open.
        What the cluster may get over is logged and tried again. Raises `ConfigError` and what else only the caller can solve.
        """
        return await self.run_job(Job(each(fn, on_error), topics, to, group_id, stop, reading, writing))

    async def process_batches(
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
        """As `process`, with a function that gets the list of all records of a batch, up to `max_poll_records` of several
        partitions, and returns None or a list.

        It may be a coroutine function. A value that it returns has no key, so return a `Message` where the order in the output
        matters. When it raises, `ProcessingError` names the first record. There is no `on_error`: catch errors within `fn`.
        """
        return await self.run_job(Job(whole(fn), topics, to, group_id, stop, reading, writing))

    async def run_job(self, job: Job) -> Processed:
        """For `oncelog.sync`: as `process` and `process_batches`, with work that is done in another thread."""
        return await processor(self._context, self.consumer, self.producer, job).run()

    def once(
        self,
        *topics: str,
        group_id: str,
        id_header: str = "",
        ids_topic: str = "",
        remember_ids_ms: int = REMEMBER_IDS_MS,
        reading: ReadingOptions | None = None,
        writing: WritingOptions | None = None,
    ) -> OnceInLog:
        """Has the work of each record of these topics done once, where the log itself remembers what was done.

        What the work sends, the record's offset and its id are committed in one transaction, by as many instances as you start
        under one `group_id`. `id_header`: the header that holds a record's own id; then a record that was sent twice, to the
        same partition, is done once, when the second copy comes within `remember_ids_ms` (7 days). The ids are kept in
        `ids_topic` (the group's name and "-once-ids"), which `create_topic` makes.

        `reading` and `writing` are options of the consumer and the producer; `auto_offset_reset` is "earliest" here, and
        `transaction_timeout_ms` 10 s. Raises `ConfigError`. See docs/once.md.
        """
        job = LogJob(topics, group_id, id_header, ids_topic, remember_ids_ms, reading, writing)
        return once_in_log(self._context, self.admin, self.consumer, self.producer, job)

    # ------------------------------------------------------------ transactions of many writers

    async def join_transaction(
        self,
        batch: SharedBatch,
        *,
        task_attempt: str = "",
        lease_ms: int = 60_000,
        max_duration_ms: int = 0,
        **config: Unpack[ParticipantOptions[SentKey, SentValue]],
    ) -> Participant[SentKey, SentValue]:
        """Joins the open transaction of a batch as one of its writers (a Spark task); see `Participant`.

        `config` are a producer's options. Raises `ProducerFencedError`, `BatchRolledBackError`, `TxnEndedError`.
        """
        context, own = self._for_one(config)
        if "delivery" in own:
            raise ConfigError("the writer of a shared transaction writes once by itself: leave delivery out")
        options = JoinOptions(batch, task_attempt, lease_ms, max_duration_ms)
        caller = Caller(context, self._metadata)
        participant = Participant(context, self._metadata, caller, load(ProducerConfig, own, _SHARED), options)
        self._keep(participant)
        try:
            return await participant.join()
        except BaseException:
            self._made.pop(id(participant), None)
            await participant.close()
            raise

    async def commit_transaction(
        self,
        batch: SharedBatch,
        txn_no: int,
        winners: Sequence[ParticipantResult],
        *,
        wait: str = "decided",
        timeout_ms: int | None = None,
    ) -> BatchCommit:
        """Commits what the winners wrote in one decision, and aborts what others wrote in the same transaction.

        `txn_no` is that of the results; 0, without winners: every writer found `already_committed`. `wait` "visible" waits
        until readers see it, for half of `timeout_ms` at most: the commit itself stands. To repeat the call is a no-op.

        Raises `ProducerFencedError`, `UnknownParticipantError`, `TxnAbortedError`, `BatchRolledBackError`, and
        `CommitOutcomeUnknownError` when no answer came in time, or the client was closed meanwhile: repeat it.
        """
        return await Batches(self._context, self._caller).commit(
            batch, txn_no, winners, wait=wait, timeout_ms=timeout_ms
        )

    async def abort_transaction(
        self,
        batch: SharedBatch,
        txn_no: int,
        *,
        session_token: bytes = b"",
        timeout_ms: int | None = None,
    ) -> bool:
        """Aborts what is open under this name. False: nothing was. `session_token`: of any `ParticipantResult` of it."""
        return await Batches(self._context, self._caller).abort(
            batch, txn_no, session_token=session_token, timeout_ms=timeout_ms
        )

    async def get_outcome(self, transactional_id: str, txn_no: int) -> TransactionOutcome:
        """Returns the outcome of a transaction. Raises `OutcomeForgottenError` when that is no longer kept, never guesses."""
        request = co.GetOutcomeRequest(transactional_id=transactional_id, txn_no=txn_no)
        reply = await self._caller.to_txn_coordinator(transactional_id, methods.GET_OUTCOME, request)
        names = {
            types_pb2.TRANSACTION_OUTCOME_COMMITTED: "committed",
            types_pb2.TRANSACTION_OUTCOME_ABORTED: "aborted",
            types_pb2.TRANSACTION_OUTCOME_NOT_BEGUN: "not_begun",
        }
        return TransactionOutcome(names.get(reply.outcome, "ongoing"), reply.visible)


def _context(
    config: ClientConfig,
    transport: Transport | None,
    clock: WallClock | None,
    random: Random | None,
    tracer: Tracer | None,
) -> Context:
    """Ports as given, else the real ones."""
    from oncelog.client.defaults import LazyGrpcTransport, SystemClock, system_random

    if transport is None:
        tracer = tracer or client_tracer(config)
        transport = LazyGrpcTransport(config.client_id, tracer, config)
    return Context(config, transport, clock or SystemClock(), random or system_random(), tracer)
