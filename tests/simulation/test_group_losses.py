"""Readers of a topic that lost its last records in a power cut (`Fetcher`, rule 8): nothing that is there is passed over.

A group that was away comes back to an offset at which other records are by now; so may one that reads all the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from oncelog import errors
from oncelog.client.client import Client
from tests.simulation.cluster import SimCluster
from tests.simulation.power_cut import TOPIC, through

_READS_ON_S = 40
Reads = Callable[[Client, set[int]], Coroutine[None, None, None]]


async def read(client: Client, came: set[int]) -> None:
    """A consumer of a group, which commits what it has read, for ever."""
    while True:
        try:
            async with client.consumer(
                TOPIC, group_id="readers", auto_offset_reset="earliest", enable_auto_commit=False
            ) as consumer:
                while True:
                    records = await consumer.getmany(timeout_ms=500)
                    came.update(int(record.value or b"-1") for record in records)
                    if records:
                        await consumer.commit()
        except errors.OncelogError:
            await asyncio.sleep(0.2)


async def do_once(client: Client, came: set[int]) -> None:
    """Works of a group, each of which is committed with its offset, for ever."""
    while True:
        try:
            async with client.once(TOPIC, group_id="readers") as once:
                async for work in once.each():
                    async with work:
                        came.add(int(work.record.value))
        except errors.OncelogError:
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("read", [read, do_once])
@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize("seed", [0, 2, 3, 5, 7])
def test_a_group_reads_what_took_the_offsets_of_lost_records(seed: int, is_away: bool, read: Reads) -> None:
    came, came_later, left = set[int](), set[int](), set[int]()

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("client", request_timeout_ms=700) as client:
            await client.admin.create_topic(TOPIC, partitions=1, replication_factor=3)
            reading = [asyncio.ensure_future(read(client, came))]

            async def stop() -> None:
                for task in reading:
                    task.cancel()
                await asyncio.gather(*reading, return_exceptions=True)

            async def before() -> None:
                if is_away:
                    await asyncio.sleep(3)  # it reads and commits the last ones
                    await stop()

            async def after() -> None:
                if is_away:
                    reading.append(asyncio.ensure_future(read(client, came_later)))
                await asyncio.sleep(_READS_ON_S)
                await stop()

            left.update(await through(cluster, client, before, after))

    with SimCluster(f"channel-losses-{seed}") as cluster:
        cluster.world.loop.run(main(cluster))
    assert left <= came | came_later, f"never read: {sorted(left - came - came_later)}"
    assert not came & came_later & left, "what was committed and is still there is not read again"
