"""Hashes that every process must compute alike: records to partitions, ids to shards.

Rule: defined on bytes, by FNV-1a (64 bit), never by Python's `hash`. Spark's vectorised router uses the same function.
"""

from __future__ import annotations

from typing import Final

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_MASK: Final = 0xFFFFFFFFFFFFFFFF


def fnv1a(data: bytes) -> int:
    """FNV-1a of 64 bits."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return value


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a keyed record."""
    return fnv1a(key) % partitions


def shard_for(name: str, shards: int) -> int:
    """The shard that owns a transactional id or a group id."""
    return fnv1a(name.encode()) % shards
