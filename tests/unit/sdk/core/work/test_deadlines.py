"""A worker takes a record for lost before the broker gives it to somebody else."""

from __future__ import annotations

import pytest

from oncelog.core.work.deadlines import (
    SURE_MS,
    given_at_ms,
    held_until_ms,
    is_unheard,
    margin_ms,
    sure_for_ms,
    touch_at_ms,
)


@pytest.mark.parametrize(("ack_wait_ms", "margin"), [(100, 5), (10_000, 500), (30_000, 1_000), (43_200_000, 1_000)])
def test_the_margin_grows_with_the_wait_up_to_a_second(ack_wait_ms: int, margin: int) -> None:
    assert margin_ms(ack_wait_ms) == margin
    assert held_until_ms(7, ack_wait_ms) == 7 + ack_wait_ms - margin


def test_a_touch_comes_long_before_the_deadline() -> None:
    assert touch_at_ms(7, 100) == 57
    assert held_until_ms(7, 100) - touch_at_ms(7, 100) == 45


def test_an_answer_that_was_long_on_its_way_counts_from_when_its_records_were_given() -> None:
    assert given_at_ms(now_ms=9_000, asked_ms=1_000, waited_ms=5_000) == 6_000
    assert given_at_ms(now_ms=9_000, asked_ms=1_000, waited_ms=0) == 1_000
    assert given_at_ms(now_ms=9_000, asked_ms=1_000, waited_ms=99_000) == 9_000, (
        "a broker's word is not believed blindly"
    )
    assert given_at_ms(now_ms=9_000, asked_ms=1_000, waited_ms=-5) == 1_000


def test_a_process_that_was_frozen_for_half_of_the_time_may_have_been_given_up() -> None:
    assert not is_unheard(now_ms=2_000, seen_ms=0, ack_wait_ms=4_000)
    assert is_unheard(now_ms=2_001, seen_ms=0, ack_wait_ms=4_000)
    assert not is_unheard(now_ms=5_000, seen_ms=0, ack_wait_ms=60_000)
    assert is_unheard(now_ms=5_001, seen_ms=0, ack_wait_ms=60_000)


def test_a_slow_touch_makes_sure_for_longer_and_for_half_of_the_time_at_most() -> None:
    assert sure_for_ms(round_trip_ms=3, ack_wait_ms=30_000) == SURE_MS
    assert sure_for_ms(round_trip_ms=800, ack_wait_ms=30_000) == 1_600
    assert sure_for_ms(round_trip_ms=20_000, ack_wait_ms=30_000) == 15_000
    assert sure_for_ms(round_trip_ms=800, ack_wait_ms=200) == SURE_MS
