"""Which markers of a txn_producer_id are remembered, and the bytes of that."""

from __future__ import annotations

from random import Random

import pytest

from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.producers.txn_producer import (
    MARKERS_KEPT,
    NUMBERS_KEPT,
    KnownMarker,
    TxnProducer,
    pack_txn_producer,
    record_end,
    session_epoch_of,
    txn_producer_id_of,
    unpack_txn_producer,
)


def test_markers_out_of_order_are_all_remembered() -> None:
    producer = TxnProducer()
    for number, offset in ((3, 10), (1, 11), (2, 12)):
        assert producer.marker(number) is None
        producer.end(KnownMarker(number, offset, True))
    assert [producer.marker(number) for number in (1, 2, 3)] == [
        KnownMarker(1, 11, True),
        KnownMarker(2, 12, True),
        KnownMarker(3, 10, True),
    ]
    assert producer.marker(4) is None


def test_few_markers_are_kept_and_older_ones_known_by_the_newest() -> None:
    producer = TxnProducer()
    for number in range(1, 30):
        producer.end(KnownMarker(number, number, True))
    assert len(producer.markers) == MARKERS_KEPT
    assert producer.marker(5) == KnownMarker(29, 29, True)


def test_a_marker_that_was_never_written_is_known_to_be_missing_for_a_thousand_numbers() -> None:
    producer = TxnProducer()
    for number in range(2, NUMBERS_KEPT + 1):
        producer.end(KnownMarker(number, 100 + number, True))
    assert producer.marker(1) is None, "it waited in a call while all the others came by"
    late = KnownMarker(1, 5_000, True)
    producer.end(late)
    assert producer.marker(1) == late
    newest = KnownMarker(NUMBERS_KEPT + 1, 5_001, True)
    producer.end(newest)
    assert producer.marker(1) == producer.marker(2) == newest, "both are in the log, below the newest"
    assert producer.marker(-NUMBERS_KEPT) == newest, "further back it was certainly written"


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize("seed", range(20))
def test_packing_loses_nothing(seed: int) -> None:
    random, known = Random(seed), TxnProducer(session_epoch=seed - 1)
    for offset in range(random.choice([0, 1, 5, 3_000])):
        known.end(KnownMarker(max(1, offset - random.randrange(5)), offset, random.random() < 0.5))
    record = pack_txn_producer(1 << 40 | seed, known)
    assert unpack_txn_producer(record) == known
    assert (txn_producer_id_of(record), session_epoch_of(record)) == (1 << 40 | seed, seed - 1)
    assert record_end(b"xyz" + record + b"behind", 3) == 3 + len(record)
    assert len(record) <= 24 + 17 * (MARKERS_KEPT + 1 + 17)


def test_a_record_that_is_cut_off_is_refused() -> None:
    known = TxnProducer()
    known.end(KnownMarker(1, 7, True))
    record = pack_txn_producer(3, known)
    for length in range(len(record)):
        with pytest.raises(CorruptMessageError):
            record_end(record[:length], 0)


def test_no_more_entries_are_believed_than_are_ever_kept() -> None:
    record = bytearray(pack_txn_producer(3, TxnProducer()) + bytes(17 * 100))
    record[20] = 9 + 17
    assert record_end(record, 0) == 24 + 17 * 26
    record[20] = 9 + 17 + 1
    with pytest.raises(CorruptMessageError):
        record_end(record, 0)


def test_a_copy_is_independent() -> None:
    known = TxnProducer()
    known.end(KnownMarker(1, 7, True))
    copy = known.copied(4)
    copy.end(KnownMarker(2, 8, True))
    copy.session_epoch = 5
    assert (known.ended_up_to, known.session_epoch, known.markers) == (1, -1, [KnownMarker(1, 7, True)])
    assert copy.generation == 4
