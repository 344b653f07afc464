"""What goes wrong in a simulation: a plan of probabilities, drawn from the seed alone, and a driver that heals in the end."""

from __future__ import annotations

import asyncio
from random import Random

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


def test_a_plan_is_drawn_from_its_seed_alone() -> None:

    plans = [FaultPlan.draw(Random(seed)) for seed in range(50)]
    assert plans[7] == FaultPlan.draw(Random(7))
    assert any(plan.crash_every_ms for plan in plans)
    assert any(not plan.crash_every_ms for plan in plans)
    assert all(plan.calm().crash_every_ms == 0 == plan.calm().lose_reply for plan in plans)
    with pytest.raises(ValueError, match="lose_reply"):
        FaultPlan(lose_reply=-0.1)


def test_a_calm_plan_has_no_faults_and_the_same_speeds() -> None:
    plan = FaultPlan.draw(Random(3))
    assert plan.calm() == FaultPlan(
        delay_max_ms=plan.delay_max_ms,
        sync_max_ms=plan.sync_max_ms,
        skew_max_ms=plan.skew_max_ms,
        drift_max=plan.drift_max,
    )


def test_single_faults_are_left_out_by_name() -> None:
    plan = FaultPlan(lose_reply=0.1, relist=0.2, slow_ms=9.0)
    assert plan.without("lose_reply", "slow_ms") == FaultPlan(relist=0.2)


def test_each_kind_of_fault_is_on_in_some_seeds_and_off_in_others() -> None:
    plans = [FaultPlan.draw(Random(seed)) for seed in range(200)]
    drawn = {name for plan in plans for name in plan.__slots__ if getattr(plan, name) != getattr(FaultPlan(), name)}
    faults = {name for name in drawn if name.endswith("_every_ms") or 0 < max(getattr(p, name) for p in plans) <= 0.5}
    assert "bit_flip_every_ms" not in drawn, "the test that wants rot must know which replicas may rot together"
    for name in faults - {"drift_max"}:
        assert 60 < sum(getattr(plan, name) == getattr(FaultPlan(), name) for plan in plans) < 140, name
    assert len(faults) > 20


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
