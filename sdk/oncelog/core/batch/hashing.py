"""Hashes that every process must compute alike: records to partitions, ids to shards.

Rule 1: defined on bytes, never by Python's `hash`. Arrow data is routed by the same functions, vectorised (`key_hashes`).
Rule 2: ids belong to shards by FNV-1a (64 bit); this never changes. A record's key goes to its partition by FNV-1a too,
        unless the producer says `murmur2`: then it goes where Kafka's Java producer sends it.
"""

from __future__ import annotations

from typing import Final

from oncelog.config import FNV1A, MURMUR2

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_MASK: Final = 0xFFFFFFFFFFFFFFFF

MURMUR2_SEED: Final = 0x9747B28C
"""Kafka's."""
MURMUR2_FACTOR: Final = 0x5BD1E995
_MASK_32: Final = 0xFFFFFFFF
POSITIVE: Final = 0x7FFFFFFF
"""The bits of a 32-bit hash that Kafka's partitioner keeps: it drops the sign."""


def fnv1a(data: bytes) -> int:
    """FNV-1a of 64 bits."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return value


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with Kafka's seed, unsigned; Java prints those from 2^31 on as negative numbers."""
    return murmur2_of_rest((MURMUR2_SEED ^ len(data)) & _MASK_32, data)


def murmur2_of_rest(value: int, rest: bytes) -> int:
    """Goes on with a hash after a whole number of words of four bytes, and finishes it."""
    whole = len(rest) & ~3
    for at in range(0, whole, 4):
        word = (int.from_bytes(rest[at : at + 4], "little") * MURMUR2_FACTOR) & _MASK_32
        word = ((word ^ (word >> 24)) * MURMUR2_FACTOR) & _MASK_32
        value = ((value * MURMUR2_FACTOR) & _MASK_32) ^ word
    if whole < len(rest):
        value = ((value ^ int.from_bytes(rest[whole:], "little")) * MURMUR2_FACTOR) & _MASK_32
    value = ((value ^ (value >> 13)) * MURMUR2_FACTOR) & _MASK_32
    return value ^ (value >> 15)


def partition_for_key(key: bytes, partitions: int, key_hash: str = FNV1A) -> int:
    """The partition of a keyed record; `key_hash` is one of `config.KEY_HASHES`."""
    value = murmur2(key) & POSITIVE if key_hash == MURMUR2 else fnv1a(key)
    return value % partitions


def shard_for(name: str, shards: int) -> int:
    """The shard that owns a transactional id or a group id."""
    return fnv1a(name.encode()) % shards
