"""Tells a delivery what its partition has: it reads ahead of the workers, as far as the delivery wants to know.

Rule 1: of plain batches the header alone says which offsets they have. The records themselves are looked at for a compacted
        batch, and for the keys of a channel with `order_by_key`: in a task, since a batch may have to be unpacked in a thread.
Rule 2: one call reads a bounded piece, so that no backlog holds up the loop; `fill` says whether it is to be called again.
Rule 3: a record that cannot be unpacked is delivered all the same, as one without a key: its worker meets the error.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final

from oncelog.core.batch.batch import row_offset_array
from oncelog.core.batch.header import BatchHeader
from oncelog.errors import OncelogError, TransactionDataLossError
from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.key_order import NO_KEY
from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange
from oncelog_partition_leader.partition.channels.reading.batch_cutting import Unpacked
from oncelog_partition_leader.partition.channels.reading.committed_reading import Found, read_committed, visible_end
from oncelog_partition_leader.partition.partition import LocalPartition

if TYPE_CHECKING:
    import numpy as np

    Offsets = np.ndarray[tuple[int], np.dtype[np.int64]]

_READ_BYTES: Final = 256 << 10
_READS: Final = 4
"""Pieces that one call reads."""
Spawn = Callable[[Coroutine[object, None, None], str], None]


class Supply:
    """Supplies one delivery. `more` is called when a task has supplied something."""

    def __init__(
        self,
        partition: LocalPartition,
        delivery: Delivery,
        unpacked: Unpacked,
        spawn: Spawn,
        more: Callable[[], None],
        *,
        by_key: bool,
    ) -> None:
        self._partition = partition
        self._delivery = delivery
        self._unpacked = unpacked
        self._spawn = spawn
        self._more = more
        self._by_key = by_key
        self._unpacking = False
        self.loss: TransactionDataLossError | None = None
        """Why nothing beyond `delivery.next_offset` is delivered."""
        self.record_bytes = 1
        """The size of a record, as the last piece had it."""

    def fill(self, now_ms: int) -> bool:
        """Reads on as far as the delivery wants. Returns True when it is worth while to call again soon.

        Raises `StorageError`.
        """
        delivery = self._delivery
        self.skip_deleted()
        for _ in range(_READS):
            if self._unpacking or delivery.wants(now_ms) <= 0:
                return False
            offset = delivery.next_offset
            found = read_committed(self._partition, offset, _READ_BYTES)
            self.loss = found.loss
            if found.next_offset <= offset:
                return False
            self._measure(found)
            if self._by_key or any(header.is_compacted for header, _ in found.batches):
                self._unpacking = True
                self._spawn(self._supply_unpacked(offset, found), "supply")
                return False
            visible = [(header.base_offset, header.last_offset) for header, _ in found.batches]
            delivery.supply(offset, found.next_offset, visible)
            if delivery.next_offset <= offset:
                return False  # its window is full
            if delivery.next_offset >= visible_end(self._partition):
                return False  # an idle worker's record need not wait for another look
        return delivery.wants(now_ms) > 0 and delivery.next_offset < visible_end(self._partition)

    def skip_deleted(self) -> None:
        """Settles what retention has deleted."""
        start = self._partition.log.log_start_offset
        if start > self._delivery.settled_before:
            self._delivery.log_begins_at(start)

    def _measure(self, found: Found) -> None:
        records = sum(header.record_count for header, _ in found.batches)
        if records:
            self.record_bytes = max(sum(header.batch_length for header, _ in found.batches) // records, 1)

    async def _supply_unpacked(self, offset: int, found: Found) -> None:
        try:
            ranges: list[OffsetRange] = []
            hashes: list[int] = []
            for header, data in found.batches:
                offsets, keys = await self._look_at(header, data)
                ranges += offsets
                hashes += keys
            self._delivery.supply(offset, found.next_offset, ranges, hashes if self._by_key else None)
        finally:
            self._unpacking = False
        self._more()

    async def _look_at(self, header: BatchHeader, data: memoryview) -> tuple[list[OffsetRange], list[int]]:
        """Returns the offsets of a batch's records, and the hashes of their keys if they are wanted."""
        if not header.record_count:
            return [], []
        try:
            rows = await self._unpacked.rows(data, header)
            hashes = await self._unpacked.key_hashes(rows, header) if self._by_key else []
        except OncelogError:
            count = header.last_offset_delta + 1
            return [(header.base_offset, header.last_offset)], [NO_KEY] * count if self._by_key else []
        return runs_of(row_offset_array(rows, header)), hashes


def runs_of(offsets: Offsets) -> list[OffsetRange]:
    """Returns ascending offsets as ranges."""
    import numpy as np

    if not len(offsets):
        return []
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    firsts = offsets[np.concatenate(([0], breaks + 1))].tolist()
    lasts = offsets[np.concatenate((breaks, [len(offsets) - 1]))].tolist()
    return list(zip(firsts, lasts, strict=True))
