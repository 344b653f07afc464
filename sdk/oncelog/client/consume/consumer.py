"""Reads records: read_committed by default, with positions that the caller may set, and offsets kept for a group.

Rule 1: the position is what was returned to the caller, never what was fetched; `commit` commits positions.
Rule 2: partitions are assigned by the caller (`assign`, or topics given to `Client.consumer` without a group), or shared among
        the members of a group (`subscribe`, or topics given with a group), never both.
Rule 3: whole topics are read with the partitions that are added later, and go on when they are created again (`Following`).
Rule 4: what an aborted transaction wrote is never returned under read_committed, and neither is a marker.
"""

from __future__ import annotations

import contextlib
from asyncio import Lock
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Generic

from oncelog import errors
from oncelog.client.consume.arrow.arrow_reader import ArrowReader
from oncelog.client.consume.arrow.arrow_reading import ArrowReading
from oncelog.client.consume.assignment import Assignment
from oncelog.client.consume.expired_records import CountsExpired
from oncelog.client.consume.fetched_records import ConsumerRecord, Records
from oncelog.client.consume.fetcher import Fetcher
from oncelog.client.consume.following import Following
from oncelog.client.consume.group.auto_commit import AutoCommit
from oncelog.client.consume.group.commit_first import CommitFirst
from oncelog.client.consume.group.group_reading import Callbacks, GroupReading, OnPartitions
from oncelog.client.consume.group.one_reader import OneReader
from oncelog.client.consume.group_offsets import GroupOffsets
from oncelog.client.consume.handout import Handout
from oncelog.client.consume.observe.read_trace import read_observer
from oncelog.client.consume.offsets import GroupMetadata, OffsetAndMetadata, as_partitions
from oncelog.client.consume.polling import Polling
from oncelog.client.consume.positions import Positions
from oncelog.client.consume.record_reader import RecordReader, most_between_polls
from oncelog.client.consume.seeking import Seeking
from oncelog.client.home.closing import Closing
from oncelog.client.home.context import Context
from oncelog.client.home.made_by_client import refuse_direct
from oncelog.client.home.pace import Pace
from oncelog.client.home.stays_here import StaysHere
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.config import ConsumerConfig
from oncelog.core.consume.consumer import Cursor
from oncelog.types import TopicPartition
from oncelog.value_types import K, V, fills_up


@fills_up
class Consumer(Seeking, ArrowReading, CountsExpired, StaysHere, Generic[K, V]):
    """See the module. Made by `Client.consumer(...)`; use it with `async with`."""

    def __new__(cls, *given: object, **options: object) -> Consumer[K, V]:
        """Raises `TypeError` that says how it is made."""
        refuse_direct(Context, "oncelog.Client", "consumer", given, options)
        return super().__new__(cls)

    def __init__(
        self, context: Context, metadata: Metadata, caller: Caller, config: ConsumerConfig, topics: tuple[str, ...]
    ) -> None:
        self.config = config
        """The options, checked."""
        self._context = context
        self._metadata = metadata
        self._starting = Lock()
        self._closing = Closing(context.home)
        self._observer = read_observer(context.tracer, config, context.config.client_id)
        self._fetcher = Fetcher(context, metadata, config)
        following = Following(context, metadata, self._fetcher, config)
        is_shared = config.group_id is not None  # Rule 2
        self._assignment = Assignment(context, metadata, self._fetcher, following, () if is_shared else topics)
        self._offsets = GroupOffsets(context, metadata, caller, config.group_id, self._observer)
        self._positions = Positions(context, metadata, config, self._fetcher, following, self._offsets)
        self._records = RecordReader(self._fetcher, config, context.clock)
        self._commits = AutoCommit(config, self._offsets, self._positions)
        first = CommitFirst(config, self._offsets, self._positions, self._fetcher)
        self._reader = OneReader(config.delivery)
        self._is_polled_for_each = self._observer.sees_each_poll or first.is_on
        self._pace = Pace(0 if self._is_polled_for_each else most_between_polls(config))
        self._following: Iterator[ConsumerRecord[K, V]] = iter(())
        """Records that a loop over the consumer gets without a poll for each."""
        self._group = GroupReading(
            context, metadata, caller, config, self._fetcher, following, self._records, self._commits
        )
        self._offsets.membership = lambda: self._group.membership
        self._polling = Polling(
            self._positions, self._fetcher, following, self._closing, self._commits, self._group, first, self._pace
        )
        self._expired = self._records.expired
        self._arrow = ArrowReader(self._fetcher, self._positions, config, self._expired)
        if is_shared and topics:
            self._group.subscribe(topics, "", Callbacks())

    # ------------------------------------------------------------ life

    async def start(self) -> Consumer[K, V]:
        """Assigns all partitions of topics that were given without a group. Idempotent.

        Whatever reads does this by itself. Raises `UnknownTopicError`, `InvalidTopicError`.
        """
        async with self._starting:
            if topics := self._assignment.to_make:
                await self.assign_topics(*topics)
        return self

    async def _ensure_assigned(self) -> None:
        """Raises `IllegalStateError` when there is nothing to read."""
        self._check_open()
        if self._group.is_active:
            return
        self._assignment.check()
        if not self._assignment.is_made:
            await self.start()

    async def __aenter__(self) -> Consumer[K, V]:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        """True from `close` on."""
        return self._closing.is_begun

    async def close(self, timeout_ms: int | None = None) -> None:
        """Stops reading, and leaves the group if this consumer subscribed to one. Idempotent.

        Commits nothing, unless `enable_auto_commit` is on; with `delivery="at_least_once"` not what the last read returned:
        call `commit()` before, if that is processed. A static member (`group_instance_id`) keeps its partitions until
        its session ends, so that it may come back to them. Raises what `on_revoked` raises, when all is closed.

        It takes at most `timeout_ms` (None = `close_timeout_ms`). When the coordinator is away or `on_revoked` takes longer,
        it gives up with a warning in the log: what was not committed is read again, and the session time-out ends the
        membership. With `timeout_ms=0` nothing is waited for.
        """
        self._group.check_caller()
        patience_ms = self._context.config.close_timeout_ms if timeout_ms is None else timeout_ms
        await self._closing.once(partial(self._close, patience_ms))

    async def _close(self, timeout_ms: int) -> None:
        self.take_back()
        self._records.forget()
        self._following = iter(())
        try:
            if self._group.is_active:
                await self._group.leave(for_now=True, timeout_ms=timeout_ms)
            else:
                await self._commits.at_end(timeout_ms=timeout_ms)
        finally:
            try:
                await self._positions.close()
            finally:
                await self._fetcher.close()

    def _check_open(self) -> None:
        if self._closing.is_begun:
            raise errors.IllegalStateError("the consumer is closed: make another one with client.consumer(...)")
        self._context.home.check()

    # ------------------------------------------------------------ assignment

    def subscribe(
        self,
        *topics: str,
        pattern: str = "",
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Shares the partitions of these topics with the other members of the group; the next read joins it.

        `pattern`: also all topics whose whole name this regular expression matches, those included that are created later
        (no counts, look-around or back references). A repeated call replaces topics, pattern and callbacks.

        The callbacks get a list of (topic, partition); they are functions or coroutine functions, and run in a read.
        `on_assigned`: these are read from now on; seek here. `on_revoked`: these go to another member when this returns;
        commit here what was processed. `on_lost`: these are another member's already, nothing can be committed; without
        it `on_revoked` is called. A callback may commit and seek, and may not read.

        Raises `ConfigError` without a group or a topic, and `IllegalStateError` when partitions were assigned by hand.
        """
        self._check_open()
        self._assignment.check_none()
        self._group.subscribe(topics, pattern, Callbacks(on_assigned, on_revoked, on_lost))

    async def unsubscribe(self) -> None:
        """Leaves the group; the other members share what this one read. Raises what `on_revoked` raises. Idempotent."""
        self._check_open()
        self.take_back()
        await self._group.leave()

    async def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Reads exactly these (topic, partition) pairs from now on; positions of kept ones stay.

        Raises `UnknownTopicError`.
        """
        self._check_open()
        self._group.check_inactive()
        cursors = await self._assignment.look_up(as_partitions(partitions))
        self.take_back()  # not before: while that waited, a batch may have been handed out
        self._records.forget()
        self._assignment.replace(cursors)

    async def assign_topics(self, *topics: str) -> None:
        """Reads all partitions of these topics, also those that are added later. Raises `UnknownTopicError`.

        With a `group_id`, which must be given no topics then, this is how one consumer reads everything and the group only
        keeps its offsets.
        """
        await self.assign(await self._assignment.partitions_of(topics))
        self._assignment.follow(topics)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._assignment.partitions()

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Returns nothing of these partitions until `resume`."""
        for partition in partitions:
            self._cursor(partition).is_paused = True

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Ends a pause."""
        for partition in partitions:
            self._cursor(partition).is_paused = False
        self._fetcher.kick()
        self._fetcher.wake()  # a reader that waits may have records here now

    def _cursor(self, partition: tuple[str, int]) -> Cursor:
        self._check_open()  # before anything is changed: not all who call this wait for something
        self.take_back()
        return self._assignment.cursor(partition)

    # ------------------------------------------------------------ positions

    async def rewind(self, records: Records[K, V]) -> None:
        """Goes back to where these records began: the next read returns them again. For after an aborted transaction.

        A partition whose offset was committed after all is left where it is, so this is also right when the outcome of a
        commit is not known: it waits until that transaction is decided. So is a partition that is no longer this consumer's.
        """
        self._check_open()
        self.take_back()
        for partition, offset in (await self._positions.before(records)).items():
            self.seek(partition, offset)

    # ------------------------------------------------------------ reading

    async def getmany(self, timeout_ms: int | None = None, max_records: int | None = None) -> Records[K, V]:
        """Up to `max_records` (None = `max_poll_records`) records; waits for the first one, at most `timeout_ms`.

        The list is empty when none came (None = waits without a limit). It knows its `offsets` and `group`, for
        `Transaction.send_offsets`. Raises what makes a partition unreadable, once per try; others are unharmed; and
        `IllegalStateError` when nothing is assigned, after `close`, and, with `delivery="at_least_once"` or "exactly_once",
        while another task reads from this consumer.
        """
        limit = self.config.max_poll_records if max_records is None else max_records
        if limit < 1:
            raise errors.ConfigError("max_records is at least 1", given=limit)
        begun = self._observer.poll_begins()
        await self._ensure_assigned()
        self.take_back()  # a commit of the positions has what was taken of a batch that was handed out
        records: Records[K, V] = Records(None)
        with self._alone():
            await self._polling.until(lambda: self._records.gather(limit, records), timeout_ms)
        records.group = self._offsets.group
        self._observer.polled(records, begun)
        return records

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        """Raises `IllegalStateError` in a callback, and beside another read where a preset wants one reader."""
        self._group.check_caller()
        return self._reader.reading()

    async def getone(self, timeout_ms: int | None = None) -> ConsumerRecord[K, V] | None:
        """The next record; None when none came within `timeout_ms`."""
        records = await self.getmany(timeout_ms, max_records=1)
        return records[0] if records else None

    def __aiter__(self) -> Consumer[K, V]:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        following = next(self._following, None)
        if following is not None:
            return following  # no poll for each record
        while not self._closing.is_begun:
            record = await self.getone()
            if record is not None:
                self._following = self._records.one_by_one(self._pace)
                return record
        raise StopAsyncIteration

    async def hand_out(self, timeout_ms: int) -> tuple[ConsumerRecord[K, V] | None, Handout | None]:
        """For `oncelog.sync`: the next record, and what follows it in its batch, which another thread takes one by one.

        Whatever else needs the position, or moves it, takes back what is left. Raises as `getone`; nothing comes after `close`.
        """
        if self._closing.is_begun:
            return None, None
        record = await self.getone(timeout_ms)
        return record, None if record is None or self._is_polled_for_each else self._records.hand_out()

    def take_back(self) -> None:
        """For `oncelog.sync`: ends what was handed out; the position moves behind what was taken of it. Idempotent."""
        self._records.take_back()

    async def batches(self, max_records: int | None = None, timeout_ms: int = 1_000) -> AsyncIterator[Records[K, V]]:
        """Gives lists of records without an end, none of them empty; each `timeout_ms` it looks whether to stop."""
        while not self._closing.is_begun:
            records = await self.getmany(timeout_ms, max_records)
            if records:
                yield records

    def processing(self, record: ConsumerRecord) -> contextlib.AbstractContextManager[None]:
        """`with consumer.processing(record):` gives the work on a record a span, linked to where the record was created.

        With `trace_consumer_parent="message"` it becomes a part of the trace of the record instead: for handlers of
        single messages, and demos. Without tracing it does nothing.
        """
        return self._observer.processing(record)

    # ------------------------------------------------------------ committed offsets

    def group(self) -> GroupMetadata | None:
        """The group whose offsets this consumer keeps, and its membership. Raises `UnknownMemberError` as `commit` does."""
        self._group.check_not_lost()
        return self._offsets.group

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
        | Mapping[tuple[str, int], OffsetAndMetadata | int]
        | None = None,
    ) -> None:
        """Commits offsets (None = the positions of all partitions) for the group. Raises the first refusal.

        Offsets of a topic that was created again since they were read are left out, with a warning: they mean nothing in
        the new one. An offset that you wrote down yourself has no topic id, and is taken for one of the topic of today.
        With `delivery="exactly_once"` it raises `IllegalStateError`: transactions commit the offsets. It raises
        `UnknownMemberError` when partitions were lost since the last read, and in the callback for them.
        """
        self._offsets.required()
        self._commits.check_by_hand()
        self._group.check_not_lost()
        if offsets is None:
            self.take_back()
            offsets = self._positions.to_commit()
        await self._offsets.commit(offsets)
        self._commits.caller_committed(offsets)

    async def committed(self, *partitions: tuple[str, int]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets; None = none yet. Waits for open transactions that hold one.

        Without arguments all of them, except those of topics that were created again since.
        """
        return await self._offsets.committed(as_partitions(partitions))
