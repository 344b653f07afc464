"""Routing of whole Arrow batches agrees with the routing of single records."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from oncelog.core import partitioner
from oncelog.core.hashing import fnv1a, partition_for_key
from oncelog.errors import InvalidRecordError


def some_keys(count: int) -> list[bytes | None]:
    random = Random(1)
    sizes = [0, 1, 5, 8, 20, 300]
    return [random.randbytes(random.choice(sizes)) if random.random() > 0.1 else None for _ in range(count)]


@pytest.mark.parametrize("start", [0, 7, 999])
def test_hashes_agree_with_the_scalar_function(start: int) -> None:
    keys = some_keys(1_000)
    array = pa.array(keys, pa.binary()).slice(start)
    for key, value in zip(keys[start:], partitioner.fnv1a_all(array), strict=True):
        assert key is None or int(value) == fnv1a(key)


@pytest.mark.parametrize("start", [0, 1, 99])
@pytest.mark.parametrize("size", [1, 16, 33])
def test_keys_of_one_length_hash_the_same(size: int, start: int) -> None:
    keys = [Random(n).randbytes(size) for n in range(100)]
    found = partitioner.fnv1a_all(pa.array(keys, pa.binary()).slice(start))
    assert [int(value) for value in found] == [fnv1a(key) for key in keys[start:]]


def test_empty_keys_beside_others() -> None:
    array = pa.array([b"abc", b"", b"", b"de"], pa.binary())
    assert set(partitioner.fnv1a_all(array.slice(1, 2)).tolist()) == {fnv1a(b"")}


def test_hashes_of_nothing() -> None:
    assert len(partitioner.fnv1a_all(pa.array([], pa.binary()))) == 0
    assert set(partitioner.fnv1a_all(pa.array([b"", None], pa.binary())).tolist()) == {fnv1a(b"")}


def test_rows_go_where_their_key_says_and_keep_their_order() -> None:
    keys = some_keys(500)
    batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array([b"%d" % i for i in range(500)])})
    routed = dict(partitioner.route(batch, 7, sticky=3))
    assert sum(rows.num_rows for rows in routed.values()) == 500
    for partition, rows in routed.items():
        for key in rows.column("key").to_pylist():
            assert partition == (3 if key is None else partition_for_key(key, 7))
        numbers = [int(value) for value in rows.column("value").to_pylist()]
        assert numbers == sorted(numbers)


def test_text_keys_are_routed_like_their_utf_8() -> None:
    rows = pa.record_batch({"key": pa.array(["ä", "b"]), "value": pa.array([b"", b""])})
    expected = [partition_for_key(key.encode(), 5) for key in ("ä", "b")]
    assert partitioner.partitions_for(rows, 5, 0).tolist() == expected


def test_a_partition_column_wins_where_it_is_not_null() -> None:
    rows = pa.record_batch({"value": pa.array([b""] * 3), "partition": pa.array([2, None, 0], pa.int32())})
    assert partitioner.partitions_for(rows, 3, sticky=1).tolist() == [2, 1, 0]
    with pytest.raises(InvalidRecordError):
        partitioner.partitions_for(rows, 2, sticky=1)


def test_pieces_stay_below_the_bound_and_lose_nothing() -> None:
    values = [bytes(size) for size in (10, 5_000, 10, 10, 900, 100)]
    pieces = partitioner.cut(pa.record_batch({"value": pa.array(values)}), 1_000)
    assert [rows.num_rows for rows, _ in pieces] == [1, 1, 3, 1]
    assert all(size <= 1_000 or rows.num_rows == 1 for rows, size in pieces)
    assert [value for rows, _ in pieces for value in rows.column("value").to_pylist()] == values
