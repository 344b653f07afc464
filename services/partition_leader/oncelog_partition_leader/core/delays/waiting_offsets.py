"""Which offsets of a waiting partition wait: one bit each.

Rule: an offset waits from when its record was read until it is taken out, once. `first` is what the log has to keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

_BLOCK: Final = 1_024

Offsets = np.ndarray[tuple[int], np.dtype[np.int64]]
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


class WaitingOffsets:
    """A set of offsets, in blocks of 1,024 bits: some 200 bytes a block."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, offset: int) -> bool:
        return bool(self._blocks.get(offset // _BLOCK, 0) >> offset % _BLOCK & 1)

    def among(self, offsets: Offsets) -> Mask:
        """Tells which of these offsets are there: a step for each block, not for each offset."""
        numbers, of = np.unique(offsets // _BLOCK, return_inverse=True)
        flags = np.empty((len(numbers), _BLOCK), np.bool_)
        for row, number in enumerate(numbers.tolist()):
            flags[row] = _flags(self._blocks.get(number, 0))
        found: Mask = flags[of, offsets % _BLOCK]
        return found

    def add(self, offsets: Offsets) -> None:
        """Adds offsets that are not there, each once."""
        for number in np.unique(offsets // _BLOCK).tolist():
            inside = offsets[offsets // _BLOCK == number] % _BLOCK
            bits = _bits(inside)
            assert not self._blocks.get(number, 0) & bits, "an offset begins to wait once"
            self._blocks[number] = self._blocks.get(number, 0) | bits
        self._count += len(offsets)

    def remove(self, offsets: Iterable[int]) -> None:
        """Removes offsets; those that are not there are passed over."""
        for offset in offsets:
            number, bit = offset // _BLOCK, 1 << offset % _BLOCK
            bits = self._blocks.get(number, 0)
            if bits & bit:
                self._count -= 1
                if bits == bit:
                    del self._blocks[number]
                else:
                    self._blocks[number] = bits ^ bit

    def first(self) -> int | None:
        """Returns the lowest offset; None when nothing waits."""
        if not self._blocks:
            return None
        number = min(self._blocks)
        bits = self._blocks[number]
        return number * _BLOCK + (bits & -bits).bit_length() - 1


def _bits(inside: Offsets) -> int:
    """Returns an integer with these bits set."""
    flags = np.zeros(_BLOCK, np.uint8)
    flags[inside] = 1
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _flags(bits: int) -> Mask:
    """Returns the bits of a block, one by one."""
    packed = np.frombuffer(bits.to_bytes(_BLOCK // 8, "little"), np.uint8)
    return np.unpackbits(packed, bitorder="little").astype(np.bool_)
