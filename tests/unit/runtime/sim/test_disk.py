"""The simulated disk: what a power cut takes, what kill -9 leaves, and every fault. (The port itself: tests/contracts.)"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from oncelog.errors import StorageError
from oncelog_runtime.sim import FaultPlan, SimNode, SimWorld
from oncelog_runtime.sim.disk import SECTOR_BYTES

T = TypeVar("T")


def on_node(seed: int, scenario: Callable[[SimNode], Coroutine[Any, Any, T]], plan: FaultPlan | None = None) -> T:
    """Runs the scenario with one machine in a world of its own."""
    with SimWorld(seed, plan) as world:
        return world.run(scenario(world.node("n")))


def after_power_cut(seed: int, plan: FaultPlan | None = None) -> bytes:
    """1000 synced and 5000 unsynced bytes, then the power goes."""

    async def scenario(node: SimNode) -> bytes:
        file = node.ports.disk.open("a", create=True)
        file.append([b"s" * 1000])
        await file.sync()
        await node.ports.disk.sync_dir("")
        file.append([b"u" * 5000])
        node.crash()
        return node.restart().disk.read_file("a")

    return on_node(seed, scenario, plan)


def test_a_power_cut_keeps_synced_bytes_and_a_prefix_of_the_rest() -> None:
    found = [after_power_cut(seed) for seed in range(60)]
    assert all(data.startswith(b"s" * 1000) for data in found)
    assert all(set(data[1000:]) <= set(b"u") for data in found)
    lengths = {len(data) for data in found}
    assert {1000, 6000} < lengths
    assert all(length in (1000, 6000) or length % SECTOR_BYTES == 0 for length in lengths)


def test_a_power_cut_may_leave_zeros_and_noise() -> None:
    found = [after_power_cut(seed, FaultPlan(zero_tail=0.5, torn_noise=0.5)) for seed in range(40)]
    assert any(data.endswith(b"\0" * 100) for data in found)
    assert any(set(data[1000:]) - set(b"u\0") for data in found)
    assert all(data.startswith(b"s" * 1000) for data in found)


def test_kill_leaves_what_was_written_and_a_later_power_cut_does_not() -> None:
    async def scenario(node: SimNode) -> int:
        file = node.ports.disk.open("a", create=True)
        await node.ports.disk.sync_dir("")
        file.append([b"u" * 5000])
        node.kill()
        assert node.restart().disk.open("a").size == 5000
        node.crash()
        return node.restart().disk.open("a").size

    assert {0, 5000} < {on_node(seed, scenario) for seed in range(30)}


def test_names_need_sync_dir() -> None:
    async def scenario(node: SimNode) -> list[str]:
        disk = node.ports.disk
        disk.make_dirs("d")
        disk.open("d/synced", create=True).close()
        await disk.sync_dir("d")
        await disk.sync_dir("")
        disk.open("d/unsynced", create=True).close()
        node.crash()
        return node.restart().disk.list("d")

    found = [on_node(seed, scenario) for seed in range(40)]
    assert all("synced" in names for names in found)
    assert 0 < sum("unsynced" in names for names in found) < 40


def test_a_file_in_a_lost_directory_is_lost() -> None:
    async def scenario(node: SimNode) -> tuple[bool, bool]:
        disk = node.ports.disk
        disk.make_dirs("d")
        disk.open("d/a", create=True).close()
        await disk.sync_dir("d")
        node.crash()
        after = node.restart().disk
        return after.exists("d"), after.exists("d/a")

    assert {on_node(seed, scenario) for seed in range(30)} == {(True, True), (False, False)}


@pytest.mark.parametrize("seed", range(20))
def test_write_atomic_is_old_or_new_wherever_the_power_goes(seed: int) -> None:
    with SimWorld(seed, FaultPlan(torn_noise=0.5, zero_tail=0.5)) as world:
        node = world.node("n")
        done = 0

        async def writer() -> None:
            nonlocal done
            for i in range(1, 10):
                await node.ports.disk.write_atomic("state", b"%d" % i * 2000)
                done = i

        async def scenario() -> None:
            node.spawn(writer())
            await asyncio.sleep(world.random("when").random() * 0.015)
            node.crash()
            disk = node.restart().disk
            found = disk.read_file("state") if disk.exists("state") else b""
            assert found in [b"", *(b"%d" % i * 2000 for i in range(1, 10))]
            assert len(found) == 2000 or done == 0
            assert done == 0 or int(found[:1]) in (done, done + 1)

        world.run(scenario())


def test_a_truncation_that_was_not_synced_may_not_have_happened() -> None:
    async def scenario(node: SimNode) -> int:
        file = node.ports.disk.open("a", create=True)
        file.append([b"x" * 3000])
        await file.sync()
        await node.ports.disk.sync_dir("")
        file.truncate(1000)
        node.crash()
        return node.restart().disk.open("a").size

    assert {on_node(seed, scenario) for seed in range(30)} == {1000, 3000}


def test_a_failed_sync_is_never_made_good() -> None:
    with SimWorld(1, FaultPlan(sync_error=1.0)) as world:
        node = world.node("n")

        async def scenario() -> None:
            disk = node.disk
            file = disk.open("a", create=True)
            file.append([b"x" * 1000])
            with pytest.raises(StorageError):
                await file.sync()
            with pytest.raises(StorageError):
                file.append([b"y"])
            disk.plan = FaultPlan()
            again = disk.open("a")
            await again.sync()  # says yes, as Linux does
            await disk.sync_dir("")
            node.crash()
            assert node.restart().disk.open("a").size == 0

        world.run(scenario())


@pytest.mark.parametrize(("fault", "reason"), [("short_write", "short"), ("disk_full", "full"), ("append_error", "io")])
def test_a_failed_append_changes_nothing(fault: str, reason: str) -> None:
    with SimWorld(1) as world:
        disk = world.node("n").disk
        file = disk.open("a", create=True)
        file.append([b"before"])
        disk.plan = FaultPlan(**{fault: 1.0})
        with pytest.raises(StorageError) as error:
            file.append([b"after"])
        assert error.value.context["reason"] == reason
        assert file.size == 6
        disk.plan = FaultPlan()
        file.append([b"!"])
        assert file.read(0, 100) == b"before!"


def test_capacity_is_a_full_disk() -> None:
    with SimWorld(1) as world:
        disk = world.node("n").disk
        disk.capacity = 1000
        file = disk.open("a", create=True)
        file.append([b"x" * 900])
        with pytest.raises(StorageError) as error:
            file.append([b"x" * 200])
        assert error.value.context["reason"] == "full"
        disk.remove("a")
        disk.open("b", create=True).append([b"x" * 1000])


def test_a_flipped_bit_stays_flipped() -> None:
    with SimWorld(1) as world:
        node = world.node("n")
        file = node.disk.open("a", create=True)
        file.append([b"\0\0\0"])
        node.disk.flip_bit("a", 1, 3)
        assert file.read(0, 3) == b"\0\x08\0"


def test_dying_code_reaches_no_disk() -> None:
    """`finally` blocks run when a crash cancels them; a power cut would not run them."""
    with SimWorld(1) as world:
        node = world.node("n")

        async def tidy() -> None:
            file = node.ports.disk.open("a", create=True)
            await node.ports.disk.sync_dir("")
            try:
                await asyncio.sleep(100)
            finally:
                file.append([b"a clean end"])
                await file.sync()

        async def scenario() -> None:
            node.spawn(tidy())
            await asyncio.sleep(1)
            node.kill()
            await asyncio.sleep(1)
            assert node.restart().disk.read_file("a") == b""

        world.run(scenario())


def test_a_hung_disk_ends_no_sync_and_raises_nothing() -> None:
    async def scenario(node: SimNode) -> tuple[bool, bool, bytes]:
        disk = node.ports.disk
        file = disk.open("a", create=True)
        await disk.sync_dir("")
        node.hang_disk()
        file.append([b"x" * 100])
        asked = [asyncio.ensure_future(step) for step in (file.sync(), disk.sync_dir(""), disk.write_atomic("b", b"y"))]
        await asyncio.sleep(3_600)
        ended_while_hung = any(task.done() for task in asked)
        node.thaw_disk()
        await asyncio.gather(*asked)
        node.crash()
        return ended_while_hung, node.disk.is_hung, node.restart().disk.read_file("a")

    assert on_node(1, scenario) == (False, False, b"x" * 100)


def test_a_killed_process_finds_the_disk_still_hung_and_a_power_cut_ends_the_hang() -> None:
    async def scenario(node: SimNode) -> list[bool]:
        node.hang_disk()
        node.kill()
        node.restart()
        found = [node.disk.is_hung]
        node.crash()
        node.restart()
        return [*found, node.disk.is_hung]

    assert on_node(1, scenario) == [True, False]


def test_an_append_to_a_disk_that_blocks_writes_stops_the_process() -> None:
    async def scenario(node: SimNode) -> list[int]:
        steps: list[int] = []

        async def write() -> None:
            file = node.ports.disk.open("a", create=True)
            for _ in range(3):
                file.append([b"x"])
                steps.append(1)
                await asyncio.sleep(1)

        node.hang_disk(appends=True)
        node.spawn(write())
        await asyncio.sleep(100)
        found = [len(steps), int(node.is_up)]
        node.thaw_disk()
        await asyncio.sleep(10)
        return [*found, len(steps), int(node.is_up)]

    assert on_node(1, scenario) == [1, 0, 3, 1]


@pytest.mark.parametrize("seed", range(5))
def test_the_platter_is_what_a_power_cut_leaves_at_least(seed: int) -> None:
    async def scenario(node: SimNode) -> tuple[bytes | None, bytes]:
        disk = node.disk
        file = disk.open("a", create=True)
        file.append([b"s" * 1000])
        await file.sync()
        assert disk.platter("a") is None, "its name may be lost"
        await disk.sync_dir("")
        file.append([b"u" * 1000])
        assert disk.in_cache("a") == b"s" * 1000 + b"u" * 1000
        left = disk.platter("a")
        node.crash()
        return left, node.restart().disk.read_file("a")

    left, found = on_node(seed, scenario)
    assert left == b"s" * 1000
    assert found.startswith(left)


def test_a_removed_name_may_come_back_and_a_new_file_has_nothing_on_the_platter() -> None:
    async def scenario(node: SimNode) -> None:
        disk = node.disk
        disk.open("a", create=True)
        await disk.sync_dir("")
        disk.remove("a")
        assert disk.is_named("a")
        disk.open("a", create=True)
        assert disk.platter("a") is None
        disk.remove("a")
        await disk.sync_dir("")
        assert not disk.is_named("a")

    on_node(1, scenario)


def test_one_sync_of_such_a_file_fails_and_no_later_one_makes_it_durable() -> None:
    async def scenario(node: SimNode) -> tuple[str, bytes | None]:
        disk = node.disk
        for name in ("a.log", "b"):
            disk.open(name, create=True).append([b"u" * 1000])
        await disk.sync_dir("")
        disk.fails_sync_of = ".log"
        await disk.open("b").sync()
        with pytest.raises(StorageError):
            await disk.open("a.log").sync()
        await disk.open("a.log").sync()
        return disk.fails_sync_of, disk.platter("a.log")

    assert on_node(1, scenario) == ("", b"")
