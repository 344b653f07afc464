"""Names, markers and stability of transactions."""

from __future__ import annotations

from oncelog_partition_leader.core.producers.producer_entry import ProducerEntries
from oncelog_partition_leader.core.producers.producer_snapshot import Snapshot, load
from oncelog_partition_leader.core.producers.transactions import (
    MARKERS_KEPT,
    NUMBERS_KEPT,
    KnownMarker,
    OpenTransaction,
    Transactions,
    TxnName,
    TxnProducer,
)


def _open(transactions: Transactions, name: TxnName, first: int, *writers: int) -> OpenTransaction:
    opened = OpenTransaction(name, first, 3, 7, 99)
    transactions.begin(opened)
    for producer_id in writers:
        transactions.writer(opened, producer_id).records += 2
    transactions.check()
    return opened


def test_records_are_counted_by_winner() -> None:
    opened = _open(Transactions(), TxnName(1, 1), 0, 11, 12)
    assert [opened.records_of(winners) for winners in (None, (), (11,), (11, 12), (13,))] == [4, 0, 2, 4, 0]


def test_busy_follows_open_transactions() -> None:
    transactions = Transactions()
    _open(transactions, TxnName(1, 1), 0, 1, 11)
    _open(transactions, TxnName(1, 2), 1, 11)
    assert transactions.busy == {1: 2, 11: 2}
    transactions.end(TxnName(1, 1), KnownMarker(1, 5, True), 3)
    transactions.check()
    assert transactions.busy == {1: 1, 11: 1}
    transactions.end(TxnName(1, 2), KnownMarker(2, 6, True), 3)
    assert transactions.busy == {}


def test_the_session_of_an_id_only_grows() -> None:
    transactions = Transactions()
    transactions.end(TxnName(1, 1), KnownMarker(1, 0, True), 5)
    transactions.end(TxnName(1, 2), KnownMarker(2, 1, True), 4)
    assert transactions.session_epoch(1) == 5
    assert transactions.session_epoch(2) == -1


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


def test_which_numbers_have_markers_is_in_a_snapshot() -> None:
    transactions = Transactions()
    for number in range(1, 200):
        if number != 7:
            transactions.end(TxnName(5, number), KnownMarker(number, number, True), 0)
    _, found, _ = load(Snapshot(ProducerEntries(1_000), transactions, 300).whole(), 1_000)
    found.check()
    assert found.ended == transactions.ended
    assert found.ended[5].marker(7) is None
    assert found.ended[5].marker(8) == KnownMarker(199, 199, True)


def test_a_snapshot_without_that_takes_older_numbers_for_written() -> None:
    transactions = Transactions()
    transactions.end(TxnName(5, 20), KnownMarker(20, 20, True), 0)
    transactions.ended[5].marked = 0  # as version 0.1 writes it
    _, found, _ = load(Snapshot(ProducerEntries(1_000), transactions, 300).whole(), 1_000)
    known = found.ended[5]
    assert [known.marker(number) for number in (12, 13)] == [KnownMarker(20, 20, True), None]


def test_stability_needs_every_marker_below_the_high_watermark() -> None:
    transactions = Transactions()
    for number, first in ((1, 0), (2, 4), (3, 8)):
        _open(transactions, TxnName(number, 1), first, number)
    transactions.end(TxnName(2, 1), KnownMarker(1, 20, True), 3)
    transactions.end(TxnName(1, 1), KnownMarker(1, 21, True), 3)
    assert [transactions.first_unstable_offset(hw) for hw in (20, 21, 22)] == [0, 0, 8]
    transactions.end(TxnName(3, 1), KnownMarker(1, 30, True), 3)
    assert [transactions.first_unstable_offset(hw) for hw in (30, 31)] == [8, None]
