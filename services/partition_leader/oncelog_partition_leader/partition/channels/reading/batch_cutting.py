"""Some records of a batch as a batch of their own, so that a worker which gets few of many is not sent all.

Rule 1: offsets stay: the part is a compacted batch, which says how far each record lies behind the base offset.
Rule 2: no code runs per record: rows are taken by Arrow.
Rule 3: a large batch is unpacked in a thread, few at a time, and the last ones stay unpacked (`Unpacked`): workers take the
        records of a batch one after the other. What stays is bounded by bytes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from oncelog.core.batch.batch import decode_arrow, encode_compacted, row_offset_array
from oncelog.core.batch.header import BatchHeader
from oncelog.types import Buffer
from oncelog_partition_leader.core.channels.key_order import NO_KEY
from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange
from oncelog_runtime.ports import Disk

if TYPE_CHECKING:
    import pyarrow as pa

_SMALL_BYTES: Final = 4 << 10
"""A batch up to this size goes out whole: to cut it would cost more than it spares."""
_INLINE_BYTES: Final = 64 << 10
"""Up to so many unpacked bytes are unpacked on the event loop, in some 100 microseconds."""
_AT_ONCE: Final = 2
_KEPT_BYTES: Final = 32 << 20


def is_worth_cutting(header: BatchHeader, wanted: int) -> bool:
    """Returns True when so many records of a batch are better sent without the others."""
    return header.batch_length > _SMALL_BYTES and 2 * wanted < header.record_count


def cut(rows: pa.RecordBatch, header: BatchHeader, spans: Sequence[OffsetRange]) -> bytes:
    """Returns a batch with those records of an unpacked one that lie in `spans`; at least one does."""
    import numpy as np
    import pyarrow as pa

    offsets = row_offset_array(rows, header)
    wanted = np.zeros(len(offsets), bool)
    for first, last in spans:
        wanted[np.searchsorted(offsets, first) : np.searchsorted(offsets, last, side="right")] = True
    taken = np.flatnonzero(wanted)
    plain = rows.select(range(rows.num_columns - 1)) if header.is_compacted else rows
    deltas = pa.array((offsets[taken] - header.base_offset).astype(np.int32))
    return encode_compacted(plain.take(pa.array(taken)), deltas, header)


def key_hashes(rows: pa.RecordBatch) -> list[int]:
    """Returns a hash of 64 bits for the key of each record; `NO_KEY` for those that have none."""
    from oncelog.core.batch.key_hashes import fnv1a_all

    keys = rows.column(1)
    hashes: list[int] = fnv1a_all(keys).tolist()
    if keys.null_count:
        for row, is_null in enumerate(keys.is_null().to_pylist()):
            if is_null:
                hashes[row] = NO_KEY
    return hashes


class Unpacked:
    """Unpacks batches of the log, and keeps those that were used last. One per broker."""

    def __init__(self, disk: Disk, kept_bytes: int = _KEPT_BYTES) -> None:
        self._disk = disk
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._kept: OrderedDict[tuple[int, int, int], tuple[pa.RecordBatch, int]] = OrderedDict()
        self._kept_bytes = kept_bytes
        self.bytes = 0

    async def rows(self, data: Buffer, header: BatchHeader) -> pa.RecordBatch:
        """Returns the records of a whole batch that was checked when it was read. Raises as `decode_arrow`."""
        key = (header.partition_tag, header.base_offset, header.body_crc)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found[0]
        data = bytes(data)  # as a view it would keep all that was read with it
        if header.uncompressed_length <= _INLINE_BYTES:
            rows = decode_arrow(data, header, check_crc=False)
        else:
            async with self._slots:
                rows = await self._disk.run(partial(decode_arrow, data, header, check_crc=False))
        self._keep(key, rows, max(header.uncompressed_length, len(data)))
        return rows

    async def cut(self, data: Buffer, header: BatchHeader, spans: Sequence[OffsetRange]) -> bytes:
        """Returns a batch with the records in `spans` alone. Raises as `decode_arrow`."""
        rows = await self.rows(data, header)
        if header.uncompressed_length <= _INLINE_BYTES:
            return cut(rows, header, spans)
        async with self._slots:
            return await self._disk.run(partial(cut, rows, header, spans))

    async def key_hashes(self, rows: pa.RecordBatch, header: BatchHeader) -> list[int]:
        """Returns what `key_hashes` does."""
        if header.uncompressed_length <= _INLINE_BYTES:
            return key_hashes(rows)
        async with self._slots:
            return await self._disk.run(partial(key_hashes, rows))

    def _keep(self, key: tuple[int, int, int], rows: pa.RecordBatch, size: int) -> None:
        old = self._kept.pop(key, None)
        self.bytes += size - (old[1] if old is not None else 0)
        self._kept[key] = (rows, size)
        while self.bytes > self._kept_bytes:
            _, (_, freed) = self._kept.popitem(last=False)
            self.bytes -= freed
