"""Clients, producers, transactions, participants and consumers without `await` (see `oncelog.sync`).

Written by scripts/gen_sync.py from the asynchronous classes; not to be edited.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from oncelog.client.client import Client as AsyncClient
from oncelog.client.client import TransactionOutcome
from oncelog.client.consume.fetched_records import ConsumerRecord, Records
from oncelog.client.consume.offsets import GroupMetadata, OffsetAndMetadata
from oncelog.client.once.log_options import REMEMBER_IDS_MS
from oncelog.client.produce.delivery import RecordMetadata
from oncelog.client.produce.transactions.participant import BatchCommit, ParticipantResult
from oncelog.client.produce.transactions.transaction import HasOffsets
from oncelog.client.produce.writer import Headers
from oncelog.client.routing.offset_lookup import FoundOffset
from oncelog.ports import Transport, WallClock
from oncelog.sync.by_hand import (
    ClientBase,
    ConsumerBase,
    OnceInLogBase,
    ParticipantBase,
    ProducerBase,
    TransactionBase,
    WorkerBase,
)
from oncelog.trace.tracing import Tracer
from oncelog.types import TopicPartition
from oncelog.value_types import NULL, K, Key, V, Value, fills_up

if TYPE_CHECKING:
    import pyarrow as pa

    from oncelog.option_types import ClientOptions, ConsumerOptions, ParticipantOptions, ProducerOptions, WorkerOptions
    from oncelog.value_types import ReadKey, ReadValue, SentKey, SentValue


@fills_up
class Transaction(TransactionBase[Key, Value]):
    """`with producer.transaction() as txn:` commits on exit, aborts on error. See `oncelog.Transaction`."""

    @property
    def txn_no(self) -> int:
        """Number of this transaction under its transactional id. Raises `IllegalStateError` before `begin`.

        A caller that looks at it may note it down, so from then on it is this transaction's, also if nothing is ever sent.
        """
        return self._inner.txn_no

    @property
    def outcome(self) -> str:
        """ "committed", "aborted", or the state's name while neither is known."""
        return self._inner.outcome

    def begin(self) -> Transaction[Key, Value]:
        """Begins: ends what the producer's last transaction left behind, and takes the next number.

        Raises `IllegalStateError` while another transaction of the producer is open, `ProducerFencedError`.
        """
        self._run(self._inner.begin())
        return self

    def __enter__(self) -> Transaction[Key, Value]:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def send_offsets(
        self, read: HasOffsets | Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | None = None
    ) -> None:
        """Commits offsets with this transaction: those of a consumer's batch, or a mapping and the group's metadata.

        Raises `IllegalStateError` without a group, `UnknownTopicError` when a topic was created again since its offset was
        read (then abort), and what fences a stale member (`FencedMemberEpochError`, ...).
        """
        self._run(self._inner.send_offsets(read, group))

    def flush(self) -> None:
        """Waits until every send of this transaction is acknowledged. Raises the first failure."""
        self._run(self._inner.flush())

    def commit(self, wait: str = "decided") -> None:
        """Commits. `wait` "decided": the decision is durable; "visible": every partition has its marker as well.

        A partition without a leader gets no marker. So after half of the time the decision is waited for alone.

        Raises the first failed send (then abort), `TxnAbortedError` when the coordinator had aborted it,
        `CommitOutcomeUnknownError` when no answer came in time (then call `commit` again), `ProducerFencedError`. A commit that
        was interrupted goes on: calling it again waits for it, and returns once it is committed.
        """
        self._run(self._inner.commit(wait))

    def abort(self) -> None:
        """Aborts; once it is aborted this does nothing. Raises `IllegalStateError` once a commit was asked for."""
        self._run(self._inner.abort())


@fills_up
class Producer(ProducerBase[Key, Value]):
    """See `oncelog.Producer`."""

    def start(self) -> Producer[Key, Value]:
        """Gets the producer id; for a transactional producer this fences its predecessor. Idempotent.

        Raises `ProducerFencedError`, `ClusterUnreachableError`, or what refused the transactional id.
        """
        self._run(self._inner.start())
        return self

    def __enter__(self) -> Producer[Key, Value]:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def close(self, timeout_ms: int | None = None) -> None:
        """Aborts an open transaction, waits for what is on its way, at most `timeout_ms` (None = `close_timeout_ms`).

        Nothing is taken from now on. Raises the first failure that no caller has seen. Idempotent: a further call waits for the
        same close. A Ctrl-C drops what is still on its way. With `timeout_ms=0` nothing is asked for or waited for: an
        open transaction is not aborted, its time-out or the next producer of its transactional id does that.
        """
        self._run(self._inner.close(timeout_ms))

    def send_and_wait(
        self,
        topic: str,
        value: Value = NULL,
        key: Key = NULL,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        ttl_ms: int | None = None,
    ) -> RecordMetadata:
        """`send`, and its acknowledgement."""
        return self._run(self._inner.send_and_wait(topic, value, key, partition, timestamp_ms, headers, ttl_ms))

    def flush(self) -> None:
        """Waits until everything sent so far is acknowledged. Raises the first failure that no caller has seen."""
        self._run(self._inner.flush())

    def transaction(self) -> Transaction[Key, Value]:
        """A new transaction: `with producer.transaction() as txn:`. Raises `IllegalStateError`."""
        return Transaction(self._inner.transaction(), self._thread)

    def begin_transaction(self) -> Transaction[Key, Value]:
        """`transaction()`, begun; end it with `commit` or `abort`."""
        return Transaction(self._run(self._inner.begin_transaction()), self._thread)


@fills_up
class Participant(ParticipantBase[Key, Value]):
    """A writer of a shared transaction. See `oncelog.client.produce.transactions.participant`."""

    def __enter__(self) -> Participant[Key, Value]:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def close(self) -> None:
        """Stops renewing and drops what was not flushed; the transaction itself stays as it is. Idempotent."""
        self._run(self._inner.close())

    @property
    def txn_no(self) -> int:
        """Number of the transaction that was joined; 0 when its batch is committed already."""
        return self._inner.txn_no

    @property
    def session_token(self) -> bytes:
        """A secret that shows that the one who aborts has joined; empty when nothing was joined."""
        return self._inner.session_token

    @property
    def producer_id(self) -> int:
        """This participant's own producer id."""
        return self._inner.producer_id

    def flush(self) -> ParticipantResult:
        """Waits for every acknowledgement; what to hand to the driver. Raises the first failure, and `IllegalStateError` after
        `close`: its lease runs out.
        """
        return self._run(self._inner.flush())

    def renew(self) -> None:
        """Keeps the transaction alive. Raises `TxnEndedError`, `TxnAbortedError` or `ProducerFencedError` when it has ended."""
        self._run(self._inner.renew())


@fills_up
class Consumer(ConsumerBase[K, V]):
    """See `oncelog.Consumer`."""

    def start(self) -> Consumer[K, V]:
        """Assigns all partitions of topics that were given without a group. Idempotent.

        Whatever reads does this by itself. Raises `UnknownTopicError`, `InvalidTopicError`.
        """
        self._run(self._inner.start())
        return self

    def __enter__(self) -> Consumer[K, V]:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def close(self, timeout_ms: int | None = None) -> None:
        """Stops reading, and leaves the group if this consumer subscribed to one. Idempotent.

        Commits nothing, unless `enable_auto_commit` is on; with `delivery="at_least_once"` not what the last read returned:
        call `commit()` before, if that is processed. A static member (`group_instance_id`) keeps its partitions until
        its session ends, so that it may come back to them. Raises what `on_revoked` raises, when all is closed.

        It takes at most `timeout_ms` (None = `close_timeout_ms`). When the coordinator is away or `on_revoked` takes longer,
        it gives up with a warning in the log: what was not committed is read again, and the session time-out ends the
        membership. With `timeout_ms=0` nothing is waited for.
        """
        self._run(self._inner.close(timeout_ms))

    def unsubscribe(self) -> None:
        """Leaves the group; the other members share what this one read. Raises what `on_revoked` raises. Idempotent."""
        self._run(self._inner.unsubscribe())

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Reads exactly these (topic, partition) pairs from now on; positions of kept ones stay.

        Raises `UnknownTopicError`.
        """
        self._run(self._inner.assign(list(partitions)))

    def assign_topics(self, *topics: str) -> None:
        """Reads all partitions of these topics, also those that are added later. Raises `UnknownTopicError`.

        With a `group_id`, which must be given no topics then, this is how one consumer reads everything and the group only
        keeps its offsets.
        """
        self._run(self._inner.assign_topics(*topics))

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._inner.assignment()

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Returns nothing of these partitions until `resume`."""
        self._call(self._inner.pause, *partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Ends a pause."""
        self._call(self._inner.resume, *partitions)

    def rewind(self, records: Records[K, V]) -> None:
        """Goes back to where these records began: the next read returns them again. For after an aborted transaction.

        A partition whose offset was committed after all is left where it is, so this is also right when the outcome of a
        commit is not known: it waits until that transaction is decided. So is a partition that is no longer this consumer's.
        """
        self._run(self._inner.rewind(records))

    def getmany(self, timeout_ms: int | None = None, max_records: int | None = None) -> Records[K, V]:
        """Up to `max_records` (None = `max_poll_records`) records; waits for the first one, at most `timeout_ms`.

        The list is empty when none came (None = waits without a limit). It knows its `offsets` and `group`, for
        `Transaction.send_offsets`. Raises what makes a partition unreadable, once per try; others are unharmed; and
        `IllegalStateError` when nothing is assigned, after `close`, and, with `delivery="at_least_once"` or "exactly_once",
        while another task reads from this consumer.
        """
        return self._run(self._inner.getmany(timeout_ms, max_records))

    def getone(self, timeout_ms: int | None = None) -> ConsumerRecord[K, V] | None:
        """The next record; None when none came within `timeout_ms`."""
        return self._run(self._inner.getone(timeout_ms))

    def processing(self, record: ConsumerRecord) -> contextlib.AbstractContextManager[None]:
        """`with consumer.processing(record):` gives the work on a record a span, linked to where the record was created.

        With `trace_consumer_parent="message"` it becomes a part of the trace of the record instead: for handlers of
        single messages, and demos. Without tracing it does nothing.
        """
        return self._inner.processing(record)

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
        | Mapping[tuple[str, int], OffsetAndMetadata | int]
        | None = None,
    ) -> None:
        """Commits offsets (None = the positions of all partitions) for the group. Raises the first refusal.

        Offsets of a topic that was created again since they were read are left out, with a warning: they mean nothing in
        the new one. An offset that you wrote down yourself has no topic id, and is taken for one of the topic of today.
        With `delivery="exactly_once"` it raises `IllegalStateError`: transactions commit the offsets.
        """
        self._run(self._inner.commit(offsets))

    def committed(self, *partitions: tuple[str, int]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets; None = none yet. Waits for open transactions that hold one.

        Without arguments all of them, except those of topics that were created again since.
        """
        return self._run(self._inner.committed(*partitions))

    def position(self, partition: tuple[str, int]) -> int:
        """The next offset to return. Looks it up first where none is known."""
        return self._run(self._inner.position(partition))

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Goes on from this offset. Raises `OffsetOutOfRangeError` for a negative one."""
        self._call(self._inner.seek, partition, offset)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Goes to the first record that is kept; without arguments in all partitions."""
        self._run(self._inner.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Goes to the end of what may be read now; without arguments in all partitions."""
        self._run(self._inner.seek_to_end(*partitions))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """Per partition where the first record at or after this time (ms since 1970) is; None = there is none.

        Precise to the batch: the offset is that of the first record of its batch, so some before the time may come first.
        """
        return self._run(self._inner.offsets_for_times(times))

    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """First offset that is kept."""
        return self._run(self._inner.beginning_offsets(list(partitions)))

    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """End of what may be read: last stable offset under read_committed, else high watermark."""
        return self._run(self._inner.end_offsets(list(partitions)))

    def read_arrow(self, timeout_ms: int | None = None, include_headers: bool = False) -> pa.RecordBatch | None:
        """The next rows of one partition as a `pyarrow.RecordBatch`, or None when none came within `timeout_ms`.

        Columns: key, value, timestamp (us, UTC), partition, offset, topic, and on request headers.
        """
        return self._run(self._inner.read_arrow(timeout_ms, include_headers))

    def arrow_batches(self, include_headers: bool = False) -> Iterator[pa.RecordBatch]:
        """`read_arrow` without an end. The fast path: no work per row."""
        return self._each(self._inner.arrow_batches(include_headers))

    def read_range(
        self,
        partition: tuple[str, int],
        start: int,
        end: int,
        include_headers: bool = False,
        timeout_ms: int | None = None,
        topic_id: str = "",
    ) -> Iterator[pa.RecordBatch]:
        """The rows with `start` <= offset < `end` of one partition, as `read_arrow` gives them, expired or not.

        Replaces the assignment. Raises `RequestTimedOutError` when nothing comes for `timeout_ms`, and `UnknownTopicError`
        when the topic was created again: while it is read, or since the caller learned `topic_id`.
        """
        return self._each(self._inner.read_range(partition, start, end, include_headers, timeout_ms, topic_id))

    @property
    def expired_count(self) -> int:
        """How many records were skipped, since their time to live had passed."""
        return self._inner.expired_count


@fills_up
class Worker(WorkerBase[K, V]):
    """A worker of a channel. See `oncelog.Worker`."""

    def start(self) -> Worker[K, V]:
        """Finds or makes the channel, and asks for records. Idempotent; whatever reads does this by itself.

        Raises `UnknownTopicError`, `UnknownChannelError` with `create=False`, and what the controller refuses.
        """
        self._run(self._inner.start())
        return self

    def __enter__(self) -> Worker[K, V]:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    @property
    def in_flight(self) -> int:
        """How many records this worker holds, those included that were not handed out yet."""
        return self._inner.in_flight

    def close(self, timeout_ms: int | None = None) -> None:
        """Waits until everything that was said is confirmed, and gives back what was not handed out. Idempotent.

        What was handed out and not settled comes again too, at once. It takes at most `timeout_ms` (None = `close_timeout_ms`);
        then what is left is given back by the brokers, when they miss the worker.
        """
        self._run(self._inner.close(timeout_ms))


class OnceInLog(OnceInLogBase):
    """See `oncelog.OnceInLog`."""

    def create_topic(self) -> None:
        """Creates the topic that remembers ids, unless it is there. Raises `UnknownTopicError` for a topic that is not."""
        self._run(self._inner.create_topic())

    def __enter__(self) -> OnceInLog:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def close(self) -> None:
        """Leaves the group; a work that is open cannot be committed any more. Idempotent."""
        self._run(self._inner.close())


class Client(ClientBase):
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
        """`bootstrap_servers`: "host:port,host:port", or a list. Raises `ConfigError`. Connects with the first call."""
        super().__init__(
            AsyncClient(
                bootstrap_servers, client_id, transport=transport, clock=clock, random=random, tracer=tracer, **config
            )
        )

    def start(self) -> Client:
        """Looks for the cluster. Raises `ClusterUnreachableError` that says what happened at each address."""
        self._run(self._inner.start())
        return self

    def __enter__(self) -> Client:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def close(self) -> None:
        """Closes what is still open of its producers and consumers, then the connections. Idempotent: a further call waits for
        the same.

        What it made, and `admin`, raise `IllegalStateError` from then on. Raises the first failure of a producer that no
        caller has seen, when all is closed. A Ctrl-C closes the rest without waiting for what is on its way.
        """
        self._run(self._inner.close())

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty before the first answer."""
        return self._inner.cluster_id

    @property
    def tracer(self) -> Tracer | None:
        """Makes this client's spans (`oncelog.trace.tracing`); None: it is not traced."""
        return self._inner.tracer

    def producer(self, **config: Unpack[ProducerOptions[SentKey, SentValue]]) -> Producer[SentKey, SentValue]:
        """A producer; see `ProducerConfig` for its options. Raises `ConfigError`, and `IllegalStateError` after `close`."""
        return Producer(self._call(self._inner.producer, **config), self._thread)

    def consumer(
        self, *topics: str, **config: Unpack[ConsumerOptions[ReadKey, ReadValue]]
    ) -> Consumer[ReadKey, ReadValue]:
        """A consumer of these topics: of all their partitions, or, with a `group_id`, of its share among the group's members.

        Topics with a `group_id` are subscribed to, as in Kafka's clients. Without topics it reads what you `assign` or
        `subscribe` to: `consumer(group_id=...)` and `assign_topics` read everything, and the group only keeps the offsets.
        See `ConsumerConfig` for its options: read_committed is the default (unlike Kafka's Java client). Raises `ConfigError`,
        and `IllegalStateError` after `close`.
        """
        return Consumer(self._call(self._inner.consumer, *topics, **config), self._thread)

    def worker(
        self, topic: str, *, channel: str, **config: Unpack[WorkerOptions[ReadKey, ReadValue]]
    ) -> Worker[ReadKey, ReadValue]:
        """A worker of a channel of this topic: the channel's workers share its records, record by record.

        See `WorkerConfig` for its options. The channel is made with the first read when it is not there, unless `create=False`.
        Its name is 1 to 64 characters of `[a-zA-Z0-9._-]`. Raises `ConfigError`, `InvalidTopicError`,
        `InvalidRequestError` for a name that is none, and `IllegalStateError` after `close`.
        """
        return Worker(self._call(self._inner.worker, topic, channel=channel, **config), self._thread)

    def once(
        self,
        *topics: str,
        group_id: str,
        id_header: str = "",
        ids_topic: str = "",
        remember_ids_ms: int = REMEMBER_IDS_MS,
        reading: ConsumerOptions[Any, Any] | None = None,
        writing: ProducerOptions[Any, Any] | None = None,
    ) -> OnceInLog:
        """Has the work of each record of these topics done once, where the log itself remembers what was done.

        What the work sends, the record's offset and its id are committed in one transaction, by as many instances as you start
        under one `group_id`. `id_header`: the header that holds a record's own id; then a record that was sent twice, to the
        same partition, is done once, when the second copy comes within `remember_ids_ms` (7 days). The ids are kept in
        `ids_topic` (the group's name and "-once-ids"), which `create_topic` makes.

        `reading` and `writing` are options of the consumer and the producer; `auto_offset_reset` is "earliest" here, and
        `transaction_timeout_ms` 10 s. Raises `ConfigError`. See docs/once.md.
        """
        return OnceInLog(
            self._call(
                self._inner.once,
                *topics,
                group_id=group_id,
                id_header=id_header,
                ids_topic=ids_topic,
                remember_ids_ms=remember_ids_ms,
                reading=reading,
                writing=writing,
            ),
            self._thread,
        )

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
        """Joins the open transaction of a batch as one of its writers (a Spark task); see `Participant`.

        `config` are a producer's options. Raises `ProducerFencedError`, `BatchRolledBackError`, `TxnEndedError`.
        """
        return Participant(
            self._run(
                self._inner.join_transaction(
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
            ),
            self._thread,
        )

    def commit_transaction(
        self,
        transactional_id: str,
        owner_run: str,
        app_id: str,
        batch_id: int,
        txn_no: int,
        winners: Sequence[ParticipantResult],
        *,
        write_attempt: str = "",
        wait: str = "decided",
        timeout_ms: int | None = None,
        token_expires: bool = False,
    ) -> BatchCommit:
        """Commits what the winners wrote, with the batch's token, in one decision; see `Batches.commit`.

        The token is kept for good, and the transactional id with it. `token_expires`: no job ever writes this batch again,
        since the id was made for one job, so both go when the id has not been used for long. An `app_id` that has
        committed a batch without it keeps its token for good all the same.
        """
        return self._run(
            self._inner.commit_transaction(
                transactional_id,
                owner_run,
                app_id,
                batch_id,
                txn_no,
                winners,
                write_attempt=write_attempt,
                wait=wait,
                timeout_ms=timeout_ms,
                token_expires=token_expires,
            )
        )

    def abort_transaction(
        self,
        transactional_id: str,
        owner_run: str,
        app_id: str,
        batch_id: int,
        txn_no: int,
        *,
        session_token: bytes = b"",
        timeout_ms: int | None = None,
    ) -> bool:
        """Aborts what is open under this name. False: nothing was. `session_token`: of any `ParticipantResult` of it."""
        return self._run(
            self._inner.abort_transaction(
                transactional_id,
                owner_run,
                app_id,
                batch_id,
                txn_no,
                session_token=session_token,
                timeout_ms=timeout_ms,
            )
        )

    def get_outcome(self, transactional_id: str, txn_no: int) -> TransactionOutcome:
        """Returns the outcome of a transaction. Raises `OutcomeForgottenError` when that is no longer kept, never guesses."""
        return self._run(self._inner.get_outcome(transactional_id, txn_no))
