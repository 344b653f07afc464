"""The hash of a whole column is the hash of each of its keys, whatever their lengths."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oncelog.config import KEY_HASHES
from oncelog.core.batch import hashing, key_hashes

PAIRS: list[tuple[Callable[[Any], Any], Callable[[bytes], int]]] = [
    (key_hashes.fnv1a_all, hashing.fnv1a),
    (key_hashes.murmur2_all, hashing.murmur2),
]
both = pytest.mark.parametrize(("of_all", "of_one"), PAIRS, ids=["fnv1a", "murmur2"])


def some_keys(count: int) -> list[bytes | None]:
    """Of many lengths, some null, some alone with theirs."""
    random = Random(1)
    sizes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 20, 300]
    return [random.randbytes(random.choice(sizes)) if random.random() > 0.1 else None for _ in range(count)]


@both
@pytest.mark.parametrize("start", [0, 7, 999])
def test_hashes_agree_with_the_scalar_function(of_all: Any, of_one: Any, start: int) -> None:
    keys = some_keys(1_000)
    found = of_all(pa.array(keys, pa.binary()).slice(start))
    for key, value in zip(keys[start:], found, strict=True):
        assert key is None or int(value) == of_one(key)


@both
@pytest.mark.parametrize("start", [0, 1, 99])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 16, 33, 34, 35])
def test_keys_of_one_length_hash_the_same(of_all: Any, of_one: Any, size: int, start: int) -> None:
    keys = [Random(n).randbytes(size) for n in range(100)]
    found = of_all(pa.array(keys, pa.binary()).slice(start))
    assert found.tolist() == [of_one(key) for key in keys[start:]]


@both
@pytest.mark.parametrize("long_ones", [1, 15, 16, 17])
def test_few_long_keys_among_short_ones(of_all: Any, of_one: Any, long_ones: int) -> None:
    keys = [b"k%d" % n for n in range(50)] + [Random(n).randbytes(1_000 + 7 * n) for n in range(long_ones)]
    Random(2).shuffle(keys)
    assert of_all(pa.array(keys, pa.binary())).tolist() == [of_one(key) for key in keys]


@both
def test_empty_keys_beside_others(of_all: Any, of_one: Any) -> None:
    array = pa.array([b"abc", b"", b"", b"de"], pa.binary())
    assert of_all(array).tolist() == [of_one(key) for key in (b"abc", b"", b"", b"de")]
    assert set(of_all(array.slice(1, 2)).tolist()) == {of_one(b"")}


@both
def test_hashes_of_nothing(of_all: Any, of_one: Any) -> None:
    assert len(of_all(pa.array([], pa.binary()))) == 0
    assert set(of_all(pa.array([b"", None], pa.binary())).tolist()) == {of_one(b"")}


@pytest.mark.parametrize("key_hash", KEY_HASHES)
@pytest.mark.parametrize("count", [2, 7, 1_024])
def test_partitions_agree_with_those_of_single_keys(key_hash: str, count: int) -> None:
    keys = [key for key in some_keys(500) if key is not None]
    found = key_hashes.partitions_of(pa.array(keys, pa.binary()), count, key_hash)
    assert found.dtype == np.int64
    assert found.tolist() == [hashing.partition_for_key(key, count, key_hash) for key in keys]
