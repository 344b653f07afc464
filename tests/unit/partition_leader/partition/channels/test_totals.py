"""Totals of a channel on a broker do not go back when a leadership ends."""

from __future__ import annotations

from oncelog_partition_leader.core.channels.delivery import Counts
from oncelog_partition_leader.partition.channels.totals import Totals


def test_what_ended_leaderships_counted_is_kept() -> None:
    totals = Totals()
    totals.retire(Counts(5, 5, 5, 5, delivered=4, redelivered=3, acknowledged=2, dead=1, expired=0))
    now = totals.with_all([Counts(5, 5, 5, 5, delivered=40, redelivered=30, acknowledged=20, dead=10, expired=0)] * 2)
    assert (now.delivered, now.redelivered, now.acknowledged, now.dead) == (84, 63, 42, 21)
    assert (totals.delivered, totals.dead) == (4, 1), "a look changes nothing"
