"""Finds the position of each partition that has none, lists offsets, and tells which positions a commit takes.

Rule 1: a partition without a position begins at its group's committed offset, else where `auto_offset_reset` says.
Rule 2: a partition that a running consumer found begins at its first record instead of there (`Following`, rule 2).
Rule 3: after an offset was out of range the committed one is not asked for again: it is the one that is gone.
Rule 4: records that could not be committed are read again, but for those partitions whose commit has come about after all.
Rule 5: a commit takes positions, and leaves out those of a topic that was created again: they mean nothing in the new one.
Rule 6: a position that cannot be found holds up no other partition: it is looked for again, and the reader gets the error as
        that of a fetch (`Fetcher`, rule 4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from oncelog import errors
from oncelog.client.consume.fetched_records import Records
from oncelog.client.consume.fetcher import Fetcher
from oncelog.client.consume.following import Following
from oncelog.client.consume.group_offsets import GroupOffsets
from oncelog.client.consume.offsets import OffsetAndMetadata, offset_of
from oncelog.client.home.context import Context, now_ms
from oncelog.client.routing.metadata import Metadata
from oncelog.client.routing.offset_lookup import EARLIEST, LATEST, FoundOffset, OffsetLookup
from oncelog.config import ConsumerConfig
from oncelog.core.consume.consumer import Cursor
from oncelog.types import PartitionId, TopicPartition

_PATIENCE_S: Final = 0.5
"""How long a reader waits for positions, before it looks at what is there of other partitions."""


class Place(NamedTuple):
    """Where a partition's reader stood at some moment."""

    cursor: Cursor
    position: int
    leader_epoch: int
    """The epoch of the last record before it."""
    generation: int
    """The cursor's, which changes with each seek."""


class Positions:
    """See the module. One per consumer."""

    def __init__(
        self,
        context: Context,
        metadata: Metadata,
        config: ConsumerConfig,
        fetcher: Fetcher,
        following: Following,
        offsets: GroupOffsets,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._config = config
        self._fetcher = fetcher
        self._following = following
        self._offsets = offsets
        self._lookup = OffsetLookup(context, metadata)
        self._pending: dict[Cursor, asyncio.Task[None]] = {}
        """The partitions that are looked up now."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._waited_for: set[asyncio.Task[None]] = set()
        """Look-ups for which a reader has waited already: they are not waited for again, and wake readers when they end."""
        self._failures: list[tuple[list[Cursor], BaseException]] = []
        self._is_closed = False

    async def find(self) -> None:
        """Has the positions looked up that are due, and waits for that, but not for long.

        Raises what `Following.look` does, what the group's coordinator refuses, and `OffsetOutOfRangeError` where the caller
        has to seek first.
        """
        self._following.look()
        if not self._failures:
            self._begin_due()
        tasks = self._tasks - self._waited_for
        if tasks:
            _, slow = await asyncio.wait(tasks, timeout=_PATIENCE_S)
            self._waited_for |= slow
        while self._failures:
            cursors, error = self._failures.pop(0)
            if any(map(self._is_unset, cursors)):  # else the caller has sought, or reads them no more
                raise error

    @property
    def are_due(self) -> bool:
        """True when `find` has something to do: a reader must not wait for records before that."""
        return bool(self._failures or self._due())

    def _due(self) -> list[Cursor]:
        now = now_ms()
        cursors = () if self._is_closed else self._fetcher.cursors.values()
        return [cursor for cursor in cursors if cursor.lacks_position(now) and cursor not in self._pending]

    def _begin_due(self) -> None:
        """Looks positions up in tasks: those that the group may know, and the others, which must not wait for it."""
        by_source: dict[bool, list[Cursor]] = {}
        for cursor in self._due():
            by_source.setdefault(self._may_be_committed(cursor), []).append(cursor)
        for ask_group, cursors in by_source.items():
            task = asyncio.get_running_loop().create_task(self._find(cursors, ask_group), name="oncelog-positions")
            self._tasks.add(task)
            self._pending.update(dict.fromkeys(cursors, task))
            task.add_done_callback(partial(self._ended, cursors))

    def _ended(self, cursors: list[Cursor], task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._waited_for.discard(task)
        self._are_done(cursors, task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failures.append((cursors, error))
        self._fetcher.wake()

    def _are_done(self, cursors: Iterable[Cursor], task: asyncio.Task[None] | None) -> None:
        for cursor in cursors:
            if self._pending.get(cursor) is task:
                del self._pending[cursor]

    async def close(self) -> None:
        """Looks nothing up any more."""
        self._is_closed = True
        for task in (tasks := set(self._tasks)):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _find(self, cursors: list[Cursor], ask_group: bool) -> None:
        at = await self._offsets.committed([cursor.partition for cursor in cursors]) if ask_group else {}
        by_leader: dict[str | None, dict[Cursor, int]] = {}
        for cursor in filter(self._is_unset, cursors):
            committed, where = at.get(cursor.partition), self._reset_to(cursor)
            if committed is not None:
                cursor.found(committed.offset, committed.leader_epoch)
                cursor.begins_at_first = committed.offset == 0  # also where 0 has been deleted
            elif where is None:
                self._failures.append(([cursor], _seek_first(cursor)))
            else:
                by_leader.setdefault(self._metadata.leader(cursor.id).address, {})[cursor] = where
        self._fetcher.kick()
        task = asyncio.current_task()
        await asyncio.gather(*(self._ask_leader(wanted, task) for wanted in by_leader.values()))

    async def _ask_leader(self, wanted: dict[Cursor, int], task: asyncio.Task[None] | None) -> None:
        """Takes the answer of one leader as soon as it comes: another one may hang. Rule 6."""
        asked = {cursor.id: where for cursor, where in wanted.items()}
        found, failed = await self._lookup.ask_once(asked, self._config.isolation_level)
        for cursor in filter(self._is_unset, wanted):
            if cursor.id in found:
                cursor.found(found[cursor.id].offset, found[cursor.id].leader_epoch)
            else:
                self._fetcher.meets(cursor, failed[cursor.id])
        self._are_done(wanted, task)
        self._fetcher.kick()

    def _is_unset(self, cursor: Cursor) -> bool:
        """True when this partition is still read, and waits for its position."""
        is_read = self._fetcher.cursors.get(cursor.partition) is cursor
        return is_read and cursor.position < 0 and not cursor.is_fetching

    async def of(self, cursor: Cursor) -> int:
        """Returns a partition's position; waits until it is found, or raises why it is not."""
        await self.find()
        cursor = self._fetcher.cursors.get(cursor.partition, cursor)  # its topic may have been created again
        if cursor.position < 0:
            found = await self._offset_of(cursor)
            if cursor.position < 0:
                cursor.found(*found)
                self._fetcher.kick()
        return cursor.position

    async def _offset_of(self, cursor: Cursor) -> tuple[int, int]:
        """As `_find`, for a caller who waits, with the epoch. Raises at the deadline at the latest."""
        if self._may_be_committed(cursor):
            at = (await self._offsets.committed([cursor.partition])).get(cursor.partition)
            if at is not None:
                return at.offset, at.leader_epoch
        where = self._reset_to(cursor)
        if where is None:
            raise _seek_first(cursor)
        found = (await self.list_offsets({cursor.partition: where}))[cursor.partition]
        return found.offset, found.leader_epoch

    def _may_be_committed(self, cursor: Cursor) -> bool:
        """Rules 1 and 3. A partition whose leader could not be asked afterwards has no committed offset: the group said so."""
        return self._offsets.group is not None and cursor.generation == 0 and not cursor.failures

    def _reset_to(self, cursor: Cursor) -> int | None:
        """Where a partition without a position begins; None: the caller has to seek."""
        if cursor.begins_at_first:
            return EARLIEST
        if self._config.auto_offset_reset == "none":
            return None
        return EARLIEST if self._config.auto_offset_reset == "earliest" else LATEST

    async def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """Per partition what its leader finds for a time in ms since 1970, for `EARLIEST` or for `LATEST`."""
        deadline_ms = self._context.deadline_ms()
        ids: dict[TopicPartition, PartitionId] = {}
        for partition in wanted:
            topic = await self._metadata.topic(partition.topic, deadline_ms)
            ids[partition] = PartitionId(topic.topic_id, partition.partition)
        asked = {ids[partition]: time for partition, time in wanted.items()}
        found = await self._lookup.find(asked, self._config.isolation_level)
        return {partition: found[ids[partition]] for partition in wanted}

    async def before(self, records: Records) -> dict[TopicPartition, int]:
        """Where to read these records again, for each of their partitions that is still read. Rule 4.

        A partition that was let go meanwhile is left out, and so is one of a topic that was created again.
        """
        starts = {p: first for p, first in _starts(records).items() if self._is_read(p, records)}
        kept = await self._offsets.committed(list(starts)) if starts and self._offsets.group is not None else {}
        return {
            p: first
            for p, first in starts.items()
            if self._is_read(p, records) and ((at := kept.get(p)) is None or at.offset != records.offsets[p].offset)
        }

    def _is_read(self, partition: TopicPartition, records: Records) -> bool:
        cursor = self._fetcher.cursors.get(partition)
        return cursor is not None and cursor.id.topic_id == records.offsets[partition].topic_id

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions that a commit takes. Rule 5."""
        return {
            cursor.partition: offset_of(cursor, cursor.position)
            for cursor in self._fetcher.cursors.values()
            if cursor.position >= 0 and self._following.is_of_today(cursor)
        }

    def places(self) -> list[Place]:
        """Where each partition stands now."""
        return [Place(c, c.position, c.last_leader_epoch, c.generation) for c in self._fetcher.cursors.values()]

    def up_to(self, places: list[Place]) -> dict[TopicPartition, OffsetAndMetadata]:
        """As `to_commit`, with no offset above its place; a partition without a place is left out. Rule 4."""
        positions = self.to_commit()
        return {
            cursor.partition: OffsetAndMetadata(place.position, place.leader_epoch, topic_id=cursor.id.topic_id)
            if place.position < cursor.position
            else positions[cursor.partition]
            for place in places
            if place.position >= 0
            and self._fetcher.cursors.get((cursor := place.cursor).partition) is cursor
            and cursor.partition in positions
        }


def _starts(records: Records) -> dict[TopicPartition, int]:
    """The first offset of each partition."""
    starts: dict[TopicPartition, int] = {}
    for record in records:
        starts.setdefault(TopicPartition(record.topic, record.partition), record.offset)
    return starts


def _seek_first(cursor: Cursor) -> errors.OncelogError:
    return errors.OffsetOutOfRangeError(
        "no committed offset, and auto_offset_reset is none: seek first", partition=cursor.partition
    )
