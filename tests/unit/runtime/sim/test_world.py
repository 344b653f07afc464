"""A simulated cluster follows from its seed: parts with streams of their own, nodes by name, and one end."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.sim import FaultPlan, SimWorld


def test_one_more_draw_in_one_stream_leaves_the_others_as_they_were() -> None:
    one, other = SimWorld(7), SimWorld(7)
    with one, other:
        one.metadata.random.random()
        for stream in ("network", "metadata", "workload"):
            assert one.random(stream).random() == other.random(stream).random()
        assert one.random("a").random() != one.random("b").random()
        assert one.random("a").random() != SimWorld(8).random("a").random()


def test_a_name_is_one_machine() -> None:
    with SimWorld() as world:
        node = world.node("n")
        with pytest.raises(ValueError, match="a node n already"):
            world.node("n")
        assert world.nodes == {"n": node}


def test_other_faults_reach_every_part_and_every_disk() -> None:
    with SimWorld() as world:
        node = world.node("n")
        plan = FaultPlan(slow_sync=0.5)
        world.set_plan(plan)
        assert world.plan is world.network.plan is world.metadata.plan is node.disk.plan is plan
        assert world.node("later").disk.plan is plan


def test_healing_brings_back_dead_nodes_hung_disks_and_cut_links() -> None:
    started: list[str] = []

    async def main(_ports: NodePorts) -> None:
        started.append("n")

    with SimWorld() as world:
        node, other = world.node("n", main), world.node("o")

        async def scenario() -> None:
            await asyncio.sleep(1)
            node.crash()
            other.hang_disk()
            world.metadata.cut("n")
            world.network.partition(["n"], ["o"])
            world.heal()
            await asyncio.sleep(1)

        world.run(scenario())
        assert node.is_up
        assert len(started) == 2
        assert other.lives == 1, "who lives is not started again"
        assert not other.disk.is_hung
        assert not world.metadata.is_cut("n")
        assert world.network.is_connected("n", "o")


def test_a_task_of_the_world_outlives_the_node_that_it_talks_to() -> None:
    with SimWorld() as world:
        node = world.node("n")
        outlived: list[bool] = []

        async def outside() -> None:
            node.kill()
            await asyncio.sleep(1)
            outlived.append(True)

        async def inside() -> None:
            world.spawn(outside())
            await asyncio.sleep(3600)

        async def scenario() -> None:
            node.spawn(inside())
            await asyncio.sleep(2)

        world.run(scenario())
        assert outlived == [True]


def test_the_end_of_a_world_is_a_power_cut_that_nothing_survives() -> None:
    cleaned: list[str] = []

    async def main(ports: NodePorts) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ports.disk.open("goodbye", create=True)
            cleaned.append("a clean end")

    with SimWorld() as world:
        node = world.node("n", main)
        world.run(asyncio.sleep(1))
    assert node.life.dead
    assert cleaned == []
    assert world.loop.is_closed()
