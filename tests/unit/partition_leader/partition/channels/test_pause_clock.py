"""Pauses are kept by most brokers' clocks."""

from __future__ import annotations

from typing import Any, cast

from oncelog_partition_leader.partition.channels.pause_clock import PauseClock


class Own:
    def now_ms(self) -> int:
        return 9_000_000

    def monotonic_ms(self) -> int:
        return 7


def test_a_clock_that_is_wrong_alone_does_not_count() -> None:
    told = 5_000
    clock = PauseClock(cast(Any, Own()), lambda: told)
    assert (clock.now_ms(), clock.monotonic_ms()) == (5_000, 7)
    told = 0
    assert clock.now_ms() == 9_000_000, "while too few are known, the own one has to do"
