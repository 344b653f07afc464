"""Members of a group in one process, for `bench.groups`: python -m bench.group_host SERVERS GROUP TOPIC FIRST COUNT

Members FIRST to FIRST + COUNT - 1 join and read until the input ends; then they leave. Each record's value is the wall-clock
time in milliseconds at which it was sent. Printed, one JSON array per line: [time in ms, member, "joins", []] before the first
read, [time in ms, member, "+" or "-", partitions] when partitions come or go, and [time in ms, member, "late", {partition:
milliseconds}] every 100 ms, the longest from send to read since the last line.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from functools import partial

import uvloop

from oncelog.client.client import Client
from oncelog.types import TopicPartition

REPORT_S = 0.1


def now_ms() -> float:
    """By the clock that all processes of this machine share."""
    return time.time() * 1000


def tell(member: int, what: str, more: object) -> None:
    """One line."""
    print(json.dumps([now_ms(), member, what, more]), flush=True)


def told(member: int, what: str) -> Callable[[list[TopicPartition]], None]:
    """A callback that prints the partitions."""
    return lambda given: tell(member, what, [number for _, number in given])


async def be_member(servers: str, group: str, topic: str, member: int, stop: asyncio.Event) -> None:
    """Reads until `stop`."""
    late: dict[int, float] = {}

    async def report() -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            if late:
                tell(member, "late", late)
                late.clear()

    async with Client(servers) as client, client.consumer(group_id=group, fetch_max_wait_ms=2_000) as consumer:
        consumer.subscribe(topic, on_assigned=told(member, "+"), on_revoked=told(member, "-"))
        reporting = asyncio.create_task(report())
        tell(member, "joins", [])
        while not stop.is_set():
            for record in await consumer.getmany(timeout_ms=1_000):
                waited_ms = now_ms() - float(record.value or 0)
                late[record.partition] = max(late.get(record.partition, 0.0), waited_ms)
        reporting.cancel()


async def main(servers: str, group: str, topic: str, first: str, count: str) -> None:
    """All members of this process."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    join = partial(be_member, servers, group, topic)
    await asyncio.gather(*(join(int(first) + number, stop) for number in range(int(count))))


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
