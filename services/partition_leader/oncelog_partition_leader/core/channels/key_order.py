"""The order of the records of a key: only the first unsettled one of each may be with a worker.

Rule 1: a record is at the head when no earlier unsettled record has the hash of its key. Two keys with the same hash wait for
    each other, which costs time and breaks nothing.
Rule 2: records without a key are always at the head.
Rule 3: records come in ascending order. A key with one record costs one entry of a dict, each further record a link.
"""

from __future__ import annotations

from typing import Final

NO_KEY: Final = -1
"""The hash of a record without a key."""


class KeyOrder:
    """The unsettled records of each key."""

    __slots__ = ("_heads", "_next", "_tails")

    def __init__(self) -> None:
        self._heads: dict[int, int] = {}
        """Key -> its first unsettled offset."""
        self._tails: dict[int, int] = {}
        """Key -> its last one, for keys with several."""
        self._next: dict[int, int] = {}
        """Offset -> the next one of the same key."""

    def add(self, key: int, offset: int) -> None:
        """Adds a record, above all others of its key."""
        if key == NO_KEY:
            return
        head = self._heads.setdefault(key, offset)
        if head == offset:
            return
        last = self._tails.get(key, head)
        assert last < offset, "records of a key come in ascending order"
        self._next[last] = offset
        self._tails[key] = offset

    def is_head(self, key: int, offset: int) -> bool:
        """Returns True when no earlier unsettled record has the key."""
        return key == NO_KEY or self._heads.get(key) == offset

    def remove(self, key: int, offset: int) -> int | None:
        """Removes a record, and returns the one that is at the head of its key instead of it, or None."""
        if key == NO_KEY:
            return None
        after = self._next.pop(offset, None)
        if self._heads.get(key) != offset:
            self._unlink(key, offset, after)
            return None
        if after is None:
            del self._heads[key]
            return None
        self._heads[key] = after
        if self._tails[key] == after:
            del self._tails[key]
        return after

    def _unlink(self, key: int, offset: int, after: int | None) -> None:
        before = self._heads[key]
        while self._next[before] != offset:
            before = self._next[before]
        if after is not None:
            self._next[before] = after
            return
        del self._next[before]
        if self._heads[key] == before:
            del self._tails[key]
        else:
            self._tails[key] = before

    def chain(self, key: int) -> list[int]:
        """Returns the unsettled records of a key, in ascending order."""
        offset = self._heads.get(key)
        chain = []
        while offset is not None:
            chain.append(offset)
            offset = self._next.get(offset)
        return chain

    def clear(self) -> None:
        """Forgets everything."""
        self._heads.clear()
        self._tails.clear()
        self._next.clear()

    def check(self) -> None:
        """Asserts that heads, tails and links agree."""
        linked = 0
        for key in self._heads:
            chain = self.chain(key)
            assert chain == sorted(set(chain)), "a chain ascends"
            assert self._tails.get(key, chain[0]) == chain[-1], "the tail is the last of its chain"
            linked += len(chain) - 1
        assert linked == len(self._next), "every link belongs to a key"
        assert self._tails.keys() <= self._heads.keys(), "only a key with records has a tail"
