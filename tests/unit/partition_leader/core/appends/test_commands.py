"""Commands: they are answered once, and say whose state decides about them."""

from __future__ import annotations

import pytest

from oncelog.core.batch.control import Marker
from oncelog.errors import NotLeaderError
from oncelog_partition_leader.core.appends.commands import AppendMarkerCommand, SettleCommand, Written
from oncelog_partition_leader.core.producers.transactions import TxnName
from tests.unit.partition_leader.core.appends.a_reply import AReply, command


def test_a_command_is_answered_once() -> None:
    finished = command()
    finished.answer = Written(5, 0, 0, False)
    finished.finish()
    finished.fail(NotLeaderError())
    finished.finish()
    assert isinstance(finished.done, AReply)
    assert (finished.done.result, finished.done.error) == (finished.answer, None)


def test_a_command_whose_handler_is_gone_is_answered_by_nothing() -> None:
    left = command()
    assert isinstance(left.done, AReply)
    left.done.gone = True
    left.finish()
    left.fail(NotLeaderError())
    assert (left.done.result, left.done.error) == (None, None)


def test_a_command_is_finished_only_with_an_answer() -> None:
    with pytest.raises(AssertionError):
        command().finish()


def test_keys_are_the_producers_and_transactions_whose_state_decides() -> None:
    marker = Marker(committed=True, coordinator_epoch=1, session_epoch=0)
    assert command(-1).keys == ()
    assert command(4).keys == (4,)
    assert command(4, txn=(9, 1)).keys == (4, 9)
    assert AppendMarkerCommand(AReply(), 0, name=TxnName(9, 1), txn_shard=1, marker=marker).keys == (9,)
    settle = SettleCommand(AReply(), 0, producer_id=4, producer_epoch=0, base_sequence=0, last_sequence=0, settle=True)
    assert settle.keys == (4,)
