"""Which partition a row goes to, for whole Arrow batches at once.

Rule 1: a key goes where `hashing.partition_for_key` says, whoever computes it; a null key goes to the sticky partition.
Rule 2: rows of one partition keep their order.
Rule 3: work per row is numpy's; only the few rows with very long keys are finished in Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from oncelog.core import hashing
from oncelog.errors import InvalidRecordError

_FEW_ROWS = 16
_ROW_OVERHEAD_BYTES = 16
_PRIME = np.uint64(hashing._FNV_PRIME)

Array = np.ndarray[Any, Any]


def partitions_for(batch: Any, count: int, sticky: int) -> Array:
    """The partition (int64) of each row of an Arrow record batch: its `partition` column where that is not null, else
    by `key`, else `sticky`. Raises `InvalidRecordError` for a partition that the topic does not have.
    """
    names = batch.schema.names
    found = np.full(batch.num_rows, sticky, np.int64)
    if "key" in names and count > 1:
        keys = as_binary(batch.column("key"))
        hashed = (fnv1a_all(keys) % np.uint64(count)).astype(np.int64)
        found = np.where(_valid(keys), hashed, found) if keys.null_count else hashed
    if "partition" in names:
        chosen = batch.column("partition").cast(pa.int64())
        mask = _valid(chosen)
        found = np.where(mask, chosen.fill_null(0).to_numpy(zero_copy_only=False), found)
    if len(found) and (found.min() < 0 or found.max() >= count):
        raise InvalidRecordError("a row names a partition that the topic does not have", partitions=count)
    return found


def highest_named(batch: Any) -> int:
    """The highest number in the `partition` column; -1 = no row names one."""
    if "partition" not in batch.schema.names:
        return -1
    named = batch.column("partition").cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return int(named.max(initial=-1))


def route(batch: Any, count: int, sticky: int) -> list[tuple[int, Any]]:
    """The batch's rows as one Arrow record batch per partition, by partition number."""
    if batch.num_rows == 0:
        return []
    found = partitions_for(batch, count, sticky)
    first = int(found[0])
    if (found == first).all():
        return [(first, batch)]
    order = np.argsort(found.astype(np.uint16) if count <= 1 << 16 else found, kind="stable")  # 16 bits: by radix
    arranged = batch.take(pa.array(order))
    ordered = found[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    ends = np.append(starts[1:], len(ordered))
    return [(int(ordered[a]), arranged.slice(int(a), int(b - a))) for a, b in zip(starts, ends, strict=True)]


def cut(batch: Any, max_bytes: int) -> list[tuple[Any, int]]:
    """Slices of about `max_bytes` at most (a single row may be larger), each with its size in bytes."""
    rows = batch.num_rows
    sizes = np.full(rows, _ROW_OVERHEAD_BYTES, np.int64)
    for name in ("key", "value"):
        if name in batch.schema.names:
            sizes += np.diff(_offsets(as_binary(batch.column(name))))
    if "headers" in batch.schema.names and rows:
        sizes += batch.column("headers").nbytes // rows
    total = np.cumsum(sizes)
    pieces: list[tuple[Any, int]] = []
    start, before = 0, 0
    while start < rows:
        end = max(start + 1, int(np.searchsorted(total, before + max_bytes, side="right")))
        pieces.append((batch.slice(start, end - start), int(total[end - 1]) - before))
        start, before = end, int(total[end - 1])
    return pieces


def fnv1a_all(keys: Any) -> Array:
    """`hashing.fnv1a` of every value of a binary array (uint64); what a null row gets is of no use."""
    offsets = _offsets(keys)
    lengths = np.diff(offsets)
    hashes = np.full(len(lengths), hashing._FNV_OFFSET, np.uint64)
    data = _data(keys)
    if data is None or not len(lengths):
        return hashes
    if (lengths == lengths[0]).all():
        return _of_one_length(data[offsets[0] : offsets[-1]].reshape(len(lengths), int(lengths[0])))
    order = np.argsort(-lengths, kind="stable")
    starts, by_length = offsets[:-1][order], lengths[order]
    ordered = hashes[order]
    at, longest = 0, int(by_length[0])
    active = int(np.count_nonzero(by_length > 0))
    while at < longest and active >= _FEW_ROWS:
        ordered[:active] = (ordered[:active] ^ data[starts[:active] + at]) * _PRIME
        at += 1
        active = int(np.searchsorted(-by_length, -at, side="left"))
    for i in range(active if at < longest else 0):
        rest = data[int(starts[i]) + at : int(starts[i]) + int(by_length[i])].tobytes()
        ordered[i] = _go_on(int(ordered[i]), rest)
    hashes[order] = ordered
    return hashes


def _of_one_length(keys: Array) -> Array:
    """`fnv1a_all` of the rows of a matrix of bytes: no row needs to be found."""
    hashes = np.full(len(keys), hashing._FNV_OFFSET, np.uint64)
    for column in np.ascontiguousarray(keys.T):
        hashes ^= column
        hashes *= _PRIME
    return hashes


def _go_on(value: int, data: bytes) -> int:
    for byte in data:
        value = ((value ^ byte) * hashing._FNV_PRIME) & hashing._MASK
    return value


def as_binary(column: Any) -> Any:
    """The column as 32-bit binary; free when it is binary or string. Raises `InvalidRecordError`."""
    if pa.types.is_binary(column.type):
        return column
    try:
        return column.cast(pa.binary())
    except pa.ArrowException as error:
        raise InvalidRecordError(f"a key or value column cannot be read as binary: {error}") from error


def _offsets(column: Any) -> Array:
    if len(column) == 0:
        return np.zeros(1, np.int64)
    buffer = column.buffers()[1]
    return np.frombuffer(buffer, np.int32, len(column) + 1, 4 * column.offset).astype(np.int64)


def _data(column: Any) -> Array | None:
    buffer = column.buffers()[2]
    return None if buffer is None or buffer.size == 0 else np.frombuffer(buffer, np.uint8)


def _valid(column: Any) -> Array:
    valid: Array = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
