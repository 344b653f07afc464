"""Keeps the newest batches of a log in memory, so that a reader at the tail costs no system call and no checksum.

Rule 1: it holds one contiguous run of offsets that ends at the log end; a change that breaks this clears it.
Rule 2: it is bounded by bytes, and drops the oldest first; losing it only costs time.
Rule 3: all caches of a process are bounded together (`TailMemory`): the log that was written to least recently gives first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from typing import Final

from oncelog.types import Buffer
from oncelog_partition_leader.log.reader import NoRoomError

_COMPACT_AT: Final = 1024


class TailMemory:
    """The bytes that the tail caches of all logs of a process hold together."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._caches: OrderedDict[TailCache, None] = OrderedDict()
        """Those that hold anything, the one that grew last at the end."""
        self.bytes = 0

    def changed(self, cache: TailCache, by: int, *, is_empty: bool) -> None:
        """Notes that a cache was written to, or shrank, and has others shrink when all hold too much together."""
        self.bytes += by
        if is_empty:
            self._caches.pop(cache, None)
            return
        self._caches[cache] = None
        self._caches.move_to_end(cache)
        while self.bytes > self._limit and len(self._caches) > 1:
            next(iter(self._caches)).clear()

    def room_for(self, limit_bytes: int) -> int:
        """Returns the most that one cache may hold, which has this limit of its own."""
        return min(limit_bytes, self._limit)


class TailCache:
    """The newest batches, as the leader wrote them."""

    __slots__ = ("_bases", "_bytes", "_data", "_ends", "_head", "_limit", "_shared")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._shared: TailMemory | None = None
        self._bytes = 0
        self.clear()

    def share(self, memory: TailMemory) -> None:
        """Counts in this memory from now on; what it holds is forgotten."""
        self.clear()
        self._limit, self._shared = memory.room_for(self._limit), memory

    def _changed(self, before: int) -> None:
        if self._shared is not None:
            self._shared.changed(self, self._bytes - before, is_empty=not self._bytes)

    def clear(self) -> None:
        """Forgets everything."""
        before = self._bytes
        self._bases: list[int] = []
        self._ends: list[int] = []
        self._data: list[bytes] = []
        self._head = 0
        self._bytes = 0
        self._changed(before)

    def push(self, base_offset: int, next_offset: int, data: bytes) -> None:
        """Adds the batch that follows the newest one."""
        assert not self._ends or self._ends[-1] == base_offset, "one contiguous run of offsets"
        before = self._bytes
        self._bases.append(base_offset)
        self._ends.append(next_offset)
        self._data.append(data)
        self._bytes += len(data)
        while self._bytes > self._limit:
            self._bytes -= len(self._data[self._head])
            self._data[self._head] = b""
            self._head += 1
        if self._head >= _COMPACT_AT and self._head * 2 > len(self._bases):
            del self._bases[: self._head], self._ends[: self._head], self._data[: self._head]
            self._head = 0
        self._changed(before)

    def forget_below(self, offset: int) -> None:
        """Forgets all batches that begin below `offset`: the log holds others in their place."""
        keep = bisect_left(self._bases, offset, self._head)
        before = self._bytes
        self._bytes -= sum(map(len, self._data[self._head : keep]))
        del self._bases[:keep], self._ends[:keep], self._data[:keep]
        self._head = 0
        self._changed(before)

    def holds(self, offset: int) -> bool:
        """Returns True when it holds the batch with this offset."""
        return self._head < len(self._bases) and self._bases[self._head] <= offset < self._ends[-1]

    def read(self, offset: int, max_bytes: int, end_offset: int, room: int | None = None) -> Buffer:
        """Returns whole batches from the one with `offset` on, as `PartitionLog.read` does; `holds(offset)` is true."""
        first = bisect_right(self._bases, offset, self._head) - 1
        assert self._bases[first] <= offset < self._ends[first], "the first batch contains the offset"
        if room is not None and len(self._data[first]) > room and self._ends[first] <= end_offset:
            raise NoRoomError(len(self._data[first]))
        index, size = first, 0
        while index < len(self._bases) and self._ends[index] <= end_offset:
            length = len(self._data[index])
            if size and size + length > max_bytes:
                break
            size += length
            index += 1
        if index == first:
            return b""
        return self._data[first] if index == first + 1 else b"".join(self._data[first:index])
