"""The driver injects what the plan says, and heals everything in the end."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.types import Buffer
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.sim import FaultDriver, FaultPlan, SimWorld


def test_the_driver_injects_and_then_heals_everything() -> None:
    plan = FaultPlan(
        crash_every_ms=2_000,
        kill_every_ms=2_000,
        pause_every_ms=2_000,
        partition_every_ms=2_000,
        metadata_partition_every_ms=2_000,
        compaction_every_ms=2_000,
        clock_step_every_ms=2_000,
    )

    async def main(ports: NodePorts) -> None:
        async def pong(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
            return header, payload

        ports.server.register("Toy.Ping", pong)
        await ports.server.start()
        await asyncio.Event().wait()

    with SimWorld(1, plan) as world:
        nodes = [world.node(name, main) for name in "abc"]
        driver = FaultDriver(world, plan, world.random("faults"))

        async def scenario() -> None:
            driver.start()
            await asyncio.sleep(60)
            await driver.stop()
            await asyncio.sleep(10)
            assert all(node.is_up for node in nodes)
            for node in nodes:
                await world.client().call(node.address, "Toy.Ping", b"", b"", 1_000)

        world.run(scenario())
        assert set(driver.injected) == {name for name in plan.__slots__ if name.endswith("_every_ms")} - {
            "lease_loss_every_ms",
            "bit_flip_every_ms",
        }


def test_no_more_nodes_are_down_at_once_than_allowed() -> None:
    plan = FaultPlan(crash_every_ms=500, kill_every_ms=500, pause_every_ms=500)
    with SimWorld(2, plan) as world:
        nodes = [world.node(name) for name in "abcd"]
        nodes[0].disturbable = False
        driver = FaultDriver(world, plan, world.random("faults"), max_down=2)
        down: list[int] = []

        async def scenario() -> None:
            driver.start()
            for _ in range(2_000):
                await asyncio.sleep(0.05)
                down.append(sum(not node.is_up for node in nodes))
                assert nodes[0].is_up
            await driver.stop()

        world.run(scenario())
        assert max(down) == 2


def test_what_an_injection_raised_ends_in_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = FaultPlan(compaction_every_ms=10)
    with SimWorld(1, plan) as world:
        driver = FaultDriver(world, plan, world.random("faults"))

        def broken() -> None:
            raise ValueError("a bug")

        monkeypatch.setattr(world.metadata, "compact", broken)

        async def scenario() -> None:
            driver.start()
            await asyncio.sleep(1)
            with pytest.raises(ValueError, match="a bug"):
                await driver.stop()

        world.run(scenario())
