"""Reads a batch as a member of a group, works on it, and commits outputs and offsets in one transaction; then the next one.

Rule 1: the work is done before the transaction begins, so a slow function keeps no transaction open, and a batch is decided
        before the next read. Partitions change hands in a read, where nothing is open.
Rule 2: the offsets are committed in the name of the membership under which the batch was read. The group's coordinator refuses
        them when the partition is another member's by now; then the transaction is aborted, also that of a process that was
        frozen for an hour. So one transactional id for each process is enough (KIP-447), and it may be a new one each time.
Rule 3: the new owner of a partition asks for its committed offset, and is answered when no transaction is open that holds one.
Rule 4: after any failure the producer is thrown away, the next one takes its name (which ends what is open there), and the
        position goes back to what is committed. So it does not matter whether a failed commit has come about.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from oncelog import errors
from oncelog.client.consume.consumer import Consumer
from oncelog.client.consume.fetched_records import Records
from oncelog.client.process.failures import can_go_on
from oncelog.client.process.work import Output, Work, failing_at
from oncelog.client.produce.producer import Producer
from oncelog.client.produce.transactions.transaction import Transaction
from oncelog.core.causes import because

T = TypeVar("T")
_log = logging.getLogger(__name__)
_LOOK_MS: Final = 200
"""How often it looks whether to stop while there is nothing to read."""
_ABORT_MS: Final = 2_000
"""How long an abort is waited for; the next producer of the name ends what is left open."""
_ABOUT_THE_RECORD: Final = (
    errors.InvalidRecordError,
    errors.InvalidTimestampError,
    errors.MessageTooLargeError,
    errors.RecordListTooLargeError,
)


class Stop(Protocol):
    """An `asyncio.Event` or a `threading.Event`."""

    def is_set(self) -> bool:
        """True: stop after the batch that is worked on."""
        ...


@dataclass(slots=True)
class Processed:
    """The counts of one call of `process` or `process_batches`."""

    records: int = 0
    """Inputs whose offsets are committed."""
    outputs: int = 0
    """Records written because of them."""
    transactions: int = 0
    failures: int = 0
    """How often something failed and was tried again: batches, reads."""


class Processor:
    """See the module. `new_producer` makes a producer that always has the same transactional id."""

    def __init__(
        self,
        consumer: Consumer,
        new_producer: Callable[[], Producer],
        to: str,
        work: Work,
        stop: Stop | None,
        pause: Callable[[int], Awaitable[None]],
    ) -> None:
        self._consumer = consumer
        self._new_producer = new_producer
        self._to = to
        self._work = work
        self._stop = stop
        self._pause = pause
        self._producer: Producer | None = None
        self._is_static = bool(consumer.config.group_instance_id)
        self._failed = 0
        self._done = Processed()

    async def run(self) -> Processed:
        """Works until it is to stop. Raises `ProcessingError`, and errors that only the caller can solve."""
        async with self._consumer:
            try:
                await self._keep_trying(self._started)  # before the first read: it ends what a static member left open
                while not self._is_stopped:
                    records = await self._keep_trying(self._read)
                    if records:
                        await self._handle(records)
            finally:
                await self._drop_producer()
        return self._done

    @property
    def _is_stopped(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    async def _read(self) -> Records:
        return await self._consumer.getmany(timeout_ms=_LOOK_MS)

    # ------------------------------------------------------------ one batch

    async def _handle(self, records: Records) -> None:
        made = await self._work(records)
        try:
            await self._commit(records, made)
        except errors.OncelogError as error:
            await self._recover(records, error)
            return
        self._failed = 0
        self._done.records += len(records)
        self._done.outputs += len(made)
        self._done.transactions += 1

    async def _commit(self, records: Records, made: list[Output]) -> None:
        producer = await self._started()
        async with producer.transaction() as txn:
            for output in made:
                await self._send(txn, output)
            try:
                await txn.send_offsets(records)
            except errors.UnknownTopicError as error:  # not the caller's mistake here: an input topic was created again
                again = errors.TransactionAbortableError("a topic was created again since this batch of it was read")
                raise because(again, error) from error

    async def _send(self, txn: Transaction, output: Output) -> None:
        value, key, headers, partition, timestamp_ms, ttl_ms = output.message
        try:
            await txn.send(self._to, value, key, partition, timestamp_ms, headers, ttl_ms)
        except Exception as error:  # also of a serializer or a partitioner
            if isinstance(error, errors.OncelogError) and not isinstance(error, _ABOUT_THE_RECORD):
                raise
            with failing_at(output.record):
                raise

    # ------------------------------------------------------------ failures

    async def _recover(self, records: Records, error: errors.OncelogError) -> None:
        """Rule 4. Raises the error when it is the caller's to solve."""
        await self._failure(error, f"a batch of {len(records)} records was not committed")
        await self._drop_producer()
        await self._keep_trying(lambda: self._rewind(records))

    async def _rewind(self, records: Records) -> None:
        await self._started()
        await self._consumer.rewind(records)

    async def _keep_trying(self, step: Callable[[], Awaitable[T]]) -> T | None:
        """The step's result; None when it is to stop instead. Raises what is the caller's to solve."""
        while True:
            try:
                return await step()
            except errors.OncelogError as error:
                await self._failure(error, "the cluster did not serve this member")
            if self._is_stopped:
                return None

    async def _failure(self, error: errors.OncelogError, what: str) -> None:
        if not can_go_on(error, self._is_static):
            raise error
        self._failed += 1
        self._done.failures += 1
        _log.warning("%s, and is tried again: %s", what, error)
        await self._pause(self._failed)

    async def _started(self) -> Producer:
        if self._producer is None:
            self._producer = self._new_producer()
        return await self._producer.start()

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(errors.OncelogError):
                await producer.close(_ABORT_MS)
