"""A worker takes a record for lost before the broker gives it to somebody else."""

from __future__ import annotations

import pytest

from oncelog.core.work.deadlines import held_until_ms, margin_ms, touch_at_ms


@pytest.mark.parametrize(("ack_wait_ms", "margin"), [(100, 5), (10_000, 500), (30_000, 1_000), (43_200_000, 1_000)])
def test_the_margin_grows_with_the_wait_up_to_a_second(ack_wait_ms: int, margin: int) -> None:
    assert margin_ms(ack_wait_ms) == margin
    assert held_until_ms(7, ack_wait_ms) == 7 + ack_wait_ms - margin


def test_a_touch_comes_long_before_the_deadline() -> None:
    assert touch_at_ms(7, 100) == 57
    assert held_until_ms(7, 100) - touch_at_ms(7, 100) == 45
