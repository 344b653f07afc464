"""A set of offsets, kept as inclusive ranges.

Rule 1: ranges are in ascending order, not empty, and no two of them touch; so a set has one form only.
Rule 2: a run of neighbours costs what one offset costs. A step finds its place by bisection; beside the ranges that it changes
    it moves only the tail of two lists, which is cheap up to the window of a channel (1,000,000 offsets).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

OffsetRange = tuple[int, int]
"""(first, last), both inclusive."""


class OffsetRanges:
    """A set of offsets. `count` is the number of offsets, `len` that of ranges."""

    __slots__ = ("_firsts", "_lasts", "count")

    def __init__(self, ranges: Iterable[OffsetRange] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.count = 0
        for first, last in ranges:
            self.add(first, last)

    def add(self, first: int, last: int) -> None:
        """Adds all offsets from `first` to `last`, inclusive; none when `last` is below `first`."""
        if last < first:
            return
        firsts, lasts = self._firsts, self._lasts
        low = bisect_left(lasts, first - 1)
        high = bisect_right(firsts, last + 1, low)
        if low < high:
            self.count -= sum(lasts[at] - firsts[at] + 1 for at in range(low, high))
            first, last = min(first, firsts[low]), max(last, lasts[high - 1])
        firsts[low:high] = [first]
        lasts[low:high] = [last]
        self.count += last - first + 1

    def remove(self, first: int, last: int) -> None:
        """Removes all offsets from `first` to `last`, inclusive, that the set has."""
        if last < first:
            return
        firsts, lasts = self._firsts, self._lasts
        low = bisect_left(lasts, first)
        high = bisect_right(firsts, last, low)
        if low == high:
            return
        begin, end = firsts[low], lasts[high - 1]
        self.count -= sum(lasts[at] - firsts[at] + 1 for at in range(low, high))
        rest = [piece for piece in ((begin, first - 1), (last + 1, end)) if piece[0] <= piece[1]]
        firsts[low:high] = [piece[0] for piece in rest]
        lasts[low:high] = [piece[1] for piece in rest]
        self.count += sum(piece[1] - piece[0] + 1 for piece in rest)

    def remove_below(self, offset: int) -> None:
        """Removes all offsets below `offset`."""
        if self._firsts:
            self.remove(self._firsts[0], offset - 1)

    def pop_first(self, most: int) -> OffsetRange:
        """Removes up to `most` neighbours, the lowest ones of the set, and returns them; of a set that is not empty."""
        first = self._firsts[0]
        last = min(self._lasts[0], first + most - 1)
        self.remove(first, last)
        return first, last

    def clear(self) -> None:
        """Removes everything."""
        self._firsts.clear()
        self._lasts.clear()
        self.count = 0

    def __contains__(self, offset: object) -> bool:
        assert isinstance(offset, int), "only offsets are members"
        at = bisect_left(self._lasts, offset)
        return at < len(self._firsts) and self._firsts[at] <= offset

    def __iter__(self) -> Iterator[OffsetRange]:
        return zip(self._firsts, self._lasts, strict=True)

    def __len__(self) -> int:
        return len(self._firsts)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetRanges) and self._firsts == other._firsts and self._lasts == other._lasts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"OffsetRanges({list(self)})"

    @property
    def first(self) -> int:
        """The lowest offset; of a set that is not empty."""
        return self._firsts[0]

    @property
    def last(self) -> int:
        """The highest offset; of a set that is not empty."""
        return self._lasts[-1]

    def first_gap(self, offset: int) -> int:
        """Returns the first offset at or above `offset` that the set does not have."""
        at = bisect_left(self._lasts, offset)
        return self._lasts[at] + 1 if at < len(self._firsts) and self._firsts[at] <= offset else offset

    def within(self, first: int, last: int) -> Iterator[OffsetRange]:
        """Yields the set's ranges, cut to [first, last]. The set must not change meanwhile."""
        at = bisect_left(self._lasts, first)
        while at < len(self._firsts) and self._firsts[at] <= last:
            yield max(first, self._firsts[at]), min(last, self._lasts[at])
            at += 1

    def gaps(self, first: int, last: int) -> Iterator[OffsetRange]:
        """Yields the ranges of [first, last] that the set does not have. The set must not change meanwhile."""
        for begin, end in self.within(first, last):
            if first < begin:
                yield first, begin - 1
            first = end + 1
        if first <= last:
            yield first, last
