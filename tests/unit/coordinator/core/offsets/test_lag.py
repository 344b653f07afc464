"""How far behind a group is, from looks at the end of a partition."""

from __future__ import annotations

import pytest

from oncelog.types import PartitionId
from oncelog_coordinator.core.offsets.lag import LagTable

P = PartitionId("0" * 32, 0)


@pytest.fixture
def table() -> LagTable:
    made = LagTable()
    for end, now_ms in ((100, 1_000), (100, 2_000), (150, 3_000), (170, 4_000)):
        made.saw(P, end, now_ms)
        made.check()
    return made


def test_what_no_leader_has_told_is_not_known() -> None:
    assert LagTable().lag(P, 5) is None
    assert LagTable().behind_ms(P, 5, 9) == 0


@pytest.mark.parametrize(
    ("committed", "lag", "behind_ms"),
    [
        (170, 0, 0),
        (180, 0, 0),  # committed after the last look
        (169, 1, 1_000),
        (150, 20, 1_000),
        (149, 21, 2_000),
        (100, 70, 2_000),
        (99, 71, 4_000),
        (0, 170, 4_000),
    ],
)
def test_lag_counts_offsets_and_the_time_since_there_was_something_to_read(
    table: LagTable, committed: int, lag: int, behind_ms: int
) -> None:
    assert table.lag(P, committed) == lag
    assert table.behind_ms(P, committed, 5_000) == behind_ms


def test_an_idle_partition_does_not_age_who_has_read_it_all(table: LagTable) -> None:
    assert table.behind_ms(P, 170, 1_000_000) == 0


def test_a_log_that_was_cut_forgets_what_is_above(table: LagTable) -> None:
    table.saw(P, 120, 5_000)
    table.check()
    assert table.lag(P, 120) == 0
    assert table.behind_ms(P, 110, 6_000) == 1_000, "what is there now was seen at 5000"


def test_what_is_kept_is_bounded_and_old_looks_become_coarse() -> None:
    table = LagTable()
    for look in range(1, 10_000):
        table.saw(P, look, look * 1_000)
        table.check()
    assert table.behind_ms(P, 9_990, 10_000_000) == 9_000, "young ones are exact"
    assert 9_000 < table.behind_ms(P, 5_000, 10_000_000) <= 4_999_000, "in between it is coarse, never too much"
    assert table.behind_ms(P, 0, 10_000_000) == 9_999_000, "the oldest is kept"


def test_partitions_that_nobody_reads_are_forgotten(table: LagTable) -> None:
    table.keep([PartitionId("1" * 32, 1)])
    assert len(table) == 0
