"""Has the work of each record of a group done once where there is no database: the log itself remembers what was done.

Rule 1: this object reads, so that it knows under which membership each record was read, and partitions change hands only
        between two works. `oncelog.core.once.holding` says why nothing of a worker that lost a partition counts.
Rule 2: after a failure the producer is thrown away, and the next one takes its name, which ends what is open there.
Rule 3: a record whose work was not committed comes again, before any other record of its partition.
Rule 4: what the cluster may get over while a record is fetched or claimed is logged and tried again; what happens in the
        caller's block is raised there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol

from oncelog import errors
from oncelog.client.consume.consumer import Consumer
from oncelog.client.consume.fetched_records import ConsumerRecord, Records
from oncelog.client.consume.offsets import NO_EPOCH, GroupMetadata, OffsetAndMetadata
from oncelog.client.home.context import Context
from oncelog.client.home.stays_here import StaysHere
from oncelog.client.once.id_topic import IdTopic
from oncelog.client.once.log_work import LogWork, Output
from oncelog.client.once.refusals import WorkFencedError
from oncelog.core.once.holding import (
    Begin,
    Claim,
    Copy,
    Done,
    Holding,
    Kept,
    Look,
    Membership,
    Met,
    ReadBack,
    fencing_of,
)
from oncelog.types import TopicPartition

_log = logging.getLogger(__name__)
_LOOK_MS: Final = 1_000
"""How often it looks whether it was closed while there is nothing to read."""
_ABORT_MS: Final = 2_000
"""How long an abort is waited for; the next producer of the name ends what is left open."""
_FENCES: Final = (
    errors.UnknownMemberError,
    errors.FencedMemberEpochError,
    errors.StaleMemberEpochError,
    errors.IllegalGenerationError,
)
"""The group's words for: another member has the partition now."""


class Transaction(Protocol):
    """The part of `oncelog.Transaction` that is used."""

    async def send(
        self,
        topic: str,
        value: Any = ...,
        key: Any = ...,
        partition: int | None = ...,
        timestamp_ms: int | None = ...,
        headers: Any = ...,
    ) -> object:
        """Writes a record."""
        ...

    async def send_offsets(
        self, read: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | None = ...
    ) -> None:
        """Commits offsets with it."""
        ...


class Producer(Protocol):
    """The part of `oncelog.Producer` that is used."""

    async def start(self) -> object:
        """Takes the transactional id."""
        ...

    def transaction(self) -> contextlib.AbstractAsyncContextManager[Transaction]:
        """Returns a new transaction."""
        ...

    async def close(self, timeout_ms: int | None = ...) -> None:
        """Aborts what is open."""
        ...


EndOfEpoch = Callable[[str, int, int, str], Awaitable[int]]
"""Returns where a leader epoch ends in the log of a partition: topic, partition, epoch, topic id."""


class OnceInLog(StaysHere):
    """See the module. Made by `client.once(...)`; use it with `async with`."""

    def __init__(
        self,
        context: Context,
        consumer: Consumer,
        new_producer: Callable[[], Producer],
        end_of_epoch: EndOfEpoch,
        topics: Sequence[str],
        id_header: str,
        ids: IdTopic,
        remember_ids_ms: int,
    ) -> None:
        self._context = context
        self._consumer = consumer
        self._new_producer = new_producer
        self._end_of_epoch = end_of_epoch
        self._topics = topics
        self._id_header = id_header
        self._ids = ids
        self._remember_ids_ms = remember_ids_ms
        self._producer: Producer | None = new_producer()
        self._is_static = bool(consumer.config.group_instance_id)
        self._holdings: dict[TopicPartition, Holding] = {}
        self._group: GroupMetadata | None = None
        self._owed: ConsumerRecord | None = None
        """The record that was read last, until its work is done."""
        self._handed_out: LogWork | None = None
        self._failures = 0
        self._is_left = False

    # ------------------------------------------------------------ life

    async def create_topic(self) -> None:
        """Creates the topic that remembers ids, unless it is there. Raises `UnknownTopicError` for a topic that is not."""
        await self._ids.create(self._topics)

    async def __aenter__(self) -> OnceInLog:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Leaves the group; a work that is open cannot be committed any more. Idempotent."""
        self._is_left = True
        await self._drop_producer()
        await self._consumer.close()

    @property
    def _is_closed(self) -> bool:
        """A close has begun, of this or of the client."""
        return self._is_left or self._consumer.is_closed

    # ------------------------------------------------------------ records

    async def each(self) -> AsyncIterator[LogWork]:
        """The works of the group's records that were not done yet, until `close`; enter each of them before the next.

        Raises `OnceTopicError`, `ConfigError` for a record without an id, and what else only the caller can solve.
        """
        while not self._is_closed:
            self._bring_back()
            self._handed_out = work = await self._next()
            if work is not None:
                yield work
                if not work.is_ended:
                    raise errors.IllegalStateError("enter each work before you ask for the next: `async with work:`")

    def _bring_back(self) -> None:
        """Rule 3. Only ever back: a partition that was assigned again meanwhile begins at what is committed."""
        record, self._owed, self._handed_out = self._owed, None, None
        if record is None:
            return
        partition = TopicPartition(record.topic, record.partition)
        with contextlib.suppress(errors.IllegalStateError):  # it is another member's by now
            if self._consumer._cursor(partition).position > record.offset:
                self._consumer.seek(partition, record.offset)

    async def _next(self) -> LogWork | None:
        """The next work; None: there was nothing to do. Rule 4."""
        try:
            records = await self._consumer.getmany(_LOOK_MS, 1)
            found = await self._begun(records) if records else None
        except errors.OncelogError as error:
            if self._is_closed:
                return None
            if not _can_go_on(error, self._is_static):
                raise
            self._failures += 1
            _log.warning("the next record could not be claimed, which is tried again: %s", error)
            await asyncio.sleep(self._context.delay_ms(self._failures) / 1000)
            return None
        self._failures = 0
        return None if self._is_closed else found

    async def _begun(self, records: Records) -> LogWork | None:
        """Takes the steps of `Holding` for this one record."""
        self._owed = record = records[0]
        self._forget_others(records.group)
        partition = TopicPartition(record.topic, record.partition)
        holding = self._holdings.setdefault(partition, Holding(self._remember_ids_ms))
        try:
            await self._started()  # it ends what the producer before left open, which the first step would wait for
            found = await self._stepped(holding, partition, records)
        except BaseException:
            holding.lost()
            raise
        self._owed = record if found is not None else None
        return found

    def _forget_others(self, group: GroupMetadata | None) -> None:
        """Drops what it knows of partitions that other members have now."""
        if group != self._group:
            self._group = group
            mine = set(self._consumer.assignment())
            self._holdings = {where: holding for where, holding in self._holdings.items() if where in mine}

    async def _stepped(self, holding: Holding, partition: TopicPartition, records: Records) -> LogWork | None:
        record, at, group = records[0], records.offsets[partition], records.group
        assert group is not None, "client.once gives the consumer a group"
        membership = Membership(group.member_id, group.member_epoch)
        record_id, has_looked = self._id_of(record), False
        while True:
            met = Met(record.offset, record_id, membership, self._context.clock.now_ms())
            match holding.step(met):
                case Look():
                    holding.looked(await self._kept(partition), membership)
                    has_looked = True
                case Claim(kept):
                    await self._transact([], {partition: _at(at, kept)}, group)
                    holding.claimed(kept)
                case ReadBack(since_ms):
                    await self._ids.require(partition.partition)
                    holding.read_back(await self._ids.read_back(group.group_id, partition, since_ms))
                case Copy():
                    kept = Kept(at.offset, holding.kept.fencing, at.leader_epoch)
                    await self._transact([], {partition: _at(at, kept)}, group)
                    holding.committed(met, at.offset, at.leader_epoch)
                    return None
                case Done() if has_looked:
                    return None
                case Done():
                    holding.lost()
                case Begin(fencing):

                    async def commit(work: LogWork) -> None:
                        await self._commit(work, holding, at, group, membership)

                    return LogWork(record, record_id, fencing, commit)

    async def _kept(self, partition: TopicPartition) -> Kept | None:
        """Asks the coordinator, which answers when no transaction is open that holds an offset of the partition."""
        at = (await self._consumer.committed(partition))[partition]
        if at is None:
            return None
        end = at.offset
        if at.leader_epoch != NO_EPOCH:
            end = await self._end_of_epoch(*partition, at.leader_epoch, at.topic_id)
        return Kept(min(at.offset, end), fencing_of(at.metadata), at.leader_epoch)

    def _id_of(self, record: ConsumerRecord) -> str:
        name = self._id_header
        found = next((value for key, value in record.headers if key == name), None) if name else b""
        if found is None or (name and not found):
            raise errors.ConfigError(
                f"the record has no header {name}, which holds its id: leave id_header out, or have producers send it",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            )
        return found.decode(errors="backslashreplace")

    # ------------------------------------------------------------ transactions

    async def _commit(
        self, work: LogWork, holding: Holding, at: OffsetAndMetadata, group: GroupMetadata, membership: Membership
    ) -> None:
        """The end of a work's block. Raises `WorkFencedError`."""
        if work is not self._handed_out or self._is_closed:
            raise errors.IllegalStateError(
                "the loop has gone on, or was closed: this work is not committed, and its record comes again"
            )
        record = work.record
        partition = TopicPartition(record.topic, record.partition)
        met = Met(record.offset, work.record_id, membership, self._context.clock.now_ms())
        outputs = list(work.outputs)
        if met.record_id:
            key = self._ids.key(group.group_id, partition, met.record_id)
            outputs.append(Output(self._ids.name, None, key, partition.partition, met.now_ms, ()))
        try:
            await self._transact(outputs, {partition: _at(at, Kept(at.offset, work.fencing, at.leader_epoch))}, group)
        except BaseException as error:
            holding.lost()
            if isinstance(error, _FENCES):
                raise WorkFencedError(
                    "another worker took the record over, and nothing of this work was committed: go on with the next"
                    " record; if that happens often, the group's session or max_poll_interval_ms is shorter than the work",
                    topic=record.topic,
                    partition=record.partition,
                    offset=record.offset,
                ) from error
            raise
        holding.committed(met, at.offset, at.leader_epoch)
        self._owed = None

    async def _transact(
        self, outputs: list[Output], offsets: dict[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata
    ) -> None:
        """One transaction. Rule 2."""
        try:
            producer = await self._started()
            async with producer.transaction() as txn:
                for output in outputs:
                    await txn.send(*output)
                await txn.send_offsets(offsets, group)
        except BaseException:
            await self._drop_producer()
            raise

    async def _started(self) -> Producer:
        if self._is_closed:
            raise errors.IllegalStateError("it is closed: make another one with client.once(...)")
        if self._producer is None:
            self._producer = self._new_producer()
        await self._producer.start()
        return self._producer

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(errors.OncelogError):
                await producer.close(_ABORT_MS)


def _at(at: OffsetAndMetadata, kept: Kept) -> OffsetAndMetadata:
    """The offset to commit: of the topic that was read, with the note of its worker."""
    return at._replace(offset=kept.next_offset, leader_epoch=kept.leader_epoch, metadata=kept.note())


def _can_go_on(error: errors.OncelogError, is_static: bool) -> bool:
    """True: another try may succeed. A static member whose name another process has taken gives way to that one."""
    if isinstance(error, errors.ProducerFencedError):
        return not is_static
    return error.retriable or isinstance(error, errors.AbortableTransactionError)
