"""The file of a seal: durable when written, durable when removed, tried again, and no seal when it cannot be read."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from oncelog.errors import StorageError
from oncelog.types import BrokerRef
from oncelog_partition_leader.core.replication.replica_state import Seal
from oncelog_partition_leader.log.checkpoints import SEAL
from oncelog_partition_leader.replication.sealing import Sealer, read_seal, remove_seal, write_seal
from oncelog_runtime.process.tasks import TaskOwner
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


def test_a_seal_that_the_disk_refuses_is_tried_again() -> None:
    async def scenario(world: SimWorld) -> None:
        disk = SimDisk(world.loop, world.random("disk"), world.plan, "n")
        disk.make_dirs(LOG)
        replicas = SimpleNamespace(
            is_sealed=False,
            may_unseal=False,
            enough_in_sync=False,
            may_seal=lambda _end: True,
            me=BrokerRef(0, 7),
        )
        replicas.seal = lambda: setattr(replicas, "is_sealed", True)
        leadership = Mock(ended=None, epoch=3, replicas=replicas)

        async def synced(_end: int) -> None:
            await asyncio.sleep(0)

        partition: Any = SimpleNamespace(
            id="t-0",
            seal=None,
            failed=None,
            leadership=leadership,
            log=SimpleNamespace(log_end_offset=100, directory=LOG),
            sync=SimpleNamespace(wait=synced),
            exclusive=asyncio.Lock(),
        )
        watch: Any = SimpleNamespace(sync=lambda **_how: nullcontext())
        tasks = TaskOwner(lambda error: None)
        sealer, write = Sealer(disk, watch, tasks), disk.write_atomic

        async def full(_path: str, _data: bytes) -> None:
            raise StorageError(reason="full")

        disk.write_atomic = full  # type: ignore[method-assign]
        sealer.look(partition)
        await asyncio.sleep(1)
        assert replicas.is_sealed, "nothing is committed until the file, which may be there, is removed"
        disk.write_atomic = write  # type: ignore[method-assign]
        sealer.look(partition)
        await asyncio.sleep(1)
        assert read_seal(disk, LOG) == Seal(7, 3, 100)
        sealer.look(partition)
        await tasks.stop()

    with SimWorld(1) as world:
        world.run(scenario(world))
