"""A transaction is named alike by all who end or renew it, and what an end waits for is one of two words."""

from __future__ import annotations

import pytest

from oncelog.client.produce.transactions.txn_names import end_wait, name_of
from oncelog.core.batch.identity import Identity
from oncelog.errors import ConfigError
from oncelog.v1 import coordinator_pb2 as co


def test_two_words_say_what_an_end_waits_for() -> None:
    assert (end_wait("decided"), end_wait("visible")) == (co.END_WAIT_DECIDED, co.END_WAIT_VISIBLE)


@pytest.mark.parametrize("wait", ["", "Visible", "all"])
def test_another_word_is_refused_with_those_that_there_are(wait: str) -> None:
    with pytest.raises(ConfigError, match='wait is "decided" or "visible"') as caught:
        end_wait(wait)
    assert caught.value.context["given"] == wait


def test_a_name_is_the_transactions_and_not_the_writers() -> None:
    """A participant writes under a producer id of its own, which is no part of the name."""
    who = Identity(5, 2, 8, 9, 3, "t", b"secret")
    assert name_of(who) == co.TransactionName(
        transactional_id="t", txn_shard=3, txn_producer_id=8, txn_no=9, producer_epoch=2, session_token=b"secret"
    )
