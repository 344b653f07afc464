"""An identity says as whom batches are written; one that cannot be is not believed, and its token is shown to nobody."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.core.batch.header import NO_SHARD
from oncelog.core.batch.identity import NOBODY, Identity, believed
from oncelog.errors import InvalidResponseError

PLAIN = Identity(5, 0)
TRANSACTIONAL = Identity(5, 0, 5, 1, 0, "t", b"secret")


def test_nobody_has_neither_sequences_nor_a_transaction() -> None:
    assert not NOBODY.is_idempotent
    assert not NOBODY.is_transactional
    assert (PLAIN.is_idempotent, PLAIN.is_transactional) == (True, False)
    assert (TRANSACTIONAL.is_idempotent, TRANSACTIONAL.is_transactional) == (True, True)


def test_the_token_stands_in_no_repr() -> None:
    assert "secret" not in repr(TRANSACTIONAL)
    assert "'t'" in repr(TRANSACTIONAL)


@pytest.mark.parametrize(
    "told", [PLAIN, TRANSACTIONAL, Identity(0, (1 << 31) - 1), TRANSACTIONAL._replace(txn_shard=NO_SHARD)]
)
def test_what_can_be_is_believed(told: Identity) -> None:
    assert believed(told) is told


@pytest.mark.parametrize(
    "change",
    [
        {"producer_id": -1},
        {"producer_epoch": -1},
        {"producer_epoch": 1 << 31},
        {"txn_producer_id": -1},
        {"txn_no": -1},
        {"txn_shard": -1},
        {"txn_shard": NO_SHARD + 1},
    ],
    ids=str,
)
def test_what_would_break_batches_is_not_believed(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidResponseError, match="that cannot be"):
        believed(TRANSACTIONAL._replace(**change))


def test_without_a_transaction_only_the_producer_is_judged() -> None:
    assert believed(PLAIN._replace(txn_no=-1)).txn_no == -1
