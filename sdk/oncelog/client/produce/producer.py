"""Writes records: idempotent by default, transactional with a `transactional_id`.

Rule 1: `send` waits for room, not for the acknowledgement; `flush` and `close` raise the first failure that no caller awaited.
Rule 2: the start of a transactional producer fences the former one with the same transactional id.
Rule 3: one transaction is open at a time; the next may begin as soon as the last one is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Generic

from oncelog import errors
from oncelog.client.home.closing import Closing
from oncelog.client.home.context import Context, now_ms
from oncelog.client.home.made_by_client import refuse_direct
from oncelog.client.home.stays_here import StaysHere
from oncelog.client.produce import unclosed
from oncelog.client.produce.delivery import BatchDelivery, Delivery, RecordMetadata
from oncelog.client.produce.handover import Handover
from oncelog.client.produce.sender import Sender
from oncelog.client.produce.transactions.transaction import Transaction
from oncelog.client.produce.writer import Message, Writer
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.delayed import DelayedRecords
from oncelog.client.routing.metadata import Metadata
from oncelog.config import ProducerConfig
from oncelog.core.batch.identity import NOBODY, Identity, believed
from oncelog.core.causes import again, because
from oncelog.core.names import check_transactional_id
from oncelog.core.produce.accumulator import Batch
from oncelog.core.produce.transaction import TransactionState
from oncelog.v1 import coordinator_pb2 as co
from oncelog.value_types import NULL, Headers, Key, Value, fills_up
from oncelog.wire import methods


# It has some 30 methods because most of them are its API, of one or two lines each.
@fills_up
class Producer(StaysHere, Generic[Key, Value]):
    """See the module. Made by `Client.producer(...)`; use it with `async with`."""

    def __new__(cls, *given: object, **options: object) -> Producer[Key, Value]:
        """Raises `TypeError` that says how it is made."""
        refuse_direct(Context, "oncelog.Client", "producer", given, options)
        return super().__new__(cls)

    def __init__(self, context: Context, metadata: Metadata, caller: Caller, config: ProducerConfig) -> None:
        self.config = config
        """The options, checked."""
        self._context = context
        self._metadata = metadata
        self._caller = caller
        if config.transactional_id is not None:
            check_transactional_id(config.transactional_id)
        renew = self._init_producer_id if config.transactional_id is None else None
        self._sender = Sender(context, metadata, caller, config, renew)
        self._writer = Writer(context, metadata, config, self._sender)
        self._delayed = DelayedRecords(context, metadata, caller)
        self._session: Identity | None = None
        self._starting = asyncio.Lock()
        self._next_txn_no = 0
        self._current: Transaction | None = None
        self._fatal: errors.OncelogError | None = None
        self._closing = Closing(context.home)
        self.watched_in = 0
        """Id of the process in which something is said if this is never closed; 0: in none (`unclosed`)."""

    # ------------------------------------------------------------ life

    async def start(self) -> Producer[Key, Value]:
        """Gets the producer id; for a transactional producer this fences its predecessor. Idempotent.

        Raises `ProducerFencedError`, `ClusterUnreachableError`, or what refused the transactional id.
        """
        self._context.home.check()
        self._check_not_closed()
        async with self._starting:  # two sessions of one producer would fence each other
            if self.config.transactional_id is not None:
                if self._session is None:
                    self._session = await self._init_producer_id()
            elif self.config.enable_idempotence and self._sender.deliveries.identities.current is None:
                self._sender.deliveries.identities.current = await self._init_producer_id()
        return self

    async def __aenter__(self) -> Producer[Key, Value]:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except errors.OncelogError:
            if error is None:
                raise

    @property
    def is_closed(self) -> bool:
        """True from `close` on."""
        return self._closing.is_begun

    @property
    def is_started(self) -> bool:
        """True once it has a producer id."""
        return self._session is not None or self._sender.deliveries.identities.current not in (None, NOBODY)

    def __repr__(self) -> str:
        name = "" if self.config.transactional_id is None else f", transactional_id={self.config.transactional_id!r}"
        return f"Producer(client_id={self._context.config.client_id!r}{name})"

    def __del__(self) -> None:
        if getattr(self, "watched_in", 0):
            unclosed.forgotten(self)

    def open_batches(self) -> list[Batch]:
        """For `oncelog.client.produce.unclosed`: what is queued or under way."""
        return list(self._sender.deliveries.open)

    def unfinished(self) -> unclosed.Unfinished:
        """For `oncelog.client.produce.unclosed`: how many records would be lost if this producer vanished now."""
        batches = self.open_batches()
        unsent = sum(batch.record_count for batch in batches if batch.attempt.tries == 0)
        unanswered = sum(batch.record_count for batch in batches if batch.attempt.tries > 0)
        uncommitted = sum(self._sender.deliveries.acked.values()) if self._current is not None else 0
        return unclosed.Unfinished(unsent, unanswered, uncommitted)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Aborts an open transaction, waits for what is on its way, at most `timeout_ms` (None = `close_timeout_ms`).

        Nothing is taken from now on. Raises the first failure that no caller awaited. Idempotent: a further call waits for the
        same close. A cancellation drops what is still on its way. With `timeout_ms=0` nothing is asked for or waited for: an
        open transaction is not aborted, its time-out or the next producer of its transactional id does that.
        """
        patience_ms = self._context.config.close_timeout_ms if timeout_ms is None else timeout_ms
        await self._closing.once(partial(self._close, patience_ms))
        self._raise_unseen()

    async def _drop(self) -> None:
        """For a client whose close was cancelled: as `close(timeout_ms=0)`, but the next `close` raises the failure."""
        await self._closing.once(partial(self._close, 0))

    async def _close(self, timeout_ms: int) -> None:
        try:
            deadline_ms = now_ms() + timeout_ms
            if self._current is not None:
                await self._current._leave(timeout_ms)
            await self._sender.close(max(0, deadline_ms - now_ms()))
        finally:
            self._sender.end()

    def _raise_unseen(self) -> None:
        failure = self._sender.deliveries.failures.take()
        if failure is not None and self.config.transactional_id is None:
            raise failure.with_traceback(None)  # its delivery raises it as well: it must not grow

    # ------------------------------------------------------------ writing

    async def send(
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
        """Queues one record and returns at once, or when there is room.

        `await` the result for its `RecordMetadata`. Without `partition` the key decides, or any partition takes it.
        `timestamp_ms` None = now. After `ttl_ms` readers skip the record (docs/channels.md). `deliver_at` (a
        `timedelta` from now, a time with its zone, or milliseconds since 1970): every reader sees the record then and not
        before, up to a year from now, and its time to live begins then; the result names where it waits, for
        `admin.cancel_delayed`.

        Raises `UnknownTopicError`, `InvalidTopicError`, `MessageTooLargeError`, `InvalidRecordError`, `InvalidTimestampError`,
        `InvalidDelayError`, `BufferExhaustedError` after `max_block_ms`; later failures come from the result.
        """
        self._check_plain()
        if deliver_at is not None:
            topic, timestamp_ms, ttl_ms = await self._delayed.place(topic, deliver_at, ttl_ms)
        return await self._writer.send(topic, value, key, partition, timestamp_ms, headers, ttl_ms)

    async def send_and_wait(
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
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers, ttl_ms))

    async def send_many(
        self, topic: str, rows: Iterable[Value | tuple[Key, Value] | Message[Key, Value]]
    ) -> BatchDelivery:
        """Queues many records: values, `(key, value)` pairs (a named tuple is a value), or `Message`s. Raises as `send`,
        and `TypeError` for one record that is not in a list.
        """
        self._check_plain()
        return await self._writer.send_many(topic, rows)

    async def send_batch(self, topic: str, data: Any, partition: int | None = None) -> BatchDelivery:
        """Queues Arrow data (`RecordBatch` or `Table`) without work per row: columns `value`, and optionally `key`
        (binary or text), `timestamp` (Arrow timestamp or milliseconds), `headers`, `partition`. Raises as `send`.
        """
        self._check_plain()
        return await self._writer.send_batch(topic, data, partition)

    async def flush(self) -> None:
        """Waits until everything sent so far is acknowledged. Raises the first failure that no caller awaited."""
        self._context.home.check()
        await self._sender.flush()
        self._raise_unseen()

    def handover(self) -> Handover:
        """For `oncelog.sync`: takes single records from other threads."""
        return Handover(self._writer, self._sender, self._metadata, lambda: True, self._check_plain)

    def _check_not_closed(self) -> None:
        if self._closing.is_begun:
            raise errors.IllegalStateError("the producer is closed: make another one with client.producer(...)")

    def _check_plain(self) -> None:
        if self.config.transactional_id is not None:
            raise errors.IllegalStateError("a transactional producer writes inside a transaction: use transaction()")

    # ------------------------------------------------------------ transactions

    def transaction(self) -> Transaction[Key, Value]:
        """A new transaction: `async with producer.transaction() as txn:`. Raises `IllegalStateError`."""
        if self.config.transactional_id is None:
            raise errors.IllegalStateError("transactions need a producer with a transactional_id")
        return Transaction(self, self._context, self._metadata, self._caller, self._sender)

    async def begin_transaction(self) -> Transaction[Key, Value]:
        """`transaction()`, begun; end it with `commit` or `abort`."""
        return await self.transaction().begin()

    async def _take_turn(self, transaction: Transaction) -> Identity:
        """The identity of the next transaction."""
        if self._fatal is not None:
            raise again(self._fatal)
        await self.start()
        assert self._session is not None
        before = self._current
        if before is not None and before.state is TransactionState.ABORTING:
            await before.abort()
            before = self._current
        if before is not None:
            raise _still_there(before)
        self._check_not_closed()  # it may have been meanwhile
        self._current = transaction
        return self._session._replace(txn_no=self._next_txn_no)

    def _transaction_over(self, transaction: Transaction, fatal: errors.OncelogError | None) -> None:
        """Called by the transaction when it is decided, or its session is fenced."""
        assert transaction is self._current
        self._current = None
        self._fatal = self._fatal or fatal
        if transaction._begun().is_touched:
            self._next_txn_no += 1

    async def _init_producer_id(self) -> Identity:
        transactional_id = self.config.transactional_id
        request = co.InitProducerIdRequest(nonce=self._context.nonce())
        if transactional_id is None:
            reply = await self._caller.to_any_coordinator(methods.INIT_PRODUCER_ID, request)
            return believed(Identity(reply.producer_id, reply.producer_epoch, session_token=reply.session_token))
        request.transactional_id = transactional_id
        request.transaction_timeout_ms = self.config.transaction_timeout_ms
        reply = await self._caller.to_txn_coordinator(transactional_id, methods.INIT_PRODUCER_ID, request)
        identity = believed(
            Identity(
                producer_id=reply.producer_id,
                producer_epoch=reply.producer_epoch,
                txn_producer_id=reply.producer_id,
                txn_no=reply.next_txn_no,
                txn_shard=reply.txn_shard,
                transactional_id=transactional_id,
                session_token=reply.session_token,
            )
        )
        self._next_txn_no = identity.txn_no
        return identity


def _still_there(before: Transaction) -> errors.OncelogError:
    """Why no transaction can follow this one: what ended the producer for good, else what its caller has to end first."""
    first = before.error
    if first is not None and first.fatal:
        return again(first)
    why = "" if first is None else f"; the first reason: {first}"
    message = f"another transaction of this producer comes first: {before.what_to_do}{why}"
    return because(errors.IllegalStateError(message, state=before.state.value), first)
