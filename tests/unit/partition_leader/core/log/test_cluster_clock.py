"""Most clocks decide, and a minority of known clocks decides nothing."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.log.cluster_clock import UNKNOWN_MS, ClusterClock

DAYS_MS = 24 * 3_600_000


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (1000, {}, 1000),
        (1000, {1: 1010, 2: 990}, 1000),
        (1000 + 8 * DAYS_MS, {1: 1010, 2: 990}, 1010),
        (1000, {1: 1010 + 8 * DAYS_MS, 2: 990}, 1000),
        (1000, {1: 1010, 2: 1}, 1000),
        (1000 + 8 * DAYS_MS, {1: 1010}, 1010),
        (1000, {1: 1010, 2: 1020 + DAYS_MS, 3: 1030 + DAYS_MS}, 1010),
        (1000, {1: 0}, UNKNOWN_MS),
        (1000, {1: 0, 2: 0}, UNKNOWN_MS),
        (1000, {1: 1010, 2: 0}, 1000),
        (1000, {1: 1010, 2: 0, 3: 0}, UNKNOWN_MS),
    ],
)
def test_the_lower_median_of_the_known_clocks_counts(own: int, others: dict[int, int], expected: int) -> None:
    clock = ClusterClock()
    for broker_id, now_ms in others.items():
        clock.told(broker_id, now_ms, 50)
    assert clock.now_ms(own, 50, others) == expected


def test_a_step_of_the_own_clock_moves_nobody_elses() -> None:
    clock = ClusterClock()
    for broker_id in (1, 2):
        clock.told(broker_id, 1000, 50)
    assert clock.now_ms(1100 + 8 * DAYS_MS, 150, (1, 2)) == 1100


def test_who_is_not_registered_has_no_say() -> None:
    clock = ClusterClock()
    for broker_id in (1, 2, 3):
        clock.told(broker_id, 5000, 0)
    assert clock.now_ms(1000, 0, ()) == 1000
