"""The table of expired producers, against a plain dict."""

from __future__ import annotations

from random import Random

import pytest

from oncelog_partition_leader.core.producers.expired_producers import RECORD_BYTES, ExpiredEntry, ExpiredProducers


def agrees(table: ExpiredProducers, model: dict[int, ExpiredEntry]) -> None:
    table.check()
    assert len(table) == len(model)
    assert list(table) == sorted(model)
    again = ExpiredProducers.load(b"".join(table.leaves()))
    again.check()
    assert {producer_id: again.get(producer_id) for producer_id in again} == model


@pytest.mark.parametrize("spread", [3_000, 1 << 62])
def test_it_is_a_dict_in_order(spread: int) -> None:
    random = Random(spread)
    table, model = ExpiredProducers(), dict[int, ExpiredEntry]()
    for step in range(6_000):
        producer_id = random.randrange(spread)
        if random.random() < 0.7:
            table[producer_id] = model[producer_id] = ExpiredEntry(random.randrange(9), step, step + 1)
        else:
            chosen = random.choice([producer_id, *list(model)[:1]])
            table.discard(chosen)
            model.pop(chosen, None)
        assert table.get(producer_id) == model.get(producer_id)
    agrees(table, model)
    for producer_id in list(model):
        table.discard(producer_id)
        del model[producer_id]
    agrees(table, model)


def test_an_entry_takes_24_bytes_and_no_leaf_is_large() -> None:
    table = ExpiredProducers()
    for producer_id in range(20_000):
        table[producer_id * 7] = ExpiredEntry(0, 0, 1)
    leaves = table.leaves()
    assert sum(map(len, leaves)) == 20_000 * RECORD_BYTES == 20_000 * 24
    assert max(map(len, leaves)) <= 512 * RECORD_BYTES
    assert min(map(len, leaves)) >= 128 * RECORD_BYTES, "nor are there very many"


def test_leaves_that_were_taken_stay_as_they_were() -> None:
    table = ExpiredProducers()
    for producer_id in range(1_000):
        table[producer_id] = ExpiredEntry(0, 0, 1)
    taken = table.leaves()
    before = b"".join(taken)
    for producer_id in range(500):
        table.discard(producer_id)
        table[5_000 + producer_id] = ExpiredEntry(1, 1, 2)
    assert b"".join(taken) == before
