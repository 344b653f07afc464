"""The newest offset of each key in the part of a log that is compacted: what decides whether a record is the last one.

Rule 1: keys are compared whole, never by a hash alone: two keys that share a hash would cost one of them its value.
Rule 2: it is bounded by the number of keys and by their bytes; its user asks `is_full`, and ends the pass there.
Rule 3: all work is done on whole columns, in C, with the interpreter's lock released; new keys gather until there are as many
        of them as known ones, so that each is moved only a few times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

ABSENT: Final = -1
_GATHERED_MIN: Final = 1 << 16


class KeyOffsets:
    """Key -> newest offset. Null keys have none."""

    def __init__(self, keys_max: int, bytes_max: int) -> None:
        self._keys_max = keys_max
        self._bytes_max = bytes_max
        self._keys = pa.array([], pa.binary())
        self._offsets: NDArray[np.int64] = np.zeros(0, np.int64)
        self._new: list[tuple[pa.Array, NDArray[np.int64]]] = []
        self._new_count = 0

    def __len__(self) -> int:
        self._merge()
        return len(self._keys)

    @property
    def is_full(self) -> bool:
        """True when it takes no more keys."""
        if len(self._keys) + self._new_count >= self._keys_max or self._bytes() >= self._bytes_max:
            self._merge()
        return len(self._keys) >= self._keys_max or self._bytes() >= self._bytes_max

    def add(self, keys: pa.Array, offsets: NDArray[np.int64]) -> None:
        """Takes records; their offsets lie above all that were taken before."""
        keys, offsets = _newest_of([keys], [offsets])
        self._new.append((keys, offsets))
        self._new_count += len(keys)
        if self._new_count >= max(len(self._keys), _GATHERED_MIN):
            self._merge()

    def newest(self, keys: pa.Array) -> NDArray[np.int64]:
        """Returns the newest offset of each key, `ABSENT` for keys that are not here and for null."""
        self._merge()
        if not len(self._keys):
            return np.full(len(keys), ABSENT, np.int64)
        places = pc.index_in(keys, value_set=self._keys).fill_null(ABSENT).to_numpy()
        return np.where(places < 0, ABSENT, self._offsets[places])

    def _bytes(self) -> int:
        return sum(keys.nbytes for keys in (self._keys, *(keys for keys, _ in self._new)))

    def _merge(self) -> None:
        if self._new:
            keys = [self._keys, *(keys for keys, _ in self._new)]
            self._keys, self._offsets = _newest_of(keys, [self._offsets, *(offsets for _, offsets in self._new)])
            self._new, self._new_count = [], 0


def _newest_of(keys: list[pa.Array], offsets: list[NDArray[np.int64]]) -> tuple[pa.Array, NDArray[np.int64]]:
    table = pa.table({"key": pa.chunked_array(keys, pa.binary()), "offset": np.concatenate(offsets)})
    if table.column("key").null_count:
        table = table.filter(pc.is_valid(table.column("key")))
    found = table.group_by("key", use_threads=False).aggregate([("offset", "max")])
    return found.column("key").combine_chunks(), found.column("offset_max").to_numpy()
