"""Many writers, one transaction: what each Spark task and the driver do.

A task joins the open transaction of its micro-batch as a participant, with a producer id of its own, writes, flushes,
and hands its result to the driver. The driver commits the winners in one call; all other data aborts with the
same decision.

Rule 1: join, renew, commit and abort may be repeated; commit and abort name the transaction that join returned.
Rule 2: a join of a batch whose token is committed says `already_committed`: write nothing, hand in no winner.
Rule 3: while a participant is open it renews the lease; what ends the transaction stops its writes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic

from oncelog import errors
from oncelog.client.home.closing import Closing
from oncelog.client.home.context import Context
from oncelog.client.home.stays_here import StaysHere
from oncelog.client.produce.delivery import BatchDelivery, Delivery
from oncelog.client.produce.handover import Handover
from oncelog.client.produce.observer import TransactionObserver
from oncelog.client.produce.send_trace import transaction_observer_of
from oncelog.client.produce.sender import Sender
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.client.produce.transactions.txn_names import end_wait, name_of
from oncelog.client.produce.writer import Message, Writer
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.config import ProducerConfig
from oncelog.core.batch.identity import Identity, believed
from oncelog.core.names import check_transactional_id
from oncelog.trace import span_names
from oncelog.trace.transaction_span import Scope
from oncelog.v1 import coordinator_pb2 as co
from oncelog.value_types import NULL, Headers, Key, Value, fills_up
from oncelog.wire import methods

_CLOSED = "the participant is closed: join the transaction again to write"


@dataclass(frozen=True, slots=True)
class ParticipantResult:
    """The records that a participant wrote; plain values, so it can be pickled into a commit message.

    `counts` are (topic id, partition, acknowledged records). `session_token` is a secret: the driver shows it with its commit
    or abort.
    """

    txn_no: int
    producer_id: int
    rows: int
    counts: tuple[tuple[str, int, int], ...]
    session_token: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """The answer to a commit of a batch. `committed_rows` are those of the committed token."""

    already_committed: bool
    committed_rows: int
    txn_no: int


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """Says what a participant joins, and how. `lease_ms`: idle time after which the transaction aborts; `max_duration_ms`: hard
    cap; 0 = the coordinator's default. `task_attempt` is for logs alone.
    """

    batch: SharedBatch
    task_attempt: str = ""
    lease_ms: int = 60_000
    max_duration_ms: int = 0


@fills_up
class Participant(StaysHere, Generic[Key, Value]):
    """See the module. Made by `Client.join_transaction(...)`; use it with `async with`, and `flush` before you leave."""

    def __init__(
        self, context: Context, metadata: Metadata, caller: Caller, config: ProducerConfig, options: JoinOptions
    ) -> None:
        check_transactional_id(options.batch.transactional_id)
        self.options = options
        """The transaction that was joined, by its names."""
        self.already_committed = False
        """True after `join`: the batch is committed, so write nothing and hand in no result."""
        self.committed_rows = 0
        """How many rows were committed, if `already_committed`."""
        self._context = context
        self._metadata = metadata
        self._caller = caller
        self._sender = Sender(context, metadata, caller, config, None)
        self._writer = Writer(context, metadata, config, self._sender)
        self._identity: Identity | None = None
        self._closing = Closing(context.home)
        self._renewing: asyncio.Task[None] | None = None
        self._observer: TransactionObserver | Scope = TransactionObserver()

    # ------------------------------------------------------------ life

    async def join(self) -> Participant[Key, Value]:
        """Joins; look at `already_committed` before you write. A second call joins again, and takes over the renewing.

        Raises `ProducerFencedError` (a newer run owns the id), `BatchRolledBackError`, `TxnEndedError`, and
        `IllegalStateError` when it is closed meanwhile.
        """
        self._observer = transaction_observer_of(self._context, span_names.TXN_PARTICIPANT)
        try:
            with self._observer.inside():
                return await self._join()
        except BaseException as error:
            self._observer.end(error)
            raise

    async def _join(self) -> Participant[Key, Value]:
        options, batch = self.options, self.options.batch
        request = co.JoinTransactionRequest(
            transactional_id=batch.transactional_id,
            owner_run=batch.owner_run,
            token=_token_of(batch),
            write_attempt=batch.write_attempt,
            task_attempt=options.task_attempt,
            lease_ms=options.lease_ms,
            max_duration_ms=options.max_duration_ms,
        )
        reply = await self._caller.to_txn_coordinator(batch.transactional_id, methods.JOIN_TRANSACTION, request)
        if self._closing.is_begun:  # it would renew the lease without end: it is not closed once more
            raise errors.IllegalStateError(_CLOSED)
        self.already_committed = reply.already_committed
        self.committed_rows = reply.committed_rows
        if not reply.already_committed:
            self._identity = believed(
                Identity(
                    producer_id=reply.producer_id,
                    producer_epoch=reply.producer_epoch,
                    txn_producer_id=reply.txn_producer_id,
                    txn_no=reply.txn_no,
                    txn_shard=reply.txn_shard,
                    transactional_id=batch.transactional_id,
                    session_token=reply.session_token,
                )
            )
            self._sender.reset(self._identity, errors.TxnEndedError("the participant has left"))
            self._observer.named(self._identity)
            self._sender.observer.belong_to(self._observer.parent)
            if self._renewing is not None:
                self._renewing.cancel()
            if options.lease_ms > 0:
                self._renewing = asyncio.get_running_loop().create_task(self._renew_for_ever(), name="oncelog-renew")
        return self

    async def __aenter__(self) -> Participant[Key, Value]:
        return self if self._identity is not None or self.already_committed else await self.join()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        """True from `close` on."""
        return self._closing.is_begun

    async def close(self) -> None:
        """Stops renewing and drops what was not flushed; the transaction itself stays as it is. Idempotent."""
        await self._closing.once(self._close)

    async def _close(self) -> None:
        self._sender.drop(errors.IllegalStateError(_CLOSED))
        self._sender.end()
        acked = self._sender.deliveries.acked
        self._observer.end(self._sender.deliveries.failure, partitions=len(acked), rows=sum(acked.values()))
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing.cancel()
            await asyncio.wait((renewing,))

    # ------------------------------------------------------------ writing

    @property
    def txn_no(self) -> int:
        """Number of the transaction that was joined; 0 when its batch is committed already."""
        return 0 if self.already_committed else self._joined().txn_no

    @property
    def session_token(self) -> bytes:
        """A secret that shows that the one who aborts has joined; empty when nothing was joined."""
        return self._identity.session_token if self._identity is not None else b""

    @property
    def producer_id(self) -> int:
        """This participant's own producer id."""
        return self._joined().producer_id

    async def send(
        self,
        topic: str,
        value: Value = NULL,
        key: Key = NULL,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        ttl_ms: int | None = None,
    ) -> Delivery:
        """As `Producer.send`, inside the joined transaction."""
        self._joined()
        return await self._writer.send(topic, value, key, partition, timestamp_ms, headers, ttl_ms)

    def handover(self) -> Handover:
        """For `oncelog.sync`: takes single records from other threads once the transaction is joined."""
        return Handover(self._writer, self._sender, self._metadata, lambda: self._identity is not None, self._joined)

    async def send_many(
        self, topic: str, rows: Iterable[Value | tuple[Key, Value] | Message[Key, Value]]
    ) -> BatchDelivery:
        """As `Producer.send_many`, inside the joined transaction."""
        self._joined()
        return await self._writer.send_many(topic, rows)

    async def send_batch(self, topic: str, data: Any, partition: int | None = None) -> BatchDelivery:
        """As `Producer.send_batch`, inside the joined transaction."""
        self._joined()
        return await self._writer.send_batch(topic, data, partition)

    async def flush(self) -> ParticipantResult:
        """Waits for every acknowledgement; what to hand to the driver. Raises the first failure, and `IllegalStateError` after
        `close`: its lease runs out.
        """
        identity = self._joined()
        self._context.home.check()
        if self._closing.is_begun:
            raise errors.IllegalStateError(_CLOSED)
        await self._sender.flush()
        if self._sender.deliveries.failure is not None:
            raise self._sender.deliveries.failure.with_traceback(None)  # each flush raises it: it must not grow
        counts = tuple(
            (p.topic_id, p.partition, records) for p, records in sorted(self._sender.deliveries.acked.items())
        )
        rows = sum(records for _, _, records in counts)
        return ParticipantResult(identity.txn_no, identity.producer_id, rows, counts, identity.session_token)

    def _joined(self) -> Identity:
        if self._identity is None:
            said = "its batch is committed already: write nothing" if self.already_committed else "join() it first"
            raise errors.IllegalStateError(f"the participant writes nothing: {said}")
        return self._identity

    # ------------------------------------------------------------ lease

    async def renew(self) -> None:
        """Keeps the transaction alive. Raises `TxnEndedError`, `TxnAbortedError` or `ProducerFencedError` when it has ended."""
        who = self._joined()
        request = co.RenewTransactionRequest(name=name_of(who), owner_run=self.options.batch.owner_run)
        lease_ms = self.options.lease_ms
        await self._caller.to_txn_coordinator(
            who.transactional_id, methods.RENEW_TRANSACTION, request, lease_ms or None
        )

    async def _renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.options.lease_ms / 3000)
            try:
                await self.renew()
            except errors.OncelogError as error:
                if not error.retriable:
                    self._sender.fail(error)
                    return


class Batches:
    """The driver's side: commits or aborts a batch that participants wrote."""

    def __init__(self, context: Context, caller: Caller) -> None:
        self._context = context
        self._caller = caller

    async def commit(
        self,
        batch: SharedBatch,
        txn_no: int,
        winners: Sequence[ParticipantResult],
        *,
        wait: str = "decided",
        timeout_ms: int | None = None,
    ) -> BatchCommit:
        """Commits the winners' data and the token in one decision; `txn_no` 0: a batch that no participant joined.

        `wait` is as in `Transaction.commit`: "visible" gives up the markers, and not the commit, after half of the time.

        Asks until the answer is definite. Raises `ProducerFencedError`, `UnknownParticipantError`, `TxnAbortedError`,
        `BatchRolledBackError`, or `CommitOutcomeUnknownError` at the deadline, or when the client is closed meanwhile
        (repeat it: it is idempotent).
        """
        request = co.CommitTransactionRequest(
            transactional_id=check_transactional_id(batch.transactional_id),
            owner_run=batch.owner_run,
            txn_no=txn_no,
            token=_token_of(batch),
            winners=_winners(winners),
            wait=end_wait(wait),
            write_attempt=batch.write_attempt,
            session_token=next((result.session_token for result in winners), b""),
        )
        with self._traced(span_names.TXN_COMMIT, batch.transactional_id, txn_no):
            reply = await self._caller.end_at_txn_coordinator(
                batch.transactional_id, methods.COMMIT_TRANSACTION, request, timeout_ms
            )
        return BatchCommit(reply.already_committed, reply.committed_rows, reply.txn_no)

    async def abort(
        self,
        batch: SharedBatch,
        txn_no: int,
        *,
        session_token: bytes = b"",
        timeout_ms: int | None = None,
    ) -> bool:
        """Aborts what is open under this name. False: nothing was."""
        request = co.AbortTransactionRequest(
            transactional_id=check_transactional_id(batch.transactional_id),
            owner_run=batch.owner_run,
            txn_no=txn_no,
            token=_token_of(batch),
            session_token=session_token,
        )
        with self._traced(span_names.TXN_ABORT, batch.transactional_id, txn_no):
            reply = await self._caller.to_txn_coordinator(
                batch.transactional_id, methods.ABORT_TRANSACTION, request, timeout_ms
            )
        return bool(reply.aborted)

    @contextlib.contextmanager
    def _traced(self, name: str, transactional_id: str, txn_no: int) -> Iterator[None]:
        observer = transaction_observer_of(self._context, name)
        observer.named(Identity(transactional_id=transactional_id, txn_no=txn_no))
        try:
            with observer.inside():
                yield
        except BaseException as error:
            observer.end(error)
            raise
        observer.end(outcome="committed" if name == span_names.TXN_COMMIT else "aborted")


def _token_of(batch: SharedBatch) -> co.CommitToken:
    return co.CommitToken(app_id=batch.app_id, batch_id=batch.batch_id, expires=batch.token_expires)


def _winners(results: Sequence[ParticipantResult]) -> list[co.Winner]:
    """The first one carries the records of all, which the coordinator adds up anyway: a count for each writer and partition
    would make the commit of a large job longer than any message.
    """
    total: dict[tuple[str, int], int] = {}
    for result in results:
        for topic_id, partition, records in result.counts:
            total[topic_id, partition] = total.get((topic_id, partition), 0) + records
    winners = [co.Winner(producer_id=result.producer_id, rows=result.rows) for result in results]
    for (topic_id, partition), records in sorted(total.items()):
        winners[0].counts.add(topic_id=topic_id, partition=partition, records=records)
    return winners
