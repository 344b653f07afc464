"""What is known of transactional ids for ever, against a plain dict."""

from __future__ import annotations

from random import Random

import pytest

from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.producers import ended_transactions
from oncelog_partition_leader.core.producers.ended_transactions import EndedTransactions
from oncelog_partition_leader.core.producers.txn_producer import (
    KnownMarker,
    TxnProducer,
    pack_txn_producer,
    txn_producer_id_of,
)


def whole(table: EndedTransactions) -> bytes:
    return b"".join(table.freeze().parts())


def of_model(model: dict[int, TxnProducer]) -> bytes:
    return b"".join(pack_txn_producer(one, model[one]) for one in sorted(model))


@pytest.mark.parametrize("objects", [1, 7, 10_000])
@pytest.mark.parametrize("spread", [150, 1 << 60])
def test_it_is_a_dict_that_forgets_nothing(spread: int, objects: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_transactions, "OBJECTS_MAX", objects)
    random, table, model = Random(spread), EndedTransactions(), dict[int, TxnProducer]()
    for step in range(1_200):
        one = random.randrange(spread)
        assert table.get(one) == model.get(one)
        assert (one in table) == (one in model)
        assert table.session_epoch(one) == (model[one].session_epoch if one in model else -1)
        known, mine = table.to_change(one), model.setdefault(one, TxnProducer())
        for each in (known, mine):
            each.session_epoch = step
            each.end(KnownMarker(1 + step // 10, step, step % 2 == 0))
        if random.random() < 0.01:
            table.freeze()
    table.check()
    assert len(table) == len(model)
    assert list(table) == sorted(model)
    assert dict(table) == model
    assert whole(table) == of_model(model)


def test_what_was_frozen_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_transactions, "OBJECTS_MAX", 5)
    table = EndedTransactions()
    for one in range(400):
        table.to_change(one * 2).end(KnownMarker(1, one, True))
    taken, before = table.freeze(), whole(table)
    for one in (0, 1, 799, 5_000):
        table.to_change(one).end(KnownMarker(2, 9_000 + one, False))
    assert b"".join(taken.parts()) == before
    assert len(taken) == 400


def test_a_snapshots_records_are_taken_over_as_they_are() -> None:
    records = [pack_txn_producer(one, TxnProducer(one, one)) for one in range(0, 1_000, 3)]
    table = EndedTransactions.load((txn_producer_id_of(record), record) for record in records)
    table.check()
    assert whole(table) == b"".join(records)
    table.to_change(4).session_epoch = 8
    assert table.session_epoch(4) == 8
    assert len(table) == len(records) + 1


@pytest.mark.parametrize("ids", [(1, 3, 2), (1, 1), (*range(96), 95), (*range(96), 3)])
def test_ids_that_do_not_ascend_are_refused(ids: tuple[int, ...]) -> None:
    with pytest.raises(CorruptMessageError):
        EndedTransactions.load((one, b"") for one in ids)


def test_one_that_is_not_there_is_no_key() -> None:
    with pytest.raises(KeyError):
        EndedTransactions()[5]
