"""The hashes of `hashing`, for all keys of an Arrow column at once.

Rule 1: each value is what the function of the same name in `hashing` says.
Rule 2: work per key is numpy's, a step of which takes the next byte (FNV-1a) or four bytes (murmur2) of all keys that are
        long enough; only the few very long ones are finished in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oncelog.config import MURMUR2
from oncelog.core.batch import hashing

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_FEW_ROWS = 16
_PRIME = np.uint64(hashing._FNV_PRIME)
_FACTOR = np.uint32(hashing.MURMUR2_FACTOR)


def partitions_of(keys: pa.BinaryArray, count: int, key_hash: str) -> NDArray[np.int64]:
    """The partition (int64) of each key of a binary array; what a null gets is of no use. See `config.KEY_HASHES`."""
    if key_hash == MURMUR2:
        return (murmur2_all(keys) & np.uint32(hashing.POSITIVE)).astype(np.int64) % count
    return (fnv1a_all(keys) % np.uint64(count)).astype(np.int64)


def offsets_of(column: pa.BinaryArray) -> NDArray[np.int64]:
    """Where each value of a binary array begins in its data (int64), and behind them where the last one ends."""
    if len(column) == 0:
        return np.zeros(1, np.int64)
    buffer = column.buffers()[1]
    return np.frombuffer(buffer, np.int32, len(column) + 1, 4 * column.offset).astype(np.int64)


def _data(column: pa.BinaryArray) -> NDArray[np.uint8] | None:
    buffer = column.buffers()[2]
    return None if buffer is None or buffer.size == 0 else np.frombuffer(buffer, np.uint8)


# ---------------------------------------------------------------- FNV-1a


def fnv1a_all(keys: pa.BinaryArray) -> NDArray[np.uint64]:
    """`hashing.fnv1a` of every value of a binary array (uint64)."""
    offsets = offsets_of(keys)
    lengths = np.diff(offsets)
    hashes = np.full(len(lengths), hashing._FNV_OFFSET, np.uint64)
    data = _data(keys)
    if data is None or not len(lengths):
        return hashes
    if (lengths == lengths[0]).all():
        return _fnv1a_of_matrix(data[offsets[0] : offsets[-1]].reshape(len(lengths), int(lengths[0])))
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


def _fnv1a_of_matrix(keys: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Hashes the rows of a matrix of bytes, where no row has to be searched."""
    hashes = np.full(len(keys), hashing._FNV_OFFSET, np.uint64)
    for column in np.ascontiguousarray(keys.T):
        hashes ^= column
        hashes *= _PRIME
    return hashes


def _go_on(value: int, data: bytes) -> int:
    for byte in data:
        value = ((value ^ byte) * hashing._FNV_PRIME) & hashing._MASK
    return value


# ---------------------------------------------------------------- murmur2


def murmur2_all(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """`hashing.murmur2` of every value of a binary array (uint32)."""
    offsets = offsets_of(keys)
    lengths = np.diff(offsets)
    hashes = np.uint32(hashing.MURMUR2_SEED) ^ lengths.astype(np.uint32)
    data = _data(keys)
    if data is None or not len(lengths):
        return _finished(hashes)
    if (lengths == lengths[0]).all():
        return _murmur2_of_matrix(data[offsets[0] : offsets[-1]].reshape(len(lengths), int(lengths[0])), hashes)
    order = np.argsort(-lengths, kind="stable")
    hashes[order] = _murmur2_by_length(data, offsets[:-1][order], lengths[order], hashes[order])
    return hashes


def _murmur2_of_matrix(keys: NDArray[np.uint8], hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Hashes the rows of a matrix of bytes, where no row has to be searched."""
    size = keys.shape[1]
    whole = size & ~3
    for word in np.ascontiguousarray(np.ascontiguousarray(keys[:, :whole]).view("<u4").T) if whole else ():
        hashes = _mixed(hashes, word)
    if whole < size:
        for at in range(whole, size):
            hashes = hashes ^ (keys[:, at].astype(np.uint32) << np.uint32(8 * (at - whole)))
        hashes = hashes * _FACTOR
    return _finished(hashes)


def _murmur2_by_length(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], hashes: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Hashes the keys at `starts`; the longest keys come first."""
    words, tails = lengths >> 2, lengths & 3
    longest, at = int(words[0]), 0
    view = np.ndarray(max(len(data) - 3, 0), "<u4", data, strides=(1,))  # a word begins at every byte
    active = int(np.count_nonzero(words > 0))
    while at < longest and active >= _FEW_ROWS:
        hashes[:active] = _mixed(hashes[:active], view[starts[:active] + 4 * at])
        at += 1
        active = int(np.searchsorted(-words, -at, side="left"))
    left = active if at < longest else 0
    long_ones = [_long(data, int(starts[i]), 4 * at, int(lengths[i]), int(hashes[i])) for i in range(left)]
    ends = starts + lengths - tails
    for i in (2, 1, 0):
        tailed = np.flatnonzero(tails > i)
        hashes[tailed] ^= data[ends[tailed] + i].astype(np.uint32) << np.uint32(8 * i)
    hashes = _finished(np.where(tails > 0, hashes * _FACTOR, hashes))
    hashes[:left] = long_ones
    return hashes


def _long(data: NDArray[np.uint8], start: int, done: int, length: int, value: int) -> int:
    return hashing.murmur2_of_rest(value, data[start + done : start + length].tobytes())


def _mixed(hashes: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    words = words * _FACTOR
    words = (words ^ (words >> np.uint32(24))) * _FACTOR
    return (hashes * _FACTOR) ^ words


def _finished(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _FACTOR
    return hashes ^ (hashes >> np.uint32(15))
