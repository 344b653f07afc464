"""Shards over coordinators: even, the same everywhere, few moves."""

from __future__ import annotations

from collections import Counter

import pytest

from oncelog_coordinator.core.assignment import assign


@pytest.mark.parametrize("count", range(1, 8))
def test_even_and_complete(count: int) -> None:
    addresses = [f"coordinator-{i}:9092" for i in range(count)]
    chosen = assign("txn", 50, addresses)
    assert sorted(chosen) == list(range(50))
    loads = Counter(chosen.values())
    assert len(loads) == count
    assert max(loads.values()) <= -(-50 // count)


def test_the_order_in_which_coordinators_are_seen_does_not_matter() -> None:
    assert assign("txn", 50, ["a", "b", "c"]) == assign("txn", 50, ["c", "a", "b", "a"])


def test_nobody_owns_nothing() -> None:
    assert assign("txn", 50, []) == {}


def test_when_one_leaves_most_shards_stay() -> None:
    before = assign("group", 60, ["a:1", "b:1", "c:1"])
    after = assign("group", 60, ["a:1", "b:1"])
    moved = [shard for shard, address in before.items() if address != "c:1" and after[shard] != address]
    assert len(moved) <= 12
