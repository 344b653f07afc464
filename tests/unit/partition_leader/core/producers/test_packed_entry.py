"""An entry as an object and as bytes."""

from __future__ import annotations

from random import Random

import pytest

from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.producers.packed_entry import (
    PACKED_BATCHES,
    ProducerEntry,
    entry_end,
    id_of,
    last_seen_of,
    pack_entry,
    pack_window,
    unpack_entry,
    unpack_window,
    window_end,
)
from oncelog_partition_leader.core.producers.sequence_window import OLDER, SequenceWindow


def a_window(random: Random) -> SequenceWindow:
    window, sequence = SequenceWindow(), 0
    for offset in range(random.choice([0, 1, 4, 9, 40])):
        window.push(sequence, 3, offset * 3, random.getrandbits(32), random.getrandbits(41))
        sequence += 3
    return window


def an_entry(random: Random) -> ProducerEntry:
    entry = ProducerEntry(random.randrange(1 << 15), a_window(random), random.getrandbits(41))
    if random.random() < 0.5:
        entry.set_aside = random.randrange(1 << 15), a_window(random)
    return entry


def same(one: ProducerEntry, two: ProducerEntry) -> bool:
    newest = one.window.kept[-PACKED_BATCHES:]
    return pack_entry(7, one) == pack_entry(7, two) and newest == two.window.kept[-PACKED_BATCHES:]


@pytest.mark.parametrize("seed", range(30))
def test_packing_keeps_all_but_the_older_batches(seed: int) -> None:
    entry = an_entry(Random(seed))
    record = pack_entry(1 << 50 | seed, entry)
    again = unpack_entry(record, 9)
    assert same(entry, again)
    assert (again.producer_epoch, again.last_seen_ms, again.generation) == (entry.producer_epoch, entry.last_seen_ms, 9)
    assert (again.set_aside is None) == (entry.set_aside is None)
    assert (id_of(record), last_seen_of(record)) == (1 << 50 | seed, entry.last_seen_ms)
    assert entry_end(b"xyz" + record + b"behind", 3) == 3 + len(record)
    window = pack_window(entry.window)
    assert window_end(window, 0) == len(window)
    found = unpack_window(window, 0)
    assert found.kept == entry.window.kept[-PACKED_BATCHES:]
    for batch in entry.window.kept:  # what is not kept is known by its sequences alone
        assert found.find(batch.base_sequence, batch.last_sequence) == (batch if batch in found.kept else OLDER)


@pytest.mark.parametrize("seed", range(5))
def test_a_record_that_is_cut_off_is_refused(seed: int) -> None:
    record = pack_entry(3, an_entry(Random(seed)))
    for length in range(len(record)):
        with pytest.raises(CorruptMessageError):
            entry_end(record[:length], 0)


def test_no_more_batches_are_believed_than_are_ever_kept() -> None:
    window = bytearray(pack_window(SequenceWindow()) + bytes(28 * 10))
    window[20] = 5
    assert window_end(window, 0) == 24 + 5 * 28
    window[20] = 6
    with pytest.raises(CorruptMessageError):
        window_end(window, 0)


def test_a_copy_is_independent() -> None:
    entry = an_entry(Random(3))
    before = pack_entry(7, entry)
    copy = entry.copied(2)
    assert pack_entry(7, copy) == before
    copy.window.push(0, 1, 99, 1, 1)
    copy.producer_epoch += 1
    copy.set_aside = None
    assert pack_entry(7, entry) == before


def test_the_window_of_an_epoch_is_the_current_one_or_the_one_set_aside() -> None:
    entry, older = ProducerEntry(4, SequenceWindow(), 1), SequenceWindow()
    entry.set_aside = 3, older
    assert entry.window_of(4) is entry.window
    assert entry.window_of(3) is older
    assert entry.window_of(2) is None
