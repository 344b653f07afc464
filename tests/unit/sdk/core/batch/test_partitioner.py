"""Routing of whole Arrow batches agrees with the routing of single records."""

from __future__ import annotations

import pyarrow as pa
import pytest

from oncelog.config import KEY_HASHES
from oncelog.core.batch import partitioner
from oncelog.core.batch.hashing import partition_for_key
from oncelog.errors import InvalidRecordError
from tests.unit.sdk.core.batch.test_key_hashes import some_keys


@pytest.mark.parametrize("key_hash", KEY_HASHES)
def test_rows_go_where_their_key_says_and_keep_their_order(key_hash: str) -> None:
    keys = some_keys(500)
    batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array([b"%d" % i for i in range(500)])})
    routed = dict(partitioner.route(batch, 7, 3, key_hash))
    assert sum(rows.num_rows for rows in routed.values()) == 500
    for partition, rows in routed.items():
        for key in rows.column("key").to_pylist():
            assert partition == (3 if key is None else partition_for_key(key, 7, key_hash))
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
