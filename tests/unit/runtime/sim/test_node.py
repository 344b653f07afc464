"""Simulated processes: crash, kill, pause, restart, and a planted bug that the simulation must find."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.errors import OncelogError
from oncelog.types import Buffer
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import Handler
from oncelog_runtime.sim import FaultDriver, FaultPlan, SimWorld

RECORD_BYTES = 100


def toy_log(sync_first: bool) -> object:
    """A server that appends a record and acknowledges it: after the sync, or (planted) before it."""

    async def main(ports: NodePorts) -> None:
        file = ports.disk.open("log", create=True)
        await ports.disk.sync_dir("")
        file.truncate(file.size - file.size % RECORD_BYTES)

        async def append(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
            file.append([header.ljust(RECORD_BYTES)])
            if sync_first:
                await file.sync()
            return b"", b""

        async def read(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
            return b"", file.read(0, file.size)

        handlers: dict[str, Handler] = {"Toy.Append": append, "Toy.Read": read}
        for name, handler in handlers.items():
            ports.server.register(name, handler)
        await ports.server.start()
        await asyncio.Event().wait()

    return main


def lost_records(seed: int, sync_first: bool) -> int:
    """Runs a client against the toy, with power cuts; counts acknowledged records that are gone."""
    with SimWorld(seed) as world:
        node = world.node("s", toy_log(sync_first))  # type: ignore[arg-type]
        client, acknowledged = world.client(), []

        async def write() -> None:
            for i in range(100):
                try:
                    await client.call("s:9092", "Toy.Append", b"%d" % i, b"", 200)
                    acknowledged.append(b"%d" % i)
                except OncelogError:
                    await asyncio.sleep(0.05)

        async def scenario() -> int:
            await asyncio.sleep(0.1)
            writing = asyncio.create_task(write())
            for _ in range(4):
                await asyncio.sleep(world.random("when").random() * 0.05)
                node.crash()
                await asyncio.sleep(0.05)
                node.restart()
            await writing
            await asyncio.sleep(0.1)
            _, data = await client.call("s:9092", "Toy.Read", b"", b"", 1_000)
            found = {bytes(data[at : at + RECORD_BYTES]).rstrip() for at in range(0, len(data), RECORD_BYTES)}
            return len(set(acknowledged) - found)

        return world.run(scenario())


def test_the_planted_bug_is_found_and_the_right_code_passes() -> None:
    assert sum(lost_records(seed, sync_first=True) for seed in range(10)) == 0
    assert any(lost_records(seed, sync_first=False) for seed in range(3))


def test_a_crash_ends_every_task_however_deep() -> None:
    ticks = []

    async def deep(level: int) -> None:
        async with asyncio.TaskGroup() as group:
            if level:
                group.create_task(deep(level - 1))
            while True:
                await asyncio.sleep(0.1)
                ticks.append(level)

    async def main(_ports: NodePorts) -> None:
        asyncio.get_running_loop().call_later(50, ticks.append, "timer")
        await deep(3)

    with SimWorld(1) as world:
        node = world.node("n", main)

        async def scenario() -> None:
            await asyncio.sleep(1)
            assert set(ticks) == {0, 1, 2, 3}
            node.crash()
            await asyncio.sleep(0)
            count = len(ticks)
            await asyncio.sleep(100)
            assert len(ticks) == count
            assert node.life.tasks() == []

        world.run(scenario())


def test_a_pause_freezes_timers_and_lets_the_wall_clock_go_on() -> None:
    seen = []

    async def main(ports: NodePorts) -> None:
        while True:
            await asyncio.sleep(0.1)
            seen.append(ports.clock.monotonic_ms())

    with SimWorld(1) as world:
        node = world.node("n", main)

        async def scenario() -> None:
            await asyncio.sleep(0.55)
            node.pause(1_000)
            assert not node.is_up
            await asyncio.sleep(1)
            assert len(seen) == 5
            await asyncio.sleep(0.5)
            assert node.is_up
            assert seen[5] >= 1_550

        world.run(scenario())


def test_the_error_of_a_process_fails_the_run_unless_it_is_dead() -> None:
    async def main(_ports: NodePorts) -> None:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            raise ValueError("while dying") from None
        raise ValueError("while alive")

    with SimWorld(1) as world:
        world.node("n", main).kill()
        world.run(asyncio.sleep(2))
    with SimWorld(1) as world:
        world.node("n", main)
        with pytest.raises(AssertionError, match="while alive"):
            world.run(asyncio.sleep(2))


def test_clocks_differ_by_node_and_step() -> None:
    with SimWorld(3, FaultPlan(skew_max_ms=5_000, drift_max=0.01)) as world:
        nodes = [world.node(f"n{i}") for i in range(4)]
        world.run(asyncio.sleep(100))
        assert len({node.ports.clock.now_ms() for node in nodes}) == 4
        assert len({node.ports.clock.monotonic_ms() for node in nodes}) == 4
        before = nodes[0].ports.clock.now_ms(), nodes[0].ports.clock.monotonic_ms()
        nodes[0].clock.step(-1_000)
        assert (nodes[0].ports.clock.now_ms(), nodes[0].ports.clock.monotonic_ms()) == (before[0] - 1_000, before[1])


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
    from random import Random

    plans = [FaultPlan.draw(Random(seed)) for seed in range(50)]
    assert plans[7] == FaultPlan.draw(Random(7))
    assert any(plan.crash_every_ms for plan in plans)
    assert any(not plan.crash_every_ms for plan in plans)
    assert all(plan.calm().crash_every_ms == 0 == plan.calm().lose_reply for plan in plans)
    with pytest.raises(ValueError, match="lose_reply"):
        FaultPlan(lose_reply=-0.1)
