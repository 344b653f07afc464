"""Waits double up to their bound, and never fall below half of it or below what the server asked for."""

from __future__ import annotations

from oncelog.core.backoff import Backoff


def test_backoff_doubles_up_to_its_maximum() -> None:
    backoff = Backoff(20, 250)
    assert [backoff.delay_ms(n, draw=1.0) for n in (1, 2, 3, 4, 5, 100)] == [20, 40, 80, 160, 250, 250]
    assert backoff.delay_ms(1, draw=0.0) == 10
    assert backoff.delay_ms(1, draw=0.0, at_least_ms=500) == 500
