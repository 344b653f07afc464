"""The newest offset of each key, exactly, within bounds."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from oncelog_partition_leader.core.compaction.key_offsets import ABSENT, KeyOffsets


def array(*keys: bytes | None) -> pa.Array:
    return pa.array(keys, pa.binary())


@pytest.mark.parametrize("seed", range(5))
def test_it_says_what_a_dict_says(seed: int) -> None:
    random, model, keys, offset = Random(seed), {}, KeyOffsets(1 << 20, 1 << 30), 0
    for _ in range(20):
        some = [random.choice([None, random.randbytes(random.randrange(3))]) for _ in range(random.randrange(1, 50))]
        offsets = np.arange(offset, offset + len(some), dtype=np.int64)
        keys.add(array(*some), offsets)
        model |= {key: int(at) for key, at in zip(some, offsets, strict=True) if key is not None}
        offset += len(some)
        asked = [None, b"", *(random.randbytes(random.randrange(3)) for _ in range(20))]
        assert keys.newest(array(*asked)).tolist() == [model.get(key, ABSENT) for key in asked]
    assert len(keys) == len(model)


def test_it_is_full_by_keys_and_by_their_bytes() -> None:
    by_count, by_bytes = KeyOffsets(3, 1 << 20), KeyOffsets(100, 1_000)
    for number in range(3):
        assert not by_count.is_full
        assert not by_bytes.is_full
        by_count.add(array(b"%d" % number, b"%d" % number), np.array([number, number + 1]))
        by_bytes.add(array(b"%d" % number * 400), np.array([number]))
    assert by_count.is_full
    assert by_bytes.is_full


def test_the_same_keys_again_and_again_fill_nothing() -> None:
    keys = KeyOffsets(4, 1 << 20)
    for number in range(50):
        keys.add(array(b"a", b"b"), np.array([2 * number, 2 * number + 1]))
        assert not keys.is_full
    assert keys.newest(array(b"a", b"b", b"c")).tolist() == [98, 99, ABSENT]


def test_without_keys_nothing_is_known() -> None:
    assert KeyOffsets(1, 1).newest(array(b"a", None)).tolist() == [ABSENT, ABSENT]
