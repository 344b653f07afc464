"""The little model of a log's transactions, by which the stable offset of leaders is judged."""

from __future__ import annotations

import pytest

from oncelog.core.header import read_header
from tests.simulation.log_invariants import TransactionModel
from tests.unit.partition_leader.log_helpers import batch, marker


def append(model: TransactionModel, data: bytes) -> int:
    """Appends at the end of the model's log; the offset."""
    offset = model.end
    model.append(read_header(data)._replace(base_offset=offset), memoryview(data))
    return offset


def test_a_transaction_is_unstable_until_its_marker_is_committed() -> None:
    model = TransactionModel()
    first, second = append(model, batch(1, 0, 2, txn=(1, 1))), append(model, batch(2, 0, 3, txn=(2, 1)))
    at = append(model, marker((1, 1)))
    assert model.first_unstable(at) == first
    assert model.first_unstable(at + 1) == second
    end = append(model, marker((2, 1), commit=False))
    assert model.first_unstable(end) == second
    assert model.first_unstable(end + 1) is None


def test_what_is_cut_off_opens_again_what_it_had_ended() -> None:
    model = TransactionModel()
    first = append(model, batch(1, 0, 2, txn=(1, 1)))
    at = append(model, marker((1, 1)))
    later = append(model, batch(2, 0, 1, txn=(2, 1)))
    model.cut(later)
    assert model.first_unstable(later) is None
    model.cut(at)
    assert model.first_unstable(later) == first
    model.cut(first)
    assert (model.first_unstable(later), model.end) == (None, 0)


def test_the_marker_of_an_older_coordinator_is_a_violation_until_the_newer_one_is_cut_off() -> None:
    model = TransactionModel()
    append(model, marker((1, 1), coordinator_epoch=3))
    newest = append(model, marker((1, 2), coordinator_epoch=4))
    with pytest.raises(AssertionError, match="coordinator epoch 3"):
        append(model, marker((1, 3), coordinator_epoch=3))
    append(model, marker((9, 1), coordinator_epoch=1, shard=2))
    model.cut(newest)
    append(model, marker((1, 3), coordinator_epoch=3))
