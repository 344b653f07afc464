"""Due records as one batch for their topic: read from the waiting log by columns, in the order in which they are due.

Rule 1: rows are taken by Arrow: no code looks into a record. A few look-ups run for each offset, of at most 5,000.
Rule 2: of each batch only the wanted rows are kept, and at most `_RAW_BYTES_MAX` of whole batches are held beside them: one
        due record in each of many large batches does not fill the memory.
Rule 3: the batch has at most as many bytes as the caller says, whatever the records were like when they were sent; but always
        one record. It is compressed if they were.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from oncelog.core.batch.batch import HEADERS_TYPE, decode_arrow, encode_arrow, row_offset_array
from oncelog.core.batch.header import CODEC_NONE, BatchHeader, BatchIdentity
from oncelog_partition_leader.core.delays.waiting_offsets import Offsets
from oncelog_partition_leader.partition.channels.reading.committed_reading import read_one
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.ports import Disk

if TYPE_CHECKING:
    import pyarrow as pa

_RAW_BYTES_MAX: Final = 8 << 20
_READS_PER_TURN: Final = 50
"""So many batches are read before the event loop gets its turn."""


class DueRecords(NamedTuple):
    """Records that can be moved together: what is left of the first `asked` of those that were asked for."""

    rows: pa.RecordBatch | None
    """None when all of them were deleted meanwhile."""
    asked: int
    codec: int

    @property
    def row_count(self) -> int:
        """How many records there are."""
        return 0 if self.rows is None else self.rows.num_rows

    def encode(self, identity: BatchIdentity, now_ms: int) -> bytes:
        """Returns the batch for the topic's partition."""
        assert self.rows is not None, "there is something to be moved"
        return encode_arrow(self.rows, identity, timestamp_ms=now_ms, codec=self.codec)


async def collect(partition: LocalPartition, disk: Disk, offsets: Sequence[int], bytes_max: int) -> DueRecords:
    """Reads as many of these records, from the first on, as have `bytes_max` bytes together; at least one.

    Raises `StorageError` and as `decode_arrow`.
    """
    gathering = _Gathering(np.sort(np.asarray(offsets, np.int64)))
    size, count, reads = 0, 0, 0
    for offset in offsets:
        header = gathering.holding(offset)
        if header is None:
            batch = read_one(partition, offset)
            if batch is None:
                count += 1
                continue
            header, reads = gathering.add(*batch), reads + 1
            if gathering.raw_bytes >= _RAW_BYTES_MAX:
                await disk.run(gathering.unpack)
            elif reads % _READS_PER_TURN == 0:
                await asyncio.sleep(0)
        size += max(header.uncompressed_length, header.batch_length) // max(header.record_count, 1)
        if size > bytes_max and count:  # about: what is too much in fact is left out by `_taken`
            break
        count += 1
    return await disk.run(partial(_taken, gathering, offsets[:count], bytes_max))


class _Gathering:
    """The batches that were read, and the wanted rows of them."""

    def __init__(self, wanted: Offsets) -> None:
        self.rows: list[pa.RecordBatch] = []
        self.offsets: list[Offsets] = []
        self.raw_bytes = 0
        self.codec = CODEC_NONE
        self._wanted = wanted
        self._raw: list[tuple[BatchHeader, bytes]] = []
        self._by_base: dict[int, BatchHeader] = {}
        self._bases: list[int] = []

    def add(self, header: BatchHeader, data: memoryview) -> BatchHeader:
        """Adds a batch."""
        self._raw.append((header, bytes(data)))
        self.raw_bytes += len(data)
        self.codec = self.codec or header.codec
        self._by_base[header.base_offset] = header
        insort(self._bases, header.base_offset)
        return header

    def holding(self, offset: int) -> BatchHeader | None:
        """Returns the header of the batch with this offset; None when it was not read yet."""
        place = bisect_right(self._bases, offset)
        header = self._by_base[self._bases[place - 1]] if place else None
        return header if header is not None and offset < header.next_offset else None

    def unpack(self) -> None:
        """Takes the wanted rows out of the batches that were added, and lets go of these."""
        import pyarrow as pa

        for header, data in self._raw:
            rows = decode_arrow(data, header)  # with its checksum: a record may have lain on a disk for a year
            at = row_offset_array(rows, header)
            taken = np.flatnonzero(np.isin(at, self._wanted))
            some = rows.take(pa.array(taken))
            headers = some.column(3) if "headers" in rows.schema.names else pa.nulls(len(taken), HEADERS_TYPE)
            times = pa.array(some.column(0).to_numpy() + header.base_timestamp_ms)
            columns = {"timestamp": times, "key": some.column(1), "value": some.column(2), "headers": headers}
            self.rows.append(pa.RecordBatch.from_pydict(columns))
            self.offsets.append(at[taken])
        self._raw.clear()
        self.raw_bytes = 0


def _taken(gathering: _Gathering, offsets: Sequence[int], bytes_max: int) -> DueRecords:
    """Returns the rows with the first of these offsets, in their order."""
    import pyarrow as pa

    gathering.unpack()
    found = np.concatenate(gathering.offsets) if gathering.offsets else np.empty(0, np.int64)
    place = {offset: row for row, offset in enumerate(found.tolist())}
    there = [at for at, offset in enumerate(offsets) if offset in place]
    if not there:
        return DueRecords(None, len(offsets), gathering.codec)
    table = pa.Table.from_batches(gathering.rows).combine_chunks()
    (rows,) = table.take(pa.array([place[offsets[at]] for at in there])).combine_chunks().to_batches()
    fitting = _fitting(rows, bytes_max)
    asked = len(offsets) if fitting == len(there) else there[fitting]
    return DueRecords(rows.slice(0, fitting), asked, gathering.codec)


def _fitting(rows: pa.RecordBatch, bytes_max: int) -> int:
    """Returns how many of the first rows have so many bytes together; at least 1."""
    import pyarrow.compute as pc

    if rows.nbytes <= bytes_max:
        return int(rows.num_rows)
    sizes = np.zeros(rows.num_rows, np.int64)
    for name in ("key", "value"):
        sizes += pc.binary_length(rows.column(name)).fill_null(0).to_numpy(zero_copy_only=False)
    sizes += max(rows.nbytes - int(sizes.sum()), 0) // rows.num_rows + 1  # times, headers and what Arrow adds
    return max(int(np.searchsorted(np.cumsum(sizes), bytes_max, side="right")), 1)
