"""The level of a volume by its room, and the room that it takes to leave one."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.log.disk_levels import Level, Thresholds, level_of

ROOM = Thresholds(low_bytes=1_000, reserved_bytes=400)
BIG = 1_000_000


@pytest.mark.parametrize(
    ("free", "level"),
    [(1_000, Level.ROOMY), (999, Level.LOW), (400, Level.LOW), (399, Level.RESERVED), (0, Level.RESERVED)],
)
def test_a_level_begins_below_its_threshold(free: int, level: Level) -> None:
    assert level_of(Level.ROOMY, free, BIG, ROOM) is level


def test_a_level_ends_with_a_quarter_more_room_than_it_began_with() -> None:
    assert level_of(Level.RESERVED, 499, BIG, ROOM) is Level.RESERVED
    assert level_of(Level.RESERVED, 500, BIG, ROOM) is Level.LOW
    assert level_of(Level.LOW, 1_249, BIG, ROOM) is Level.LOW
    assert level_of(Level.LOW, 1_250, BIG, ROOM) is Level.ROOMY
    assert level_of(Level.RESERVED, BIG, BIG, ROOM) is Level.ROOMY


def test_a_small_volume_keeps_a_part_of_itself() -> None:
    wide = Thresholds(low_bytes=1 << 30, reserved_bytes=1 << 28)
    assert level_of(Level.ROOMY, 100, 1_000, wide) is Level.ROOMY
    assert level_of(Level.ROOMY, 99, 1_000, wide) is Level.LOW
    assert level_of(Level.ROOMY, 49, 1_000, wide) is Level.RESERVED


def test_without_thresholds_a_disk_is_never_full_before_it_is() -> None:
    assert level_of(Level.ROOMY, 0, BIG, Thresholds(0, 0)) is Level.ROOMY
