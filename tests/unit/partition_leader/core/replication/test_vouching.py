"""A follower answers a reader only when it can vouch for every record that it shows."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_partition_leader.core.replication.vouching import FollowerFacts, Obstacle, Told, obstacle

GOOD = FollowerFacts(known_epoch=3, told_epoch=3, told_watermark=7, log_end=9, is_in_sync=True, hears_leader=True)


def test_a_follower_that_knows_all_that_it_must_may_answer() -> None:
    assert obstacle(GOOD) is None
    assert obstacle(GOOD._replace(log_end=7)) is None, "up to the watermark is enough"


@pytest.mark.parametrize(
    ("lacks", "expected"),
    [
        ({"told_epoch": 2}, Obstacle.OLD_EPOCH),
        ({"told_epoch": -1, "known_epoch": -1}, Obstacle.OLD_EPOCH),
        ({"is_in_sync": False}, Obstacle.NOT_IN_SYNC),
        ({"hears_leader": False}, Obstacle.SILENT_LEADER),
        ({"log_end": 6}, Obstacle.BEHIND),
    ],
)
def test_each_thing_that_it_lacks_is_a_reason_of_its_own(lacks: dict[str, Any], expected: Obstacle) -> None:
    assert obstacle(GOOD._replace(**lacks)) is expected


def test_what_was_told_is_forgotten_with_a_cut_but_not_where_the_log_begins() -> None:
    told = Told()
    told.hear(3, 7, 5)
    told.hear(3, 8, 4, 6)
    assert (told.epoch, told.high_watermark, told.log_start_offset, told.held_everywhere) == (3, 8, 5, 6)
    told.forget()
    assert (told.epoch, told.high_watermark, told.log_start_offset, told.held_everywhere) == (-1, -1, 5, 0)
