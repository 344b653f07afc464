"""Idle group members in one process, for `bench.group_idle`: python -m bench.idle_members SERVERS TOPIC GROUPS FIRST COUNT

Members FIRST to FIRST + COUNT - 1, each with a client and links of its own, as if each were a process of its own; member n is
in group n % GROUPS. Nothing is written to the topic, so all that they do is send heartbeats and hold one fetch each. It prints
one line when each of them has its partitions, and ends when its input ends: without leaving, since the cluster ends too.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

import uvloop

from oncelog.client.client import Client

HELD_MS: Final = 30_000
_START_AT_ONCE: Final = 8


async def be_member(
    servers: str, topic: str, group_id: str, starting: asyncio.Semaphore, joined: asyncio.Event
) -> None:
    """Reads nothing until it is cancelled. Few clients start at once; all join when they have started."""
    client = Client(servers)
    async with starting:
        await client.start()
    async with client, client.consumer(group_id=group_id, fetch_max_wait_ms=HELD_MS) as consumer:
        consumer.subscribe(topic, on_assigned=lambda _partitions: joined.set())
        while True:
            await consumer.getmany(timeout_ms=HELD_MS)


async def main(servers: str, topic: str, groups: str, first: str, count: str) -> None:
    """All members of this process."""
    starting = asyncio.Semaphore(_START_AT_ONCE)
    joined = [asyncio.Event() for _ in range(int(count))]
    members = [
        asyncio.create_task(be_member(servers, topic, f"idle-{number % int(groups)}", starting, done))
        for number, done in enumerate(joined, int(first))
    ]
    everybody = asyncio.gather(*(one.wait() for one in joined))
    await asyncio.wait([everybody, *members], return_when=asyncio.FIRST_COMPLETED)
    for member in members:
        if member.done():
            member.result()
    await everybody
    print("joined", flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    await stop.wait()
    os._exit(0)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
