"""What a worker holds, and until when."""

from __future__ import annotations

import pytest

from oncelog.core.work.holding import Held, Holding
from oncelog.core.work.message_states import MessageIncident, MessageState
from oncelog.core.work.settlements import Place


@pytest.fixture
def holding() -> Holding:
    return Holding()


def held(holding: Holding, offset: int, now_ms: int = 0, delivery: int = 1, ack_wait_ms: int = 1_000) -> Held:
    made = Held(Place(0, offset, delivery), "b0", now_ms, ack_wait_ms)
    holding.add(made)
    return made


def test_a_later_delivery_takes_the_place_of_the_earlier_one(holding: Holding) -> None:
    first = held(holding, 7)
    second = Held(Place(0, 7, 2), "b1", 5, 1_000)
    assert holding.add(second) is first
    assert (first.state, first.is_counted, [*holding]) == (MessageState.LOST, False, [second])
    assert not holding.remove(first)
    holding.check()


def test_what_passed_is_forgotten_and_lost_unless_the_caller_has_it(holding: Holding) -> None:
    waiting, handed_out, later = held(holding, 0), held(holding, 1), held(holding, 2, now_ms=500)
    assert handed_out.moves(MessageIncident.HANDED_OUT)
    assert holding.passed(949) == []
    assert holding.passed(950) == [waiting, handed_out]
    assert (waiting.state, handed_out.state, [*holding]) == (MessageState.LOST, MessageState.HELD, [later])
    holding.check()


def test_a_touch_moves_the_deadline(holding: Holding) -> None:
    one, other = held(holding, 0), held(holding, 1)
    holding.touched(one, 400)
    holding.check()
    assert holding.passed(950) == [other]
    assert holding.next_deadline_ms() == 1_350
    assert holding.passed(1_350) == [one]
    assert holding.next_deadline_ms() is None


def test_what_is_over_needs_no_deadline(holding: Holding) -> None:
    one = held(holding, 0)
    assert holding.remove(one)
    assert not holding.remove(one)
    assert holding.passed(10_000) == []
    holding.touched(one, 400)
    assert len(holding) == 0
    assert holding.next_deadline_ms() is None


def test_open_records_are_touched_at_half_of_their_time(holding: Holding) -> None:
    first, second, settling = held(holding, 0), held(holding, 1, now_ms=100), held(holding, 2)
    settling.moves(MessageIncident.VERDICT)
    assert holding.next_touch_ms() == 500
    assert holding.to_touch(499) == []
    assert holding.to_touch(500) == [first]
    first.is_touched = True
    assert (holding.to_touch(600), holding.next_touch_ms()) == ([second], 600)
