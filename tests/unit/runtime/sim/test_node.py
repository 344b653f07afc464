"""Simulated processes: crash, kill, pause, restart, and a planted bug that the simulation must find."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.errors import OncelogError
from oncelog.types import Buffer
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import Handler
from oncelog_runtime.sim import SimWorld

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
