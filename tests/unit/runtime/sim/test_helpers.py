"""Simulated helpers die, stop and dawdle as the plan says, in the middle of what they do."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from oncelog_runtime.ports import Channel, Disk, Helper, HelperGoneError
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.helpers import SimHelpers
from oncelog_runtime.sim.loop import SimLoop
from oncelog_runtime.sim.world import SimWorld


async def count(disk: Disk, channel: Channel, name: str) -> None:
    """Appends a byte every 100 ms, and says so."""
    file = disk.open(name, create=True)
    while True:
        await asyncio.sleep(0.1)
        file.append([b"x"])
        await channel.send(b"%d" % file.size)


async def listen(helper: Helper, heard: list[int]) -> None:
    """Takes down what the helper says."""
    while True:
        heard.append(int(await helper.receive()))


def test_a_helper_dies_in_the_middle_of_its_work_and_what_it_wrote_stays() -> None:
    with SimWorld(1) as world:
        disk = world.node("n").disk
        helpers = SimHelpers(disk, Random(1), lambda: FaultPlan(helper_death=1.0))

        async def test() -> None:
            heard: list[int] = []
            helper = await helpers.start(count)
            with pytest.raises(HelperGoneError):
                await listen(helper, heard)
            await asyncio.sleep(5)
            assert 0 < heard[-1] <= len(disk.read_file("sim-0")) <= heard[-1] + 1

        world.run(test())


def test_a_frozen_helper_says_nothing_more_until_it_is_killed() -> None:
    with SimWorld(1) as world:
        helpers = SimHelpers(world.node("n").disk, Random(1), lambda: FaultPlan(helper_freeze=1.0))

        async def test() -> None:
            helper = await helpers.start(count)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(listen(helper, []), 100)
            helper.kill()
            with pytest.raises(HelperGoneError):
                await helper.receive()

        world.run(test())


def test_a_slow_helper_is_late() -> None:
    with SimWorld(1) as world:
        plan = FaultPlan(slow_helper=1.0, slow_helper_ms=3_000)
        helpers = SimHelpers(world.node("n").disk, Random(1), lambda: plan)

        async def test() -> float:
            helper, began = await helpers.start(count), world.loop.time()
            await helper.receive()
            helper.kill()
            return world.loop.time() - began

        assert 3.1 <= world.run(test()) < 3.2


def test_a_helper_dies_with_the_process_that_started_it() -> None:
    with SimWorld(1) as world:
        node = world.node("n")

        async def test() -> None:
            async def process() -> None:
                await node.ports.helpers.start(count)
                await asyncio.sleep(3600)

            node.spawn(process())
            await asyncio.sleep(1.05)
            node.kill()
            (name,) = node.disk.list("")
            size = len(node.disk.read_file(name))
            assert size > 5
            await asyncio.sleep(10)
            assert len(node.disk.read_file(name)) == size

        world.run(test())


def test_helpers_of_two_lives_have_different_names() -> None:
    with SimLoop(1) as loop:

        async def test() -> list[bytes]:
            async def name_of(_disk: Disk, channel: Channel, name: str) -> None:
                await channel.send(name.encode())

            disk: Disk = None  # type: ignore[assignment]
            lives = [SimHelpers(disk, Random(1), name=f"n#{life}") for life in (1, 2)]
            return [await (await helpers.start(name_of)).receive() for helpers in (*lives, *lives)]

        assert loop.run(test()) == [b"n-1-0", b"n-2-0", b"n-1-1", b"n-2-1"]
