"""Due records as one batch for their topic: read from the waiting log by columns, in the order in which they are due.

Rule: rows are taken by Arrow; no code runs per record, but one look-up for each batch that holds some of them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from oncelog.core.batch.batch import HEADERS_TYPE, decode_arrow, encode_arrow, row_offset_array
from oncelog.core.batch.header import BatchHeader, BatchIdentity
from oncelog_partition_leader.partition.channels.reading.committed_reading import read_one
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.ports import Disk

if TYPE_CHECKING:
    import pyarrow as pa

MOVE_BYTES_MAX: Final = 1 << 20
"""The most bytes of records in one transaction; a single record may have more."""
_READS_PER_TURN: Final = 50
"""So many batches are read before the event loop gets its turn."""


class Source(NamedTuple):
    """A batch of the waiting log, and which offsets of it are wanted."""

    header: BatchHeader
    data: bytes
    offsets: list[int]


class DueRecords(NamedTuple):
    """Records that can be moved together: the first `asked` of those that were asked for."""

    rows: pa.RecordBatch
    asked: int

    def encode(self, identity: BatchIdentity, codec: int, now_ms: int) -> bytes:
        """Returns the batch for the topic's partition."""
        return encode_arrow(self.rows, identity, timestamp_ms=now_ms, codec=codec)


async def collect(partition: LocalPartition, disk: Disk, offsets: Sequence[int]) -> DueRecords | None:
    """Reads as many of these records, from the first on, as one transaction takes; None when they were deleted meanwhile.

    Raises `StorageError` and as `decode_arrow`.
    """
    count, sources = await _sources(partition, offsets)
    if not sources:
        return None
    return DueRecords(await disk.run(partial(_take, sources, offsets[:count])), count)


async def _sources(partition: LocalPartition, offsets: Sequence[int]) -> tuple[int, list[Source]]:
    """Reads the batches that hold the first offsets, each once; returns how many offsets that are."""
    read = _Sources()
    for count, offset in enumerate(offsets):
        source = read.holding(offset)
        if source is None:
            batch = read_one(partition, offset)
            if batch is None:
                continue
            source = read.add(*batch)
            if len(read.by_base) % _READS_PER_TURN == 0:
                await asyncio.sleep(0)
        read.size += max(source.header.uncompressed_length, len(source.data)) // max(source.header.record_count, 1)
        if read.size > MOVE_BYTES_MAX and count:
            return count, [one for one in read.by_base.values() if one.offsets]
        source.offsets.append(offset)
    return len(offsets), list(read.by_base.values())


class _Sources:
    """The batches that were read, and about how many bytes the wanted records have."""

    def __init__(self) -> None:
        self.by_base: dict[int, Source] = {}
        self.size = 0
        self._bases: list[int] = []

    def add(self, header: BatchHeader, data: memoryview) -> Source:
        """Adds a batch."""
        source = self.by_base[header.base_offset] = Source(header, bytes(data), [])
        insort(self._bases, header.base_offset)
        return source

    def holding(self, offset: int) -> Source | None:
        """Returns the batch with this offset; None when it was not read yet."""
        place = bisect_right(self._bases, offset)
        source = self.by_base[self._bases[place - 1]] if place else None
        return source if source is not None and offset < source.header.next_offset else None


def _take(sources: Sequence[Source], offsets: Sequence[int]) -> pa.RecordBatch:
    """Returns the rows with these offsets, in their order."""
    import pyarrow as pa

    parts = list(_parts(sources))
    table = pa.concat_tables([pa.Table.from_batches([rows]) for rows, _ in parts]).combine_chunks()
    found = np.concatenate([at for _, at in parts])
    place = {offset: row for row, offset in enumerate(found.tolist())}
    rows = table.take(pa.array([place[offset] for offset in offsets if offset in place]))
    return rows.combine_chunks().to_batches()[0]


def _parts(sources: Sequence[Source]) -> Iterator[tuple[pa.RecordBatch, np.ndarray[tuple[int], np.dtype[np.int64]]]]:
    import pyarrow as pa

    for header, data, wanted in sources:
        rows = decode_arrow(data, header, check_crc=False)
        at = row_offset_array(rows, header)
        taken = np.flatnonzero(np.isin(at, wanted))
        times = pa.array(rows.column(0).to_numpy()[taken] + header.base_timestamp_ms)
        some = rows.take(pa.array(taken))
        headers = some.column(3) if "headers" in rows.schema.names else pa.nulls(len(taken), HEADERS_TYPE)
        columns = {"timestamp": times, "key": some.column(1), "value": some.column(2), "headers": headers}
        yield pa.RecordBatch.from_pydict(columns), at[taken]
