"""Arithmetic of offsets that are settled: ranges as they come in, and bit maps of blocks as they are kept.

Rule 1: a range is (first, last), the last one included.
Rule 2: a block has `BLOCK` offsets, from a multiple of `BLOCK` on; bit i of its map is its offset number i.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

BLOCK: Final = 1_024
ALL_SETTLED: Final = (1 << BLOCK) - 1


class OffsetRange(NamedTuple):
    """Neighbouring offsets, `last` included."""

    first: int
    last: int


def union(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Returns the same offsets in as few ranges as there can be, by offset."""
    found: list[OffsetRange] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1].last + 1:
            found[-1] = OffsetRange(found[-1].first, max(found[-1].last, last))
        else:
            found.append(OffsetRange(first, last))
    return tuple(found)


def number_of_blocks(ranges: Iterable[OffsetRange]) -> int:
    """Returns at most how many blocks hold offsets of these ranges."""
    return sum(last // BLOCK - first // BLOCK + 1 for first, last in ranges)


def bits_of(ranges: Iterable[OffsetRange], from_offset: int) -> dict[int, int]:
    """Returns the offsets from `from_offset` on as bit maps by the number of their block."""
    found: dict[int, int] = {}
    for first, last in ranges:
        for block in range(max(first, from_offset) // BLOCK, last // BLOCK + 1):
            low = max(first, from_offset, block * BLOCK) - block * BLOCK
            high = min(last - block * BLOCK, BLOCK - 1)
            if low <= high:
                found[block] = found.get(block, 0) | ((1 << (high - low + 1)) - 1) << low
    return found


def first_unsettled(offset: int, bits: Mapping[int, int]) -> int:
    """Returns the first offset, from this one on, that is not set in the bit maps."""
    while True:
        block, place = divmod(offset, BLOCK)
        rest = (ALL_SETTLED & ~bits.get(block, 0)) >> place
        if rest:
            return offset + (rest & -rest).bit_length() - 1
        offset = (block + 1) * BLOCK


def is_set(offset: int, bits: Mapping[int, int]) -> bool:
    """True when the offset is set in the bit maps."""
    block, place = divmod(offset, BLOCK)
    return bool(bits.get(block, 0) >> place & 1)


def from_offset_on(block: int, bits: int, offset: int) -> int:
    """Returns the bit map of a block without what lies before the offset."""
    place = min(max(offset - block * BLOCK, 0), BLOCK)
    return bits >> place << place


def before_offset(block: int, bits: int, offset: int) -> int:
    """Returns the bit map of a block without the offset and what lies behind it."""
    place = min(max(offset - block * BLOCK, 0), BLOCK)
    return bits & ((1 << place) - 1)


def ranges_before(ranges: Iterable[OffsetRange], offset: int) -> tuple[OffsetRange, ...]:
    """Returns the ranges without the offset and what lies behind it."""
    return tuple(OffsetRange(first, min(last, offset - 1)) for first, last in ranges if first < offset)


def offsets_of(block: int, bits: int) -> Iterator[int]:
    """Yields the offsets that are set."""
    while bits:
        lowest = bits & -bits
        yield block * BLOCK + lowest.bit_length() - 1
        bits ^= lowest
