"""The file of a seal: durable when written, durable when removed, and no seal when it cannot be read."""

from __future__ import annotations

from oncelog_partition_leader.core.replication.replica_state import Seal
from oncelog_partition_leader.log.checkpoints import SEAL
from oncelog_partition_leader.replication.sealing import read_seal, remove_seal, write_seal
from oncelog_runtime.sim import SimDisk, SimWorld

LOG = "logs/t-0"


def test_a_seal_survives_a_power_cut_and_so_does_its_removal() -> None:
    async def scenario(world: SimWorld) -> None:
        disk = SimDisk(world.loop, world.random("disk"), world.plan, "n")
        disk.make_dirs(LOG)
        await disk.sync_dir("")
        await disk.sync_dir("logs")
        assert read_seal(disk, LOG) is None
        await write_seal(disk, LOG, Seal(7, 3, 100))
        disk = disk.after_power_cut()
        assert read_seal(disk, LOG) == Seal(7, 3, 100)
        await remove_seal(disk, LOG)
        disk = disk.after_power_cut()
        assert read_seal(disk, LOG) is None
        await remove_seal(disk, LOG)

    with SimWorld(1) as world:
        world.run(scenario(world))


def test_a_damaged_file_is_no_seal() -> None:
    async def scenario(world: SimWorld) -> None:
        disk = SimDisk(world.loop, world.random("disk"), world.plan, "n")
        disk.make_dirs(LOG)
        for data in (b"", b"{", b'{"incarnation": 7}', b"[]"):
            await disk.write_atomic(f"{LOG}/{SEAL}", data)
            assert read_seal(disk, LOG) is None

    with SimWorld(1) as world:
        world.run(scenario(world))
