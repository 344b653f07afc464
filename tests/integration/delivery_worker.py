"""A consumer with a delivery preset that goes step by step: python -m tests.integration.delivery_worker SERVERS TOPIC PRESET

It reads one record at a time, prints "returned VALUE", waits for a line of its input, works, prints "processed VALUE", and
waits again before it goes on. Under exactly_once its work is a record in the topic TOPIC-out.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from oncelog.client.client import Client
from oncelog.client.consume.fetched_records import Records
from oncelog.client.produce.producer import Producer
from oncelog.delivery_presets import EXACTLY_ONCE


async def step(what: str, records: Records) -> None:
    """Says where it is, and goes on when it is told to."""
    print(what, records[0].value.decode(), flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def in_transaction(producer: Producer, topic: str, records: Records) -> None:
    """The work and the offsets together."""
    async with producer.transaction() as txn:
        await (await txn.send(f"{topic}-out", records[0].value))
        await txn.send_offsets(records)
        await step("processed", records)


async def work(servers: str, topic: str, preset: str) -> None:
    """Works until it is killed."""
    exact = preset == EXACTLY_ONCE
    often: dict[str, Any] = {} if exact else {"auto_commit_interval_ms": 1}
    async with Client(servers) as client:
        consumer = client.consumer(group_id=topic, delivery=preset, auto_offset_reset="earliest", **often)
        await consumer.assign_topics(topic)  # as a member it would wait for the session of the one that was killed
        producer = client.producer(delivery=preset, transactional_id=topic) if exact else None
        if producer is not None:
            await producer.start()  # what the one before left open is aborted, so that its offsets hold nobody back
        async for records in consumer.batches(max_records=1):
            await step("returned", records)
            if producer is None:
                await step("processed", records)
            else:
                await in_transaction(producer, topic, records)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
