"""Gives fetched rows to the caller as Arrow, without any work per row.

Rule 1: what is returned is of one partition and one answer. A position moves behind it, also over rows that may not be seen.
Rule 2: what cannot be read is raised, and fetched again.
Rule 3: a range ends exactly at its end. It is never filled from a topic that was created again, and it has every record
        also when it is read again: none is left out because its time to live has passed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from oncelog import errors
from oncelog.client.consume.expired_records import ExpiredRecords
from oncelog.client.consume.fetched_records import arrow_of
from oncelog.client.consume.fetcher import Fetched, Fetcher
from oncelog.client.consume.positions import Positions
from oncelog.client.home.context import now_ms
from oncelog.client.routing.metadata import created_again
from oncelog.config import ConsumerConfig
from oncelog.core.consume.consumer import Cursor

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowReader:
    """See the module. One per consumer."""

    def __init__(
        self,
        fetcher: Fetcher,
        positions: Positions,
        config: ConsumerConfig,
        expired: ExpiredRecords | None = None,
    ) -> None:
        self._fetcher = fetcher
        self._positions = positions
        self._config = config
        self._expired = expired

    def next_rows(self, include_headers: bool) -> pa.RecordBatch | None:
        """The next rows that are there; None: there are none. Raises by rule 2."""
        while (fetched := self._fetcher.peek()) is not None:
            rows = self._take(fetched, include_headers, self._expired)
            if rows is not None:
                return rows
        return None

    def _take(
        self, fetched: Fetched, include_headers: bool, expired: ExpiredRecords | None = None
    ) -> pa.RecordBatch | None:
        """The rows of an answer; None when none of them may be seen."""
        if fetched.error is not None:
            self._fetcher.pop(fetched)
            raise fetched.error
        try:
            rows, next_offset = arrow_of(fetched, self._config, include_headers, expired)
        except errors.OncelogError as error:
            self._fetcher.pop(fetched)
            self._fetcher.again(fetched.cursor, error)
            raise
        if next_offset >= fetched.next_offset:
            self._fetcher.pop(fetched)
        fetched.cursor.returned(next_offset, fetched.leader_epoch)
        return rows

    async def read_range(
        self, cursor: Cursor, end: int, wait_ms: int, include_headers: bool
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows from the position up to `end`, without it. See `Consumer.read_range`, also for what is raised."""
        while cursor.position < end:
            before = cursor.position
            rows = await self._read_towards(cursor, wait_ms, include_headers)
            if self._fetcher.cursors.get(cursor.partition) is not cursor:
                raise created_again(*cursor.partition)
            if 0 <= cursor.lost_from < before:
                raise errors.OffsetOutOfRangeError(
                    "records of the range were lost while it was read: what takes their places begins at `lost_from`",
                    partition=cursor.partition,
                    lost_from=cursor.lost_from,
                )
            cursor.lost_from = -1  # none of those that were given
            if rows is not None:
                within = _below(rows, end)
                if within.num_rows:
                    yield within
            elif cursor.position == before:
                raise errors.RequestTimedOutError(
                    f"no records for {wait_ms} ms", partition=cursor.partition, position=before, end=end
                )

    async def _read_towards(self, cursor: Cursor, wait_ms: int, include_headers: bool) -> pa.RecordBatch | None:
        """The next rows; None also when the position moved over rows that may not be seen."""
        deadline_ms = now_ms() + wait_ms
        while True:
            await self._positions.find()
            fetched = self._fetcher.peek()
            if fetched is not None:
                return self._take(fetched, include_headers)
            left_ms = deadline_ms - now_ms()
            if left_ms <= 0:
                return None
            if not self._positions.are_due:
                await self._fetcher.wait(left_ms)


def _below(rows: pa.RecordBatch, end: int) -> pa.RecordBatch:
    """The rows with an offset below `end`."""
    offsets = rows.column("offset").to_numpy()
    return rows.slice(0, int(offsets.searchsorted(end)))
