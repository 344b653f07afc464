"""Chooses the partition of each row, for whole Arrow batches at once.

Rule 1: a key goes where `hashing.partition_for_key` says, in every client and broker; a null key goes to the sticky partition.
Rule 2: rows of one partition keep their order.
Rule 3: work per row is numpy's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from oncelog.config import FNV1A
from oncelog.core.batch import key_hashes
from oncelog.errors import InvalidRecordError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROW_OVERHEAD_BYTES = 16


def partitions_for(batch: pa.RecordBatch, count: int, sticky: int, key_hash: str = FNV1A) -> NDArray[np.int64]:
    """The partition (int64) of each row of an Arrow record batch: its `partition` column where that is not null, else
    by `key`, else `sticky`. `key_hash` is one of `config.KEY_HASHES`.

    Raises `InvalidRecordError` for a partition that the topic does not have.
    """
    names = batch.schema.names
    found = np.full(batch.num_rows, sticky, np.int64)
    if "key" in names and count > 1:
        keys = as_binary(batch.column("key"))
        hashed = key_hashes.partitions_of(keys, count, key_hash)
        found = np.where(_valid(keys), hashed, found) if keys.null_count else hashed
    if "partition" in names:
        chosen = batch.column("partition").cast(pa.int64())
        mask = _valid(chosen)
        found = np.where(mask, chosen.fill_null(0).to_numpy(zero_copy_only=False), found)
    if len(found) and (found.min() < 0 or found.max() >= count):
        raise InvalidRecordError("a row names a partition that the topic does not have", partitions=count)
    return found


def highest_named(batch: pa.RecordBatch) -> int:
    """The highest number in the `partition` column; -1 = no row names one."""
    if "partition" not in batch.schema.names:
        return -1
    named = batch.column("partition").cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return int(named.max(initial=-1))


def route(batch: pa.RecordBatch, count: int, sticky: int, key_hash: str = FNV1A) -> list[tuple[int, pa.RecordBatch]]:
    """The batch's rows as one Arrow record batch per partition, by partition number."""
    if batch.num_rows == 0:
        return []
    found = partitions_for(batch, count, sticky, key_hash)
    first = int(found[0])
    if (found == first).all():
        return [(first, batch)]
    order = np.argsort(found.astype(np.uint16) if count <= 1 << 16 else found, kind="stable")  # 16 bits: by radix
    arranged = batch.take(pa.array(order))
    ordered = found[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    ends = np.append(starts[1:], len(ordered))
    return [(int(ordered[a]), arranged.slice(int(a), int(b - a))) for a, b in zip(starts, ends, strict=True)]


def cut(batch: pa.RecordBatch, max_bytes: int) -> list[tuple[pa.RecordBatch, int]]:
    """Slices of about `max_bytes` at most (a single row may be larger), each with its size in bytes."""
    rows = batch.num_rows
    sizes = np.full(rows, _ROW_OVERHEAD_BYTES, np.int64)
    for name in ("key", "value"):
        if name in batch.schema.names:
            sizes += np.diff(key_hashes.offsets_of(as_binary(batch.column(name))))
    if "headers" in batch.schema.names and rows:
        sizes += batch.column("headers").nbytes // rows
    total = np.cumsum(sizes)
    pieces: list[tuple[pa.RecordBatch, int]] = []
    start, before = 0, 0
    while start < rows:
        end = max(start + 1, int(np.searchsorted(total, before + max_bytes, side="right")))
        pieces.append((batch.slice(start, end - start), int(total[end - 1]) - before))
        start, before = end, int(total[end - 1])
    return pieces


def as_binary(column: pa.Array) -> pa.Array:
    """The column as 32-bit binary; free when it is binary or string. Raises `InvalidRecordError`."""
    if pa.types.is_binary(column.type):
        return column
    try:
        return column.cast(pa.binary())
    except pa.ArrowException as error:
        raise InvalidRecordError(f"a key or value column cannot be read as binary: {error}") from error


def _valid(column: pa.Array) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
