"""The table of live producers, against an ordered dict of objects."""

from __future__ import annotations

from collections import OrderedDict
from random import Random

import pytest

from oncelog_partition_leader.core.producers import live_producers
from oncelog_partition_leader.core.producers.live_producers import LiveProducers
from oncelog_partition_leader.core.producers.packed_entry import ProducerEntry, pack_entry
from oncelog_partition_leader.core.producers.sequence_window import SequenceWindow


def entry(last_seen_ms: int) -> ProducerEntry:
    made = ProducerEntry(last_seen_ms % 7, SequenceWindow(), last_seen_ms)
    made.window.push(0, 1 + last_seen_ms % 5, last_seen_ms, 1, 2)
    return made


@pytest.mark.parametrize(("seed", "objects"), [(seed, objects) for seed in range(4) for objects in (1, 8, 1_000)])
def test_it_is_a_dict_in_the_order_of_the_last_put(seed: int, objects: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_producers, "OBJECTS_MAX", objects)
    monkeypatch.setattr(live_producers, "_READ_MAX", 3)
    random, table, model = Random(seed), LiveProducers(), OrderedDict[int, bytes]()
    for now_ms in range(1_500):
        producer_id = random.randrange(40)
        found = table.get(producer_id)
        assert (found is not None) == (producer_id in model) == (producer_id in table)
        if found is not None:
            assert pack_entry(producer_id, found) == model[producer_id]
        if random.random() < 0.1 and model:
            expected, (popped, gone) = model.popitem(last=False), table.pop_oldest()
            assert (popped, pack_entry(popped, gone)) == expected
        elif random.random() < 0.6:
            changed = entry(now_ms)
            table.put(producer_id, changed)
            model.pop(producer_id, None)
            model[producer_id] = pack_entry(producer_id, changed)
        assert len(table) == len(model)
    table.check()
    assert list(table) == list(model)
    assert list(table.frozen().records()) == list(model.values())
    assert [pack_entry(*item) for item in table.items()] == list(model.values())
    assert table.oldest_seen_ms() == next(table.items())[1].last_seen_ms


def test_nothing_is_oldest_in_an_empty_table() -> None:
    table = LiveProducers()
    assert table.oldest_seen_ms() is None
    with pytest.raises(KeyError):
        table[7]


def test_most_of_many_producers_are_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_producers, "OBJECTS_MAX", 10)
    table = LiveProducers()
    for producer_id in range(500):
        table.put(producer_id, entry(producer_id))
    assert len(table._objects) == 10
    assert all(isinstance(record, bytes) for record in table._packed.values())
    taken = table.frozen()
    assert len(taken) == 500


def test_who_reads_an_entry_and_then_changes_it_decodes_it_once() -> None:
    table = LiveProducers()
    table.put_packed(7, pack_entry(7, entry(5)))
    read = table.get(7)
    assert read is not None
    assert table.get(7) is read
    table.put(7, read)
    assert table.get(7) is read
    table.check()


def test_records_that_were_taken_stay_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_producers, "OBJECTS_MAX", 4)
    table = LiveProducers()
    for producer_id in range(20):
        table.put(producer_id, entry(producer_id))
    taken = table.frozen()
    before = list(taken.records())
    for producer_id in (3, 19, 50):
        table.put(producer_id, entry(100 + producer_id))
    table.pop_oldest()
    assert list(taken.records()) == before
