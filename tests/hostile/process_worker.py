"""A worker of `Client.process` in a process of its own: python -m tests.hostile.process_worker SERVERS GROUP FROM TO

Each record is written once more, with the same key and value. It ends with its input, and prints what it has done.
"""

from __future__ import annotations

import asyncio
import sys

from oncelog.client.client import Client
from oncelog.client.consume.fetched_records import ConsumerRecord


def copied(record: ConsumerRecord) -> object:
    """The output of one record: its value, under its key."""
    return record.value


async def work(servers: str, group: str, source: str, to: str) -> None:
    """Works until the input ends."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    client = Client(
        servers
    )  # not `async with`, which raises when no broker answers at the start; process goes on trying
    try:
        print(
            await client.process(source, to, copied, group_id=group, stop=stop, reading={"max_poll_records": 50}),
            flush=True,
        )
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
