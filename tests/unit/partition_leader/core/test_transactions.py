"""Names, markers and stability of transactions."""

from __future__ import annotations

from oncelog_partition_leader.core.transactions import (
    MARKERS_KEPT,
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


def test_stability_needs_every_marker_below_the_high_watermark() -> None:
    transactions = Transactions()
    for number, first in ((1, 0), (2, 4), (3, 8)):
        _open(transactions, TxnName(number, 1), first, number)
    transactions.end(TxnName(2, 1), KnownMarker(1, 20, True), 3)
    transactions.end(TxnName(1, 1), KnownMarker(1, 21, True), 3)
    assert [transactions.first_unstable_offset(hw) for hw in (20, 21, 22)] == [0, 0, 8]
    transactions.end(TxnName(3, 1), KnownMarker(1, 30, True), 3)
    assert [transactions.first_unstable_offset(hw) for hw in (30, 31)] == [8, None]
