"""What a log says of its disk is compared with the platter: each wrong claim is seen, and no right one is one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.log.checkpoints import CLEAN_SHUTDOWN
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.sim.disk import SimDisk
from tests.simulation.disk_claims import ClaimsAreOnThePlatter, first_lost, stored_log_start
from tests.simulation.invariants import Sight
from tests.simulation.planted_bugs import plant_named
from tests.unit.partition_leader.log_helpers import LogConfig, batch, open_log, run, write

_SMALL = LogConfig(segment_bytes=300)


def look(disk: SimDisk, log: PartitionLog) -> None:
    """As the watcher does after a step."""
    partition: Any = SimpleNamespace(log=log, topic="orders", id=SimpleNamespace(partition=3))
    on_disk = log.synced_end_offset, log._point.end_offset, log.log_start_offset
    sight = Sight(BrokerRef(1, 7), partition, None, log.log_end_offset, log.log_end_offset, on_disk)
    ClaimsAreOnThePlatter(lambda broker_id: disk).see(None, sight)


async def filled(disk: SimDisk) -> PartitionLog:
    """A log of several segments."""
    log = await open_log(disk, _SMALL)
    for number in range(6):
        write(log, batch(1, number, 1, payload=b"p" * 100))
    return log


def test_what_was_not_synced_may_be_lost_and_is_not_claimed() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        assert first_lost(disk, log, 0, log.log_end_offset) == 0
        look(disk, log)
        await log.sync()
        assert first_lost(disk, log, 0, log.log_end_offset) is None
        write(log, batch(1, 6, 1))
        assert first_lost(disk, log, 0, log.synced_end_offset) is None
        assert first_lost(disk, log, 0, log.log_end_offset) is not None
        look(disk, log)
        log._point.end_offset = log.log_end_offset
        with pytest.raises(AssertionError, match="a power cut may leave nothing"):
            look(disk, log)

    run(test)


def test_a_segment_whose_name_may_be_lost_is_not_on_disk() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        await log.sync()
        await log.sync()  # the first one made the file of the recovery point, whose name this one syncs
        for number in range(6, 8):
            write(log, batch(1, number, 1, payload=b"p" * 100))
        disk.capacity = disk.used()  # no room for the checkpoint of a roll, whose storing would sync the names
        await log.sync()
        with pytest.raises(AssertionError, match="a power cut may leave nothing"):
            look(disk, log)

    with plant_named("no-dir-sync").planted():
        run(test)


def test_a_log_start_that_was_told_is_on_disk() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        await log.sync()
        await log.advance_log_start(2)
        assert stored_log_start(disk, log.directory) == 2
        look(disk, log)
        log._point.log_start_offset = 3
        with pytest.raises(AssertionError, match="log start 3 is told, and 2 is on disk"):
            look(disk, log)

    run(test)


def test_the_mark_of_a_clean_stop_beside_an_open_log_is_seen() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        await log.close()
        log = await open_log(disk, _SMALL)
        look(disk, log)
        await disk.write_atomic(f"{log.directory}/{CLEAN_SHUTDOWN}", b"")
        with pytest.raises(AssertionError, match="clean stop"):
            look(disk, log)

    run(test)
