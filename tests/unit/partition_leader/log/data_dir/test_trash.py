"""The trash: nothing is half there after a power cut, nothing goes before its time, what is needed again comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from oncelog.types import PartitionId
from oncelog_partition_leader.core.log.folders import folder_name
from oncelog_partition_leader.log.data_dir.trash import Trash
from oncelog_runtime.sim import SimDisk, SimWorld

NAME = folder_name("orders", PartitionId("a" * 32, 0))
GRACE_MS = 1_000


def run(scenario: Callable[[SimWorld, SimDisk, Trash], Awaitable[None]]) -> None:
    with SimWorld(1) as world:
        disk = SimDisk(world.loop, world.random("disk"), world.plan, "n")

        async def go() -> None:
            await make_log(disk, b"old")
            await scenario(world, disk, Trash(disk, "logs", GRACE_MS))

        world.run(go())


async def make_log(disk: SimDisk, content: bytes) -> None:
    disk.make_dirs(f"logs/{NAME}")
    await disk.sync_dir("")
    await disk.sync_dir("logs")
    await disk.write_atomic(f"logs/{NAME}/0.log", content)


def test_a_log_leaves_its_place_and_is_removed_after_the_grace() -> None:
    async def scenario(_world: SimWorld, disk: SimDisk, trash: Trash) -> None:
        await trash.put(NAME, 5_000)
        assert not disk.exists(f"logs/{NAME}")
        (entry,) = trash.entries()
        assert (entry.folder.name, entry.since_ms) == (NAME, 5_000)
        assert await trash.purge(5_000 + GRACE_MS - 1) == 0
        assert disk.read_file(f"logs/.trash/{entry.name}/0.log") == b"old"
        assert await trash.purge(5_000 + GRACE_MS) == 1
        assert trash.entries() == []

    run(scenario)


def test_a_log_that_is_needed_again_comes_back_the_newest_first() -> None:
    async def scenario(_world: SimWorld, disk: SimDisk, trash: Trash) -> None:
        await trash.put(NAME, 5_000)
        await make_log(disk, b"new")
        assert not await trash.take_back(NAME), "the name is in use"
        await trash.put(NAME, 5_000)
        assert len(trash.entries()) == 2
        assert await trash.take_back(NAME)
        assert disk.read_file(f"logs/{NAME}/0.log") == b"new"
        assert not await trash.take_back("another-" + "b" * 32 + "-0")

    run(scenario)


def test_a_power_cut_after_either_move_finds_the_log_in_its_new_place() -> None:
    async def scenario(_world: SimWorld, disk: SimDisk, trash: Trash) -> None:
        await trash.put(NAME, 5_000)
        disk = disk.after_power_cut()
        trash = Trash(disk, "logs", GRACE_MS)
        assert [entry.folder.name for entry in trash.entries()] == [NAME]
        await trash.take_back(NAME)
        disk = disk.after_power_cut()
        assert disk.read_file(f"logs/{NAME}/0.log") == b"old"

    run(scenario)
