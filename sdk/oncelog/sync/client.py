"""Client without `await` (see `oncelog.sync`).

Written by scripts/gen_sync.py from the asynchronous classes; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from oncelog.client.client import Client as AsyncClient
from oncelog.client.client import TransactionOutcome
from oncelog.client.once.log_options import REMEMBER_IDS_MS
from oncelog.client.produce.transactions.participant import BatchCommit, ParticipantResult
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.ports import Transport, WallClock
from oncelog.sync.by_hand import ClientBase
from oncelog.sync.consumer import Consumer
from oncelog.sync.once_in_log import OnceInLog
from oncelog.sync.participant import Participant
from oncelog.sync.producer import Producer
from oncelog.sync.worker import Worker
from oncelog.trace.tracing import Tracer

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
        return Participant(
            self._run(
                self._inner.join_transaction(
                    batch, task_attempt=task_attempt, lease_ms=lease_ms, max_duration_ms=max_duration_ms, **config
                )
            ),
            self._thread,
        )

    def commit_transaction(
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
        return self._run(self._inner.commit_transaction(batch, txn_no, winners, wait=wait, timeout_ms=timeout_ms))

    def abort_transaction(
        self, batch: SharedBatch, txn_no: int, *, session_token: bytes = b"", timeout_ms: int | None = None
    ) -> bool:
        """Aborts what is open under this name. False: nothing was. `session_token`: of any `ParticipantResult` of it."""
        return self._run(
            self._inner.abort_transaction(batch, txn_no, session_token=session_token, timeout_ms=timeout_ms)
        )

    def get_outcome(self, transactional_id: str, txn_no: int) -> TransactionOutcome:
        """Returns the outcome of a transaction. Raises `OutcomeForgottenError` when that is no longer kept, never guesses."""
        return self._run(self._inner.get_outcome(transactional_id, txn_no))
