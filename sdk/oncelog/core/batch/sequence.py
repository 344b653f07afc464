"""Arithmetic of sequence numbers: a ring of 2^31 values, 0 to 2^31-1, in which 0 follows 2^31-1.

Rule: two sequences are never compared with `<`; whether one lies before another is a distance in the ring (hole 21:
with last = 2^31-1 a comparison takes the next batch, 0 to 9, for an old one, and it is never written).
"""

from __future__ import annotations

from typing import Final

SEQUENCES: Final = 1 << 31
MAX_SEQUENCE: Final = SEQUENCES - 1
DUPLICATE_WINDOW: Final = 1 << 30
"""A batch that ends less than this many records behind the newest one is an old one; anything else lies ahead."""

_MASK: Final = MAX_SEQUENCE


def successor(sequence: int) -> int:
    """The sequence of the next record; 0 after `MAX_SEQUENCE`, and 0 after -1 (nothing written yet)."""
    return (sequence + 1) & _MASK


def distance(start: int, end: int) -> int:
    """How many steps forward lead from `start` to `end`, 0 to 2^31-1."""
    return (end - start) & _MASK


def last_sequence(base_sequence: int, record_count: int) -> int:
    """The sequence of a batch's last record; a batch may straddle the wrap."""
    return (base_sequence + record_count - 1) & _MASK
