"""Reads records: read_committed by default, with positions that the caller may set, and offsets kept for a group.

Rule 1: the position is what was returned to the caller, never what was fetched; `commit` commits positions.
Rule 2: partitions are assigned by the caller (`assign`, or topics given to `Client.consumer`). Groups whose members
        share the work among themselves come later; `subscribe` says so.
Rule 3: whole topics are read with the partitions that are added later, and go on when they are created again (`Following`).
Rule 4: what an aborted transaction wrote is never returned under read_committed, and neither is a marker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Generic

from oncelog import errors
from oncelog.client.closing import Closing
from oncelog.client.consume.fetched_records import ConsumerRecord, Leftover, Records, arrow_of
from oncelog.client.consume.fetcher import Fetched, Fetcher
from oncelog.client.consume.following import Following
from oncelog.client.consume.group_offsets import GroupOffsets
from oncelog.client.consume.handout import Handout
from oncelog.client.consume.offsets import GroupMetadata, OffsetAndMetadata, as_partition, as_partitions
from oncelog.client.consume.read_trace import ReadTraces
from oncelog.client.context import Context, now_ms
from oncelog.client.made_by_client import refuse_direct
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata, created_again
from oncelog.client.routing.offset_lookup import EARLIEST, LATEST, FoundOffset, OffsetLookup
from oncelog.client.stays_here import StaysHere
from oncelog.config import ConsumerConfig
from oncelog.core.consume.consumer import Cursor
from oncelog.types import PartitionId, TopicPartition
from oncelog.value_types import K, V, fills_up

_FOREVER_MS = 3_600_000
"""How long somebody who waits for ever waits at a time."""


@fills_up
class Consumer(StaysHere, Generic[K, V]):
    """See the module. Made by `Client.consumer(...)`; use it with `async with`."""

    def __new__(cls, *given: Any, **options: Any) -> Consumer[K, V]:
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
        self._topics = topics
        self._fetcher = Fetcher(context, metadata, config)
        self._following = Following(context, metadata, self._fetcher, config)
        self._lookup = OffsetLookup(context, metadata)
        self._leftover: Leftover | None = None
        self._handout: Handout | None = None
        self._starting = asyncio.Lock()
        self._is_started = False
        self._closing = Closing(context.home)
        self._traces = None if context.tracer is None else ReadTraces(context.tracer, config, context.config.client_id)
        self._offsets = GroupOffsets(context, metadata, caller, config.group_id, self._traces)

    # ------------------------------------------------------------ life

    async def start(self) -> Consumer[K, V]:
        """Assigns all partitions of the topics that were given. Idempotent. Raises `UnknownTopicError`, `InvalidTopicError`.

        Whatever reads does this by itself.
        """
        async with self._starting:
            if not self._is_started and self._topics:
                await self.assign_topics(*self._topics)
        return self

    async def _ensure_assigned(self) -> None:
        """Raises `IllegalStateError` when there is nothing to read, rather than wait for it for ever."""
        self._check_open()
        if self._is_started:
            return
        if not self._topics:
            raise errors.IllegalStateError(
                "nothing is assigned: give topics, as in client.consumer('orders'), or call assign([('orders', 0)])"
            )
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

    async def close(self) -> None:
        """Stops reading; commits nothing. Idempotent."""
        await self._closing.once(self._close)

    async def _close(self) -> None:
        self.take_back()
        self._leftover = None
        await self._fetcher.close()

    def _check_open(self) -> None:
        self._context.home.check()
        self._check_not_closed()

    def _check_not_closed(self) -> None:
        if self._closing.is_begun:
            raise errors.IllegalStateError("the consumer is closed: make another one with client.consumer(...)")

    # ------------------------------------------------------------ assignment

    def subscribe(self, *topics: str, **options: Any) -> None:
        """Not available yet: always raises `IllegalStateError`."""
        raise errors.IllegalStateError(
            "group membership is not available yet: use assign([...]) or client.consumer(topic, ...), which read the "
            "partitions that you name; a group_id keeps their offsets"
        )

    async def assign(self, partitions: Iterable[Any]) -> None:
        """Reads exactly these (topic, partition) pairs from now on; positions of kept ones stay.

        Raises `UnknownTopicError`.
        """
        self._check_open()
        deadline_ms = self._context.deadline_ms()
        cursors: list[Cursor] = []
        for partition in as_partitions(partitions):
            topic = await self._metadata.topic_with(partition.topic, partition.partition, deadline_ms)
            cursors.append(Cursor(partition, PartitionId(topic.topic_id, partition.partition)))
        self.take_back()  # not before: while that waited, a batch may have been handed out
        positions = {c.id: c.position for c in self._fetcher.cursors.values()}
        self._is_started = True
        self._leftover = None
        self._following.follow(())
        self._fetcher.assign(cursors)
        for cursor in cursors:
            if positions.get(cursor.id, -1) >= 0:
                cursor.seek(positions[cursor.id])

    async def assign_topics(self, *topics: str) -> None:
        """Reads all partitions of these topics, also those that are added later. Raises `UnknownTopicError`."""
        deadline_ms = self._context.deadline_ms()
        found = [await self._metadata.topic(name, deadline_ms) for name in topics]
        await self.assign(TopicPartition(topic.name, i) for topic in found for i in range(topic.partitions))
        self._following.follow(topics)

    def assignment(self) -> list[TopicPartition]:
        """What is read."""
        return list(self._fetcher.cursors)

    def pause(self, *partitions: Any) -> None:
        """Returns nothing of these partitions until `resume`."""
        for partition in partitions:
            self._cursor(partition).is_paused = True

    def resume(self, *partitions: Any) -> None:
        """Ends a pause."""
        for partition in partitions:
            self._cursor(partition).is_paused = False
        self._fetcher.kick()

    def _cursor(self, partition: Any) -> Cursor:
        self._check_not_closed()
        self._context.home.check()  # before anything is changed: not all who call this wait for something
        self.take_back()
        found = self._fetcher.cursors.get(as_partition(partition))
        if found is None:
            raise errors.IllegalStateError("this partition is not assigned", partition=partition)
        return found

    # ------------------------------------------------------------ positions

    async def position(self, partition: Any) -> int:
        """The next offset to return. Looks it up first where none is known."""
        cursor = self._cursor(partition)
        await self._find_positions()
        return cursor.position

    def seek(self, partition: Any, offset: int) -> None:
        """Goes on from this offset. Raises `OffsetOutOfRangeError` for a negative one."""
        if offset < 0:
            raise errors.OffsetOutOfRangeError("an offset is 0 or above", offset=offset)
        self._cursor(partition).seek(offset)
        self._fetcher.kick()

    async def seek_to_beginning(self, *partitions: Any) -> None:
        """Goes to the first record that is kept; without arguments in all partitions."""
        await self._seek_all(partitions, EARLIEST)

    async def seek_to_end(self, *partitions: Any) -> None:
        """Goes to the end of what may be read now; without arguments in all partitions."""
        await self._seek_all(partitions, LATEST)

    async def _seek_all(self, partitions: tuple[Any, ...], where: int) -> None:
        chosen = as_partitions(partitions) or self.assignment()
        for partition, offset in (await self._list_offsets(dict.fromkeys(chosen, where))).items():
            self.seek(partition, offset.offset)

    async def offsets_for_times(self, times: Mapping[Any, int]) -> dict[TopicPartition, FoundOffset | None]:
        """Per partition where the first record at or after this time (ms since 1970) is; None = there is none.

        Precise to the batch: the offset is that of the first record of its batch, so some before the time may come first.
        """
        found = await self._list_offsets({as_partition(item): time for item, time in times.items()})
        return {partition: at if at.offset >= 0 else None for partition, at in found.items()}

    async def beginning_offsets(self, partitions: Iterable[Any]) -> dict[TopicPartition, int]:
        """First offset that is kept."""
        found = await self._list_offsets(dict.fromkeys(as_partitions(partitions), EARLIEST))
        return {partition: at.offset for partition, at in found.items()}

    async def end_offsets(self, partitions: Iterable[Any]) -> dict[TopicPartition, int]:
        """End of what may be read: last stable offset under read_committed, else high watermark."""
        found = await self._list_offsets(dict.fromkeys(as_partitions(partitions), LATEST))
        return {partition: at.offset for partition, at in found.items()}

    async def _list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        deadline_ms = self._context.deadline_ms()
        ids: dict[TopicPartition, PartitionId] = {}
        for partition in wanted:
            topic = await self._metadata.topic(partition.topic, deadline_ms)
            ids[partition] = PartitionId(topic.topic_id, partition.partition)
        asked = {ids[partition]: time for partition, time in wanted.items()}
        found = await self._lookup.find(asked, self.config.isolation_level)
        return {partition: found[ids[partition]] for partition in wanted}

    async def _find_positions(self) -> None:
        """Committed offsets first, `auto_offset_reset` where there are none. Raises also what `Following.look` does."""
        self._following.look()
        unknown = [cursor for cursor in self._fetcher.cursors.values() if cursor.position < 0]
        if not unknown:
            return
        at: dict[TopicPartition, int] = {}
        if self.config.group_id is not None:
            fresh = [c.partition for c in unknown if c.generation == 0]  # not after a reset: that offset is gone
            at = {p: c.offset for p, c in (await self.committed(*fresh)).items() if c is not None} if fresh else {}
        wanted = {c.partition: self._reset_to(c) for c in unknown if c.partition not in at}
        at |= {p: o.offset for p, o in (await self._list_offsets(wanted)).items()}
        for cursor in unknown:
            if cursor.position < 0 and cursor.partition in at:
                cursor.seek(at[cursor.partition])
        self._fetcher.kick()

    def _reset_to(self, cursor: Cursor) -> int:
        """Where a partition without a position begins. Raises `OffsetOutOfRangeError`."""
        if cursor.begins_at_first:
            return EARLIEST
        if self.config.auto_offset_reset == "none":
            raise errors.OffsetOutOfRangeError(
                "no committed offset, and auto_offset_reset is none: seek first", partition=cursor.partition
            )
        return EARLIEST if self.config.auto_offset_reset == "earliest" else LATEST

    # ------------------------------------------------------------ reading

    async def getmany(self, timeout_ms: int | None = None, max_records: int | None = None) -> Records[K, V]:
        """Up to `max_records` (None = `max_poll_records`) records; waits for the first one, at most `timeout_ms`.

        The list is empty when none came (None = waits for ever). It knows its `offsets` and `group`, for
        `Transaction.send_offsets`. Raises what makes a partition unreadable, once per try; others are unharmed; and
        `IllegalStateError` when nothing is assigned, or after `close`.
        """
        limit = self.config.max_poll_records if max_records is None else max_records
        if limit < 1:
            raise errors.ConfigError("max_records is at least 1", given=limit)
        if self._traces is None:
            return await self._poll(timeout_ms, limit)
        begin_ns = self._traces.now_ns()
        records = await self._poll(timeout_ms, limit)
        self._traces.polled(records, begin_ns)
        return records

    async def _poll(self, timeout_ms: int | None, limit: int) -> Records[K, V]:
        await self._ensure_assigned()
        records: Records[K, V] = Records(self.group())
        deadline_ms = None if timeout_ms is None else now_ms() + timeout_ms
        while True:
            await self._find_positions()
            self.take_back()
            try:
                self._gather(limit, records)
            except BaseException:
                self._give_back(records)
                raise
            left_ms = _FOREVER_MS if deadline_ms is None else deadline_ms - now_ms()
            if records or self._closing.is_begun or left_ms <= 0:
                return records
            await self._fetcher.wait(self._following.wait_ms(left_ms))

    def _gather(self, limit: int, records: Records) -> None:
        """Moves to `records` what is there. What goes wrong after some of them is raised by the next poll."""
        room = self.config.max_buffered_bytes
        while len(records) < limit and (room > 0 or not records):
            part = self._leftover or self._next_part(may_raise=not records)
            if part is None:
                break
            room -= self._take(part, limit, records, max(room, 1))

    def _give_back(self, records: Records) -> None:
        """A `KeyboardInterrupt`, or a defect of ours, takes these from the caller: they are fetched again."""
        first = {TopicPartition(record.topic, record.partition): record.offset for record in reversed(records)}
        for partition, offset in first.items():
            self._fetcher.cursors[partition].seek(offset)
            self._fetcher.kick()

    def _next_part(self, may_raise: bool) -> Leftover | None:
        """The next answer, decoded and filtered."""
        fetched = self._fetcher.peek()
        if fetched is None or (fetched.error is not None and not may_raise):
            return None
        self._fetcher.pop(fetched)
        if fetched.error is not None:
            raise fetched.error
        return Leftover(fetched, self.config)

    def _take(self, part: Leftover, limit: int, records: Records, most_bytes: int) -> int:
        """Moves records of an answer to the caller's; returns how many bytes were unpacked for that."""
        fetched, cursor = part.fetched, part.fetched.cursor
        self._leftover = None
        if not fetched.is_current or cursor.is_paused:
            if fetched.is_current:
                cursor.seek(cursor.position)
            return 0
        try:
            taken, unpacked = part.take(limit - len(records), most_bytes)
        except errors.OncelogError as error:
            if records:
                self._leftover = part  # raised by the next call: these records come first
                return most_bytes
            self._fetcher.again(cursor, error)  # nothing of it was returned
            raise
        except Exception:
            self._leftover = part  # a deserializer's own: it is asked again
            if records:
                return most_bytes
            raise
        except BaseException:  # what was taken of it so far is lost, and the position is before that
            cursor.seek(cursor.position)
            self._fetcher.kick()
            raise
        cursor.returned(part.position, fetched.leader_epoch)
        records.extend(taken)
        if taken:
            records.offsets[cursor.partition] = _offset_of(cursor, part.position)
        self._leftover = None if part.is_empty else part
        return unpacked

    async def getone(self, timeout_ms: int | None = None) -> ConsumerRecord[K, V] | None:
        """The next record; None when none came within `timeout_ms`."""
        records = await self.getmany(timeout_ms, max_records=1)
        return records[0] if records else None

    def __aiter__(self) -> Consumer[K, V]:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        if self._traces is None and self._leftover is not None and (following := self._leftover.next_row()) is not None:
            return following  # no poll for each record
        while not self._closing.is_begun:
            record = await self.getone()
            if record is not None:
                return record
        raise StopAsyncIteration

    async def hand_out(self, timeout_ms: int) -> tuple[ConsumerRecord[K, V] | None, Handout | None]:
        """For `oncelog.sync`: the next record, and what follows it in its batch, which another thread takes one by one.

        Whatever else needs the position, or moves it, takes back what is left. Raises as `getone`; nothing comes after `close`.
        """
        if self._closing.is_begun:
            return None, None
        record = await self.getone(timeout_ms)
        if record is None or self._leftover is None or self._traces is not None:
            return record, None
        self._handout = Handout(self._leftover)
        return record, self._handout

    def take_back(self) -> None:
        """For `oncelog.sync`: ends what was handed out; the position moves behind what was taken of it. Idempotent."""
        handout, self._handout = self._handout, None
        if handout is None:
            return
        taken_to, part = handout.end(), handout.part
        if part is self._leftover and part.fetched.is_current:
            part.taken_to(taken_to)
            part.fetched.cursor.returned(part.position, part.fetched.leader_epoch)
            self._leftover = None if part.is_empty else part

    async def batches(self, max_records: int | None = None, timeout_ms: int = 1_000) -> AsyncIterator[Records[K, V]]:
        """Lists of records for ever, none of them empty; `timeout_ms` is only how often it looks whether to stop."""
        while not self._closing.is_begun:
            records = await self.getmany(timeout_ms, max_records)
            if records:
                yield records

    def processing(self, record: ConsumerRecord) -> contextlib.AbstractContextManager[None]:
        """`with consumer.processing(record):` gives the work on a record a span, linked to where the record was created.

        With `trace_consumer_parent="message"` it becomes a part of the trace of the record instead: for handlers of
        single messages, and demos. Without tracing it does nothing.
        """
        return contextlib.nullcontext() if self._traces is None else self._traces.processing(record)

    # ------------------------------------------------------------ Arrow

    async def read_arrow(self, timeout_ms: int | None = None, include_headers: bool = False) -> Any:
        """The next rows of one partition as a `pyarrow.RecordBatch`, or None when none came within `timeout_ms`.

        Columns: key, value, timestamp (us, UTC), partition, offset, topic, and on request headers.
        """
        await self._ensure_assigned()
        deadline_ms = None if timeout_ms is None else now_ms() + timeout_ms
        self._forget_leftover()
        while True:
            await self._find_positions()
            fetched = self._fetcher.peek()
            if fetched is not None:
                rows = self._arrow(fetched, include_headers)
                if rows is not None:
                    return rows
                continue
            left_ms = _FOREVER_MS if deadline_ms is None else deadline_ms - now_ms()
            if self._closing.is_begun or left_ms <= 0:
                return None
            await self._fetcher.wait(self._following.wait_ms(left_ms))

    def _arrow(self, fetched: Fetched, include_headers: bool) -> Any:
        if fetched.error is not None:
            self._fetcher.pop(fetched)
            raise fetched.error
        try:
            rows, next_offset = arrow_of(fetched, self.config, include_headers)
        except errors.OncelogError as error:
            self._fetcher.pop(fetched)
            self._fetcher.again(fetched.cursor, error)
            raise
        if next_offset >= fetched.next_offset:
            self._fetcher.pop(fetched)
        fetched.cursor.returned(next_offset, fetched.leader_epoch)
        return rows

    def _forget_leftover(self) -> None:
        """Records that were decoded but not returned are fetched again."""
        self.take_back()
        leftover, self._leftover = self._leftover, None
        if leftover is not None and leftover.fetched.is_current:
            leftover.fetched.cursor.seek(leftover.fetched.cursor.position)
            self._fetcher.kick()

    async def arrow_batches(self, include_headers: bool = False) -> AsyncIterator[Any]:
        """`read_arrow` for ever. The fast path: no work per row."""
        while not self._closing.is_begun:
            rows = await self.read_arrow(1_000, include_headers)
            if rows is not None:
                yield rows

    async def read_range(
        self,
        partition: Any,
        start: int,
        end: int,
        include_headers: bool = False,
        timeout_ms: int | None = None,
        topic_id: str = "",
    ) -> AsyncIterator[Any]:
        """The rows with `start` <= offset < `end` of one partition, as `read_arrow` gives them; then it is over.

        Replaces the assignment. Raises `RequestTimedOutError` when nothing comes for `timeout_ms`, and `UnknownTopicError`
        when the topic was created again: while it is read, or since `topic_id` was told.
        """
        where = as_partition(partition)
        if topic_id:
            await self._metadata.topic_known_as(where.topic, topic_id, self._context.deadline_ms())
        await self.assign([where])
        cursor = self._cursor(where)
        if topic_id not in ("", cursor.id.topic_id):
            raise created_again(*where)
        self.seek(where, start)
        wait_ms = self._context.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        while cursor.position < end:
            before = cursor.position
            rows = await self._read_towards(cursor, wait_ms, include_headers)
            if self._fetcher.cursors.get(where) is not cursor:
                raise created_again(*where)
            if rows is not None:
                within = _below(rows, end)
                if within.num_rows:
                    yield within
            elif cursor.position == before:
                raise errors.RequestTimedOutError(
                    f"no records for {wait_ms} ms", partition=where, position=before, end=end
                )

    async def _read_towards(self, cursor: Cursor, wait_ms: int, include_headers: bool) -> Any:
        """The next rows; None also when the position moved over rows that may not be seen."""
        deadline_ms = now_ms() + wait_ms
        while True:
            await self._find_positions()
            fetched = self._fetcher.peek()
            if fetched is not None:
                return self._arrow(fetched, include_headers)
            left_ms = deadline_ms - now_ms()
            if left_ms <= 0:
                return None
            await self._fetcher.wait(left_ms)

    # ------------------------------------------------------------ committed offsets

    def group(self) -> GroupMetadata | None:
        """The group whose offsets this consumer keeps."""
        return self._offsets.group

    async def commit(self, offsets: Mapping[Any, Any] | None = None) -> None:
        """Commits offsets (None = the positions of all partitions) for the group. Raises the first refusal.

        Offsets of a topic that was created again since they were read are left out, with a warning: they mean nothing in
        the new one. An offset that you wrote down yourself has no topic id, and is taken for one of the topic of today.
        """
        self._offsets.required()
        if offsets is None:
            self.take_back()
            offsets = {
                cursor.partition: _offset_of(cursor, cursor.position)
                for cursor in self._fetcher.cursors.values()
                if cursor.position >= 0 and self._following.is_of_today(cursor)
            }
        await self._offsets.commit(offsets)

    async def committed(self, *partitions: Any) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets; None = none yet. Waits for open transactions that hold one.

        Without arguments all of them, except those of topics that were created again since.
        """
        return await self._offsets.committed(as_partitions(partitions))


def _offset_of(cursor: Cursor, position: int) -> OffsetAndMetadata:
    """Of the topic that the cursor reads, whatever has its name by now."""
    return OffsetAndMetadata(position, cursor.last_leader_epoch, topic_id=cursor.id.topic_id)


def _below(rows: Any, end: int) -> Any:
    """The rows with an offset below `end`."""
    offsets = rows.column("offset").to_numpy()
    return rows.slice(0, int(offsets.searchsorted(end)))
