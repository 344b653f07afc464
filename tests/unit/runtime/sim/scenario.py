"""A small busy cluster with all faults; prints the digest of its run. A program, so that hashes differ by process."""

from __future__ import annotations

import asyncio
import sys
from random import Random

from oncelog.errors import OncelogError
from oncelog.types import Buffer
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import Put
from oncelog_runtime.sim import FaultDriver, FaultPlan, SimWorld

NAMES = ("a", "b", "c")


async def server(ports: NodePorts) -> None:
    """Appends what it is sent, syncs, answers with its size, and tells its neighbours."""
    file = ports.disk.open("log", create=True)

    async def write(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        file.append([header, payload])
        await file.sync()
        return b"%d" % file.size, b""

    ports.server.register("Toy.Write", write)
    await ports.server.start()
    lease = await ports.metadata.grant_lease(2_000)
    await ports.metadata.commit(puts=[Put(f"/up/{ports.random.random()}", b"", lease)])
    while True:
        await quietly(gossip(ports, lease))
        await asyncio.sleep(0.2)


async def gossip(ports: NodePorts, lease: int) -> None:
    """Tells all peers; the first failure cancels the rest. (`TaskGroup` does so by iterating a set.)"""
    async with asyncio.TaskGroup() as group:
        for name in NAMES:
            group.create_task(tell(ports, name))
        group.create_task(ports.metadata.keep_alive(lease))


async def tell(ports: NodePorts, name: str) -> None:
    """The digest sees in which order cancelled tasks end."""
    try:
        await ports.transport.call(f"{name}:9092", "Toy.Write", b"h", b"gossip", 50)
    finally:
        ports.disk.loop.trace(name)  # type: ignore[attr-defined]


async def quietly(call: object) -> None:
    """Ignores what the faults do."""
    try:
        await call  # type: ignore[misc]
    except* OncelogError:
        pass


async def robust(ports: NodePorts) -> None:
    """A process that starts again inside of itself when a port fails."""
    try:
        await server(ports)
    except* OncelogError:
        pass


def run(seed: int) -> str:
    """The digest of one run."""
    plan = FaultPlan.draw(Random(seed))
    with SimWorld(seed, plan) as world:
        for name in NAMES:
            world.node(name, robust)
        driver = FaultDriver(world, plan, world.random("faults"))
        driver.start()
        client = world.client()

        async def load() -> None:
            for i in range(200):
                await quietly(client.call(f"{NAMES[i % 3]}:9092", "Toy.Write", b"%d" % i, b"x" * 700, 300))
                await asyncio.sleep(0.05)
            await driver.stop()

        world.run(load())
        return f"{world.loop.digest} {world.loop.steps} {driver.injected}"


if __name__ == "__main__":
    print(run(int(sys.argv[1])))
