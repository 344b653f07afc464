"""Leaves out records whose time to live has passed, and counts them.

Rule 1: a record is judged when it is unpacked, by this process's clock. A batch without headers costs nothing
        (`core/batch/expiry.py`).
Rule 2: a position moves over what is left out, as it moves over markers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.config import SKIP
from oncelog.core.batch.header import BatchHeader
from oncelog.ports import WallClock

if TYPE_CHECKING:
    import pyarrow as pa

    from oncelog.core.batch.expiry import Mask


class ExpiredRecords:
    """See the module. One per consumer; `count` is how many were left out."""

    __slots__ = ("_clock", "_skips", "count")

    def __init__(self, clock: WallClock, expired: str) -> None:
        self._clock = clock
        self._skips = expired == SKIP
        self.count = 0

    def kept(self, rows: pa.RecordBatch, header: BatchHeader) -> Mask | None:
        """Which rows of a decoded batch stay; None: all of them."""
        if not self._skips:
            return None
        from oncelog.core.batch.expiry import expired_rows

        late = expired_rows(rows, header, self._clock.now_ms())
        if late is None:
            return None
        self.count += int(late.sum())
        return ~late


class CountsExpired:
    """A consumer, as far as it counts expired records."""

    _expired: ExpiredRecords

    @property
    def expired_count(self) -> int:
        """How many records were skipped, since their time to live had passed."""
        return self._expired.count
