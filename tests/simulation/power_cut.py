"""The whole rack loses power, and a topic that is not in `fsync` mode loses its last records; writers go on at once.

So the offsets of lost records are given out again before anybody has looked at what was known of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from oncelog import errors
from oncelog.client.client import Client
from tests.simulation.cluster import SimCluster

TOPIC: Final = "jobs"
"""It has one partition, whose records are numbers."""
BEFORE: Final = range(30)
"""These are there before the lights go out."""
AFTER: Final = range(30, 50)
"""These are written afterwards."""
_LIMIT_S: Final = 900
"""Of virtual time, for all of it."""


async def write(client: Client, values: range) -> None:
    """Writes until each is acknowledged; one that was written twice may come twice."""
    left = list(values)
    while left:
        try:
            async with client.producer() as producer:
                while left:
                    await producer.send_and_wait(TOPIC, b"%d" % left[0], partition=0)
                    del left[0]
        except errors.OncelogError:
            await asyncio.sleep(0.05)


async def lights_out(cluster: SimCluster, away_s: float) -> None:
    """Every machine loses power; brokers are back at once, and coordinators a little later."""
    nodes = cluster.world.nodes
    for node in nodes.values():
        node.crash(silent=True)
    for name in sorted(nodes):
        if name.startswith("coordinator"):
            await asyncio.sleep(away_s)
        nodes[name].restart()


async def values_in(client: Client) -> set[int]:
    found = set[int]()
    async with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
        ends = await consumer.end_offsets(consumer.assignment())
        while any([await consumer.position(p) < end for p, end in ends.items()]):
            found.update(int(record.value or b"-1") for record in await consumer.getmany(timeout_ms=1_000))
    return found


async def through(
    cluster: SimCluster, client: Client, before: Callable[[], Awaitable[None]], after: Callable[[], Awaitable[None]]
) -> set[int]:
    """Writes, cuts the power, writes on; `before`: as the last record is there, `after`: when all is well again.

    Returns the values that are in the log in the end.
    """
    random = cluster.world.random("losses")
    async with asyncio.timeout(_LIMIT_S):
        await write(client, BEFORE)
        await asyncio.sleep(random.random() * 0.3)
        await before()
        writing = asyncio.ensure_future(write(client, AFTER))
        await lights_out(cluster, away_s=5 * random.random())
        await writing
        await cluster.healthy()
        await after()
        left = await values_in(client)
    assert {*AFTER} <= left
    assert not {*BEFORE} <= left, "each of these seeds loses records, or it would show nothing"
    return left
