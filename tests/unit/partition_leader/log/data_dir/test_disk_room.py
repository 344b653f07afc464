"""What a broker refuses while its disk is nearly full, and that it comes back by itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from oncelog.errors import ResourceExhaustedError, StorageError
from oncelog_partition_leader.core.log.disk_levels import Level, Thresholds
from oncelog_partition_leader.log.data_dir.disk_room import LOOK_MS, RETRY_AFTER_MS, DiskRoom
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import batch, marker, run

USED, TOTAL = 10_000, 100_000
THRESHOLDS = Thresholds(low_bytes=8_000, reserved_bytes=4_000)


def with_room(test: Callable[[SimDisk, DiskRoom], None]) -> None:
    """Runs a test over a disk of which a tenth is used."""

    async def scenario(disk: SimDisk) -> None:
        file = disk.open("used", create=True)
        file.append([bytes(USED)])
        disk.capacity = TOTAL
        test(disk, DiskRoom(disk, SimClock(disk.loop), THRESHOLDS))

    run(scenario)


def looked(disk: SimDisk, room: DiskRoom, free: int) -> Level:
    """The level after a look at a disk with so many free bytes."""
    disk.open("used").truncate(0)
    disk.open("used").append([bytes(TOTAL - free)])
    room._looked_ms -= LOOK_MS
    room.look()
    return room.level


def test_records_are_refused_before_the_disk_is_full_and_come_again_by_themselves() -> None:
    def test(disk: SimDisk, room: DiskRoom) -> None:
        room.require_for_records("orders")
        room.require_for_transactions()
        assert looked(disk, room, free=7_000) is Level.LOW
        room.require_for_records("orders")
        with pytest.raises(ResourceExhaustedError) as refusal:
            room.require_for_transactions()
        assert (refusal.value.context["reason"], refusal.value.retry_after_ms) == ("disk", RETRY_AFTER_MS)
        assert looked(disk, room, free=3_000) is Level.RESERVED
        with pytest.raises(ResourceExhaustedError):
            room.require_for_records("orders")
        assert looked(disk, room, free=50_000) is Level.ROOMY
        room.require_for_records("orders")
        room.require_for_transactions()

    with_room(test)


def test_the_cluster_s_own_logs_and_markers_keep_their_room() -> None:
    def test(disk: SimDisk, room: DiskRoom) -> None:
        assert looked(disk, room, free=0) is Level.RESERVED
        for topic in INTERNAL_TOPICS:
            room.require_for_records(topic)
            room.require_for_copy(topic, batch())
        room.require_for_copy("orders", marker((7, 1)) + marker((7, 2)))
        with pytest.raises(StorageError) as refusal:
            room.require_for_copy("orders", marker((7, 1)) + batch())
        assert refusal.value.context["reason"] == "full", "as a disk that is full: the follower leaves the ISR at once"

    with_room(test)


def test_it_looks_once_a_second_and_says_a_change_once(caplog: pytest.LogCaptureFixture) -> None:
    def test(disk: SimDisk, room: DiskRoom) -> None:
        with caplog.at_level(logging.INFO):
            assert looked(disk, room, free=3_000) is Level.RESERVED
            disk.capacity = None
            room.look()
            assert room.level is Level.RESERVED, "it has looked a moment ago"
            assert looked(disk, room, free=2_000) is Level.ROOMY, "the disk has grown"
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]

    with_room(test)


def test_a_disk_whose_room_cannot_be_told_keeps_its_level() -> None:
    def test(disk: SimDisk, room: DiskRoom) -> None:
        assert looked(disk, room, free=3_000) is Level.RESERVED

        def unknown() -> None:
            raise StorageError("no answer", reason="io")

        disk.space = unknown  # type: ignore[method-assign, assignment]
        assert looked(disk, room, free=90_000) is Level.RESERVED

    with_room(test)


def test_it_looks_at_once_when_the_broker_starts() -> None:
    async def scenario(disk: SimDisk) -> None:
        disk.capacity = 0
        room = DiskRoom(disk, SimClock(disk.loop), Thresholds(1, 1))
        disk.capacity = 100
        disk.open("used", create=True).append([bytes(100)])
        room.look()
        assert room.level is Level.RESERVED
        await asyncio.sleep(0)

    run(scenario)
