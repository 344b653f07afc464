"""Names, markers and stability of transactions."""

from __future__ import annotations

from oncelog_partition_leader.core.producers.producer_entry import ProducerEntries
from oncelog_partition_leader.core.producers.producer_snapshot import Snapshot, load
from oncelog_partition_leader.core.producers.transactions import OpenTransaction, Transactions, TxnName
from oncelog_partition_leader.core.producers.txn_producer import KnownMarker


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


def test_which_numbers_have_markers_is_in_a_snapshot() -> None:
    transactions = Transactions()
    for number in range(1, 200):
        if number != 7:
            transactions.end(TxnName(5, number), KnownMarker(number, number, True), 0)
    _, found, _ = load(Snapshot(ProducerEntries(1_000), transactions, 300).whole(), 1_000)
    found.check()
    assert dict(found.ended) == dict(transactions.ended)
    assert found.ended[5].marker(7) is None
    assert found.ended[5].marker(8) == KnownMarker(199, 199, True)


def test_a_snapshot_without_that_takes_older_numbers_for_written() -> None:
    transactions = Transactions()
    transactions.end(TxnName(5, 20), KnownMarker(20, 20, True), 0)
    transactions.ended.to_change(5).marked = 0  # as version 0.1 writes it
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


def test_an_open_transaction_that_a_snapshot_has_taken_is_copied_before_it_changes() -> None:
    transactions = Transactions()
    opened = _open(transactions, TxnName(1, 1), 0, 11, 12)
    taken = transactions.freeze().open
    transactions.writer(opened, 11).records += 5
    transactions.writer(transactions.open[TxnName(1, 1)], 13).records += 1
    transactions.check()
    assert [taken[0].records_of((writer,)) for writer in (11, 12, 13)] == [2, 2, 0]
    assert [transactions.open[TxnName(1, 1)].records_of((writer,)) for writer in (11, 12, 13)] == [7, 2, 1]
    again = transactions.open[TxnName(1, 1)]
    transactions.writer(again, 11).records += 1
    assert transactions.open[TxnName(1, 1)] is again, "one copy is enough until the next snapshot"
