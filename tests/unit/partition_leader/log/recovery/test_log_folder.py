"""The folder of one log: made durably, and set aside without a loss."""

from __future__ import annotations

from oncelog_partition_leader.log.recovery.log_folder import make_directory, set_aside
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import DIRECTORY, open_log, plain, run, write


def test_a_quarantined_log_is_set_aside() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, plain())
        await log.close(clean=False)
        kept = await set_aside(disk, DIRECTORY)
        assert disk.exists(f"{kept}/partition.json")
        fresh = await open_log(disk)
        assert fresh.log_end_offset == 0

    run(test)


def test_a_folder_and_its_parents_are_durable_once_they_are_made() -> None:
    async def test(disk: SimDisk) -> None:
        await make_directory(disk, DIRECTORY)
        assert disk.after_power_cut().exists(DIRECTORY)

    run(test)


def test_what_is_set_aside_never_replaces_what_was_set_aside_before() -> None:
    async def test(disk: SimDisk) -> None:
        for number in range(3):
            await (await open_log(disk)).close()
            assert await set_aside(disk, DIRECTORY) == f"{DIRECTORY}.quarantined-{number}"
        assert not disk.exists(DIRECTORY)

    run(test)
