"""A member of a group in a process of its own: python -m tests.integration.group_worker SERVERS GROUP TOPIC

It prints one line of JSON per event: {"what": "assigned" | "revoked" | "lost", "partitions": [...]}, {"what": "read",
"records": [[partition, offset], ...]} and {"what": "refused", "error": name}. It commits after each line of records, and
ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import sys

from oncelog.client.client import Client
from oncelog.errors import OncelogError
from oncelog.types import TopicPartition


def tell(what: str, **more: object) -> None:
    """One line."""
    print(json.dumps({"what": what, **more}), flush=True)


def numbers(partitions: list[TopicPartition]) -> list[int]:
    """Without the topic."""
    return [partition.partition for partition in partitions]


async def work(servers: str, group: str, topic: str) -> None:
    """Reads until the input ends."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    async with (
        Client(servers) as client,
        client.consumer(group_id=group, auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe(
            topic,
            on_assigned=lambda given: tell("assigned", partitions=numbers(given)),
            on_revoked=lambda given: tell("revoked", partitions=numbers(given)),
            on_lost=lambda given: tell("lost", partitions=numbers(given)),
        )
        while not stop.is_set():
            records = await consumer.getmany(timeout_ms=100)
            if records:
                tell("read", records=[(record.partition, record.offset) for record in records])
                try:
                    await consumer.commit()
                except OncelogError as error:
                    tell("refused", error=type(error).__name__)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
