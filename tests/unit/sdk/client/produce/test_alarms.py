"""Timers of partitions: the newest one counts, and none rings at once."""

from __future__ import annotations

import asyncio

from oncelog.client.home.context import now_ms
from oncelog.client.produce.alarms import Alarms
from oncelog.types import PartitionId
from tests.unit.sdk.client.fake_cluster import FakeCluster

P0, P1 = PartitionId("id", 0), PartitionId("id", 1)


def rung(*alarms: tuple[PartitionId, int], cancelled_after_ms: int | None = None) -> list[tuple[PartitionId, int]]:
    """Which partitions rang, and after how many milliseconds, within a second."""
    heard: list[tuple[PartitionId, int]] = []

    async def work(_: FakeCluster) -> None:
        begun = now_ms()
        ring = Alarms(lambda partition: heard.append((partition, now_ms() - begun)))
        for partition, after_ms in alarms:
            ring.set(partition, begun + after_ms)
        if cancelled_after_ms is not None:
            await asyncio.sleep(cancelled_after_ms / 1000)
            ring.cancel()
        await asyncio.sleep(1)

    FakeCluster().run(work)
    return heard


def test_each_partition_rings_at_its_time() -> None:
    assert [partition for partition, _ in rung((P1, 40), (P0, 20))] == [P0, P1]
    ((_, after_ms),) = rung((P0, 20))
    assert 20 <= after_ms <= 22


def test_the_newest_alarm_of_a_partition_counts() -> None:
    ((_, after_ms),) = rung((P0, 20), (P0, 60))
    assert after_ms >= 60


def test_an_alarm_in_the_past_rings_a_little_later_once() -> None:
    ((partition, after_ms),) = rung((P0, -500))
    assert (partition, after_ms <= 2) == (P0, True)


def test_what_is_cancelled_does_not_ring() -> None:
    assert rung((P0, 20), (P1, 60), cancelled_after_ms=40) == [(P0, 21)]
