"""Disks that are nearly full: records are refused early, what was begun is decided, and all comes back by itself (S6, S7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from oncelog import errors
from oncelog_partition_leader.core.log.disk_levels import Level
from tests.conformance.script import Script

BALLAST_BYTES = 200_000
"""A twentieth of a disk of this size has room for some markers and entries of the cluster's own logs."""


async def nearly_full(s: Script, nodes: Iterable[str]) -> None:
    """Leaves these brokers a little room, and waits until they have seen it."""
    for node in nodes:
        disk = s.world.nodes[node].disk
        disk.open("ballast", create=True).append([bytes(BALLAST_BYTES)])
        disk.capacity = disk.used() + disk.used() // 25
    await s.until(lambda: all(s.broker(node).replicas.disk_room.level is Level.RESERVED for node in nodes))


async def roomy(s: Script, nodes: Iterable[str]) -> None:
    """Gives these brokers all the room that they want."""
    for node in nodes:
        s.world.nodes[node].disk.capacity = None
    await s.until(lambda: all(s.broker(node).replicas.disk_room.level is Level.ROOMY for node in nodes))


async def test_with_every_disk_nearly_full_transactions_end_and_offsets_are_committed(s: Script) -> None:
    place = await s.place()
    brokers = [s.leader(place), *s.followers(place)]
    begun, plain = await s.session("t"), await s.producer()
    await s.write(place, begun, "x")
    await nearly_full(s, brokers)
    with pytest.raises(errors.ResourceExhaustedError) as refusal:
        await s.produce(place, s.batch(place, plain, "y"))
    assert refusal.value.context["reason"] == "disk"
    assert refusal.value.retry_after_ms > 0
    await s.end(begun)
    await s.commit_offset("g", place, 1)
    await s.stable(place)
    assert await s.read(place) == ["x"]
    assert await s.committed_offset("g", place) == 1
    await roomy(s, brokers)
    await s.write(place, plain, "y")
    assert await s.read(place) == ["x", "y"]
    assert sorted(s.isr(place)) == sorted(brokers), "nobody had to leave"


async def test_a_leader_whose_disk_is_nearly_full_lets_another_one_lead(s: Script) -> None:
    place = await s.place()
    writer, old = await s.producer(), s.leader(place)
    await s.write(place, writer, "x")
    await nearly_full(s, [old])
    async with asyncio.timeout(10):
        while True:
            try:
                await s.produce(place, s.batch(place, writer, "y", seq=1))
                break
            except errors.RetriableError:
                await asyncio.sleep(0.1)
    assert s.leader(place) != old
    await s.until(lambda: old not in s.isr(place))
    assert await s.read(place) == ["x", "y"]
    await roomy(s, [old])
    await s.rejoined(old, place)
