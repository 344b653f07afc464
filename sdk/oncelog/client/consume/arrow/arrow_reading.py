"""The methods of a consumer that return rows as Arrow: one answer after the other, or exactly a range of offsets.

Rule 1: a read of rows moves the same positions as a read of records does; the two may take turns.
Rule 2: a range is of the topic that was there when it began, or that the caller names; it never goes on in one that was created
        again under the name.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from oncelog.client.consume.arrow.arrow_reader import ArrowReader
from oncelog.client.consume.offsets import as_partition
from oncelog.client.consume.polling import Polling
from oncelog.client.consume.record_reader import RecordReader
from oncelog.client.home.closing import Closing
from oncelog.client.home.context import Context
from oncelog.client.routing.metadata import Metadata, created_again
from oncelog.core.consume.consumer import Cursor

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowReading:
    """See the module. A base of `Consumer`."""

    _context: Context
    _metadata: Metadata
    _closing: Closing
    _polling: Polling
    _records: RecordReader
    _arrow: ArrowReader

    @abstractmethod
    async def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Reads exactly these partitions from now on."""

    @abstractmethod
    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Goes on from this offset."""

    @abstractmethod
    async def _ensure_assigned(self) -> None:
        """Raises `IllegalStateError` when there is nothing to read."""

    @abstractmethod
    def _alone(self) -> contextlib.AbstractContextManager[None]:
        """Raises `IllegalStateError` in a callback, and beside another read where a preset wants one reader."""

    @abstractmethod
    def _cursor(self, partition: tuple[str, int]) -> Cursor:
        """Returns the cursor of an assigned partition."""

    async def read_arrow(self, timeout_ms: int | None = None, include_headers: bool = False) -> pa.RecordBatch | None:
        """The next rows of one partition as a `pyarrow.RecordBatch`, or None when none came within `timeout_ms`.

        Columns: key, value, timestamp (us, UTC), partition, offset, topic, and on request headers.
        """
        await self._ensure_assigned()
        self._records.fetch_again()
        with self._alone():
            return await self._polling.until(lambda: self._arrow.next_rows(include_headers), timeout_ms)

    async def arrow_batches(self, include_headers: bool = False) -> AsyncIterator[pa.RecordBatch]:
        """`read_arrow` without an end. The fast path: no work per row."""
        while not self._closing.is_begun:
            rows = await self.read_arrow(1_000, include_headers)
            if rows is not None:
                yield rows

    async def read_range(
        self,
        partition: tuple[str, int],
        start: int,
        end: int,
        include_headers: bool = False,
        timeout_ms: int | None = None,
        topic_id: str = "",
    ) -> AsyncIterator[pa.RecordBatch]:
        """The rows with `start` <= offset < `end` of one partition, as `read_arrow` gives them, expired or not.

        Replaces the assignment. Raises `RequestTimedOutError` when nothing comes for `timeout_ms`, and `UnknownTopicError`
        when the topic was created again: while it is read, or since the caller learned `topic_id`.
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
        async with contextlib.aclosing(self._arrow.read_range(cursor, end, wait_ms, include_headers)) as found:
            async for rows in found:
                yield rows
