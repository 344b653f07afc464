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
from collections.abc import Mapping
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
        self._finding: asyncio.Task[None] | None = None
        self._is_slow = False
        """A reader has waited for `_finding` already; it is not waited for again, and wakes the reader when it ends."""

    async def find(self) -> None:
        """Has the position of each partition looked up that has none, and waits for that, but not for long.

        Raises also what `Following.look` does, and `OffsetOutOfRangeError` where the caller has to seek first.
        """
        self._following.look()
        if self._finding is None:
            now = now_ms()
            unknown = [cursor for cursor in self._fetcher.cursors.values() if cursor.lacks_position(now)]
            if not unknown:
                return
            self._begin(unknown)
        finding = self._finding
        if finding is not None and not finding.done() and not self._is_slow:
            await asyncio.wait([finding], timeout=_PATIENCE_S)
            self._is_slow = not finding.done()
        if finding is not None and finding.done():
            if self._finding is finding:
                self._finding = None
            if not finding.cancelled():
                finding.result()

    def _begin(self, unknown: list[Cursor]) -> None:
        """Looks them up in a task, which a reader who gives up does not take along."""
        finding = asyncio.get_running_loop().create_task(self._find(unknown), name="oncelog-positions")
        finding.add_done_callback(lambda done: done.cancelled() or done.exception())  # the next `find` raises it
        finding.add_done_callback(lambda _: self._fetcher.wake())
        self._finding, self._is_slow = finding, False

    async def close(self) -> None:
        """Looks nothing up any more."""
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.wait([self._finding])

    async def _find(self, unknown: list[Cursor]) -> None:
        at = await self._committed(unknown)
        found = {c.id: at[c.partition] for c in unknown if c.partition in at}
        resets = {c.id: self._reset_to(c) for c in unknown if c.id not in found}
        wanted = {key: where for key, where in resets.items() if where is not None}
        offsets, failed = await self._lookup.ask_once(wanted, self._config.isolation_level) if wanted else ({}, {})
        found |= {key: offset.offset for key, offset in offsets.items()}
        unset = [cursor for cursor in unknown if self._is_unset(cursor)]  # the caller may have sought meanwhile
        for cursor in unset:
            if cursor.id in found:
                cursor.found(found[cursor.id])
            elif cursor.id in failed:
                self._fetcher.meets(cursor, failed[cursor.id])
        self._fetcher.kick()
        lost = [cursor for cursor in unset if cursor.id in resets and resets[cursor.id] is None]
        if lost:
            raise errors.OffsetOutOfRangeError(
                "no committed offset, and auto_offset_reset is none: seek first", partition=lost[0].partition
            )

    def _is_unset(self, cursor: Cursor) -> bool:
        """True when this partition is still read, and waits for its position."""
        is_read = self._fetcher.cursors.get(cursor.partition) is cursor
        return is_read and cursor.position < 0 and not cursor.is_fetching

    async def of(self, cursor: Cursor) -> int:
        """Returns a partition's position; waits until it is found, or raises why it is not."""
        await self.find()
        cursor = self._fetcher.cursors.get(cursor.partition, cursor)  # its topic may have been created again
        if cursor.position < 0 and (where := self._reset_to(cursor)) is not None:
            found = (await self.list_offsets({cursor.partition: where}))[cursor.partition]
            if cursor.position < 0:
                cursor.found(found.offset)
                self._fetcher.kick()
        return cursor.position

    async def _committed(self, unknown: list[Cursor]) -> dict[TopicPartition, int]:
        """Rules 1 and 3. A partition whose leader could not be asked afterwards has none: the group has said so."""
        fresh = [cursor.partition for cursor in unknown if cursor.generation == 0 and not cursor.failures]
        if self._offsets.group is None or not fresh:
            return {}
        return {p: at.offset for p, at in (await self._offsets.committed(fresh)).items() if at is not None}

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
