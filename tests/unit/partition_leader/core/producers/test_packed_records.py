"""Records in leaves, against a plain dict."""

from __future__ import annotations

from random import Random

import pytest

from oncelog_partition_leader.core.producers.packed_records import PackedRecords


@pytest.mark.parametrize("spread", [300, 1 << 62])
def test_it_is_a_dict_in_order(spread: int) -> None:
    random, table, model = Random(spread), PackedRecords(), dict[int, bytes]()
    assert table.get(3) is None
    for step in range(3_000):
        one = random.randrange(-spread, spread)
        assert table.get(one) == model.get(one)
        model[one] = random.randbytes(step % 50)
        table.put(one, model[one])
    table.check()
    assert len(table) == len(model)
    assert list(table.items()) == sorted(model.items())
    assert b"".join(leaf.data for leaf in table.leaves()) == b"".join(record for _, record in sorted(model.items()))
    assert all(table.get(one) == record for one, record in model.items())


def test_a_leaf_holds_some_records_and_there_are_not_very_many_leaves() -> None:
    table = PackedRecords()
    for one in range(20_000):
        table.put(one * 3, b"12345")
    leaves = table.leaves()
    assert max(len(leaf.ids) for leaf in leaves) <= 128
    assert len(leaves) <= 20_000 / 60


def test_leaves_that_were_taken_stay_as_they_were() -> None:
    table = PackedRecords()
    for one in range(0, 500, 2):
        table.put(one, b"before")
    taken = table.leaves()
    before = b"".join(leaf.data for leaf in taken)
    for one in range(500):
        table.put(one, b"after that")
    assert b"".join(leaf.data for leaf in taken) == before


def test_leaves_can_be_added_at_the_end() -> None:
    table = PackedRecords()
    table.extend([(1, b"a"), (5, b"bc")])
    table.extend([(7, b"")])
    table.put(6, b"between")
    table.check()
    assert list(table.items()) == [(1, b"a"), (5, b"bc"), (6, b"between"), (7, b"")]
