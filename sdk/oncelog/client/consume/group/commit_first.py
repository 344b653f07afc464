"""Commits positions before the records are returned, for `delivery="at_most_once"`.

Rule 1: what a read takes is returned when the group has its offsets. A crash afterwards loses these records, and repeats none.
Rule 2: a read whose commit fails returns nothing: its records are taken back, and a later read commits and returns them.
        When that commit did arrive and the consumer ends before it reads again, they are lost.
Rule 3: reads come one after the other here, so that no commit runs ahead of records that another read takes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from oncelog.client.consume.fetcher import Fetcher
from oncelog.client.consume.group_offsets import GroupOffsets
from oncelog.client.consume.offsets import OffsetAndMetadata, offset_of
from oncelog.client.consume.positions import Place, Positions
from oncelog.config import ConsumerConfig
from oncelog.delivery_presets import AT_MOST_ONCE
from oncelog.types import TopicPartition

T = TypeVar("T")


class CommitFirst:
    """See the module. One per consumer."""

    def __init__(self, config: ConsumerConfig, offsets: GroupOffsets, positions: Positions, fetcher: Fetcher) -> None:
        self.is_on = config.delivery == AT_MOST_ONCE
        """Whether reads commit what they return."""
        self._offsets = offsets
        self._positions = positions
        self._fetcher = fetcher
        self._turn = asyncio.Lock()

    async def taken(self, look: Callable[[], T | None]) -> T | None:
        """Returns what `look` finds when it is committed. Raises what `look` raises, and the refusal of the commit."""
        async with self._turn:
            before = self._positions.places()
            found = look()
            if found is None:
                return None
            try:
                await self._offsets.commit(self._moved(before))
            except BaseException:
                self._take_back(before)
                raise
            return found

    def _moved(self, before: list[Place]) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions behind what was found."""
        moved = [place.cursor for place in before if place.cursor.position != place.position]
        return {cursor.partition: offset_of(cursor, cursor.position) for cursor in moved}

    def _take_back(self, before: list[Place]) -> None:
        """Goes back to where the read began, but where the caller sought meanwhile. Lost partitions have no reader."""
        for place in before:
            if place.position >= 0 and place.generation == place.cursor.generation:
                place.cursor.seek(place.position)
        self._fetcher.kick()
