"""Keys go to the partitions that they always went to; with murmur2, to those of Kafka's Java producer."""

from __future__ import annotations

import pytest

from oncelog.config import FNV1A, KEY_HASHES, MURMUR2
from oncelog.core.batch.hashing import fnv1a, murmur2, partition_for_key, shard_for

KAFKAS = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
    "": 275646681,
    "1": -1993445489,
    "12": 126087238,
    "123": -267702483,
    "1234": -1614185708,
    "12345": -1188365604,
    "kafka": -798503068,
    "234": -406844982,
    "34": -2026295078,
}
"""What Kafka's Java client makes of these keys, signed as Java prints it: the first six are those of its own test, the others
are told of it by clients in other languages."""


@pytest.mark.parametrize(("key", "expected"), KAFKAS.items())
def test_murmur2_is_kafkas(key: str, expected: int) -> None:
    """Regression: co-partitioning with Kafka broke."""
    value = murmur2(key.encode())
    assert 0 <= value < 1 << 32
    assert value - (value >> 31 << 32) == expected, "as a signed number of 32 bits"


@pytest.mark.parametrize(("key", "expected"), KAFKAS.items())
@pytest.mark.parametrize("partitions", [1, 3, 6, 64, 1_000])
def test_the_partition_of_a_key_is_kafkas(key: str, expected: int, partitions: int) -> None:
    """Kafka's toPositive drops the sign bit; it is no absolute value."""
    assert partition_for_key(key.encode(), partitions, MURMUR2) == (expected & 0x7FFFFFFF) % partitions


def test_fnv1a_is_the_default_and_never_changes() -> None:
    """The values are those of the algorithm's authors."""
    assert fnv1a(b"") == 0xCBF29CE484222325
    assert fnv1a(b"a") == 0xAF63DC4C8601EC8C
    assert fnv1a(b"foobar") == 0x85944171F73967E8
    assert KEY_HASHES[0] == FNV1A
    assert partition_for_key(b"foobar", 6) == partition_for_key(b"foobar", 6, FNV1A) == 0x85944171F73967E8 % 6
    assert shard_for("foobar", 6) == 0x85944171F73967E8 % 6
