"""Commits positions by itself, every so often, when `enable_auto_commit` is on.

Rule 1: it happens at the beginning of a read, because what earlier reads returned is processed by then. A consumer that does
        not read commits nothing more.
Rule 2: a read does not wait for it. A failed commit is logged, and the next one says more.
Rule 3: where partitions are given away, and at the end, the commit is waited for.
Rule 4: with `delivery="at_least_once"` the commit at the end leaves out what the last read returned: an error may have ended
        the caller's work on it. With `delivery="at_most_once"` `CommitFirst` commits instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable

from oncelog import errors
from oncelog.client.consume.group_offsets import GroupOffsets
from oncelog.client.consume.offsets import OffsetAndMetadata, as_partitions
from oncelog.client.consume.positions import Place, Positions
from oncelog.client.home.context import now_ms
from oncelog.config import ConsumerConfig
from oncelog.delivery_presets import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE
from oncelog.types import TopicPartition

_log = logging.getLogger(__name__)


class AutoCommit:
    """See the module. One per consumer; it does nothing when `enable_auto_commit` is off."""

    def __init__(self, config: ConsumerConfig, offsets: GroupOffsets, positions: Positions) -> None:
        self._is_on = config.enable_auto_commit and config.delivery != AT_MOST_ONCE
        self._leaves_last_read_out = config.delivery == AT_LEAST_ONCE
        self._is_exactly_once = config.delivery == EXACTLY_ONCE
        self._interval_ms = config.auto_commit_interval_ms
        self._offsets = offsets
        self._positions = positions
        self._next_ms = -1
        self._task: asyncio.Task[None] | None = None
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._processed: list[Place] = []  # the places when the last read began
        self._said: set[TopicPartition] = set()  # the caller committed these since

    def look(self) -> None:
        """Begins a commit when it is time. Rules 1 and 2."""
        if not self._is_on:
            return
        if self._leaves_last_read_out:
            self._processed = self._positions.places()
            self._said.clear()
        if now_ms() < self._next_ms:
            return
        is_first, self._next_ms = self._next_ms < 0, now_ms() + self._interval_ms
        if not is_first and (self._task is None or self._task.done()) and (offsets := self._news(None)):
            self._task = asyncio.get_running_loop().create_task(self._commit(offsets), name="oncelog-commit")

    def check_by_hand(self) -> None:
        """Raises `IllegalStateError` where a preset leaves the offsets to transactions."""
        if self._is_exactly_once:
            raise errors.IllegalStateError(
                "delivery='exactly_once' commits offsets with the transaction of what was made of the records:"
                " await txn.send_offsets(records)"
            )

    def caller_committed(self, partitions: Iterable[tuple[str, int]]) -> None:
        """The caller has said how far it is here, and knows better than rule 4."""
        self.forget(as_partitions(partitions))
        if self._leaves_last_read_out:
            self._said.update(as_partitions(partitions))

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Others may have moved the offsets of these since they were committed here."""
        for partition in partitions:
            self._committed.pop(partition, None)

    async def now(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commits the positions of these partitions (None = all) and waits for it. Rule 3."""
        await self._finish(partitions, None)

    async def at_end(self, partitions: Collection[TopicPartition] | None = None, timeout_ms: int | None = None) -> None:
        """As `now`, for a consumer that stops reading these partitions outside of a read. Rule 4.

        It is given up after `timeout_ms` (None = as long as a commit may take): then what was read since is read again.
        """
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._finish(partitions, self._processed if self._leaves_last_read_out else None)
        except TimeoutError:
            if self._task is not None:
                self._task.cancel()
            _log.warning(
                "no answer to the last commit within %s ms: the next reader begins at the one before", timeout_ms
            )

    async def _finish(self, partitions: Collection[TopicPartition] | None, places: list[Place] | None) -> None:
        if not self._is_on:
            return
        if self._task is not None:
            await asyncio.wait((self._task,))
        if offsets := self._news(partitions, places):
            await self._commit(offsets)

    def _news(
        self, partitions: Collection[TopicPartition] | None, places: list[Place] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions that have moved since they were committed; `places`: none beyond these."""
        if places is None:
            positions = self._positions.to_commit()
        else:
            at_end = self._positions.up_to(places).items()
            positions = {partition: at for partition, at in at_end if partition not in self._said}
        return {
            partition: at
            for partition, at in positions.items()
            if (partitions is None or partition in partitions) and self._committed.get(partition) != at
        }

    async def _commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            await self._offsets.commit(offsets)
            self._committed |= offsets
        except errors.OncelogError as error:
            _log.warning("auto-commit failed: %s", error)
