"""The loops that people write, in records per second: `async for`, `for`, `getmany`, and `send` of one record after the other.

What is read was written before as batches of 64 KiB of 100-byte values; what is sent is acknowledged when the clock stops.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from bench.produce import RECORD_BYTES, rows_of
from oncelog.client.client import Client
from oncelog.sync import Client as SyncClient

READ_TOPIC: Final = "bench-loops-read"
WRITE_TOPIC: Final = "bench-loops-written"
PARTITIONS: Final = 3


def create(servers: str, options: dict[str, Any], records: int) -> None:
    """Two topics, and at least `records` records in the one that is read."""
    with SyncClient(servers, **options) as client:
        for topic in (READ_TOPIC, WRITE_TOPIC):
            client.admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        rows = rows_of(64 << 10)
        with client.producer(batch_size=128 << 10) as producer:
            for i in range(-(-records // rows.num_rows)):
                producer.send_batch(READ_TOPIC, rows, partition=i % PARTITIONS)


async def async_for(servers: str, options: dict[str, Any], records: int) -> float:
    """Records per second of `async for record in consumer`."""
    async with (
        Client(servers, **options) as client,
        client.consumer(READ_TOPIC, auto_offset_reset="earliest") as consumer,
    ):
        left = records
        await consumer.getone()
        begin = time.perf_counter()
        async for _ in consumer:
            left -= 1
            if not left:
                break
        return records / (time.perf_counter() - begin)


async def getmany(servers: str, options: dict[str, Any], records: int) -> float:
    """Records per second of `await consumer.getmany()`."""
    async with (
        Client(servers, **options) as client,
        client.consumer(READ_TOPIC, auto_offset_reset="earliest") as consumer,
    ):
        seen = 0
        await consumer.getone()
        begin = time.perf_counter()
        while seen < records:
            seen += len(await consumer.getmany())
        return seen / (time.perf_counter() - begin)


def sync_for(servers: str, options: dict[str, Any], records: int) -> float:
    """Records per second of `for record in consumer`, without an event loop of the caller's."""
    with (
        SyncClient(servers, **options) as client,
        client.consumer(READ_TOPIC, auto_offset_reset="earliest") as consumer,
    ):
        left = records
        consumer.getone()
        begin = time.perf_counter()
        for _ in consumer:
            left -= 1
            if not left:
                break
        return records / (time.perf_counter() - begin)


async def async_send(servers: str, options: dict[str, Any], records: int) -> float:
    """Records per second of `await producer.send(...)`, all acknowledged at the end."""
    value = os.urandom(RECORD_BYTES)
    async with Client(servers, **options) as client, client.producer() as producer:
        await producer.send_and_wait(WRITE_TOPIC, value)
        begin = time.perf_counter()
        for _ in range(records):
            await producer.send(WRITE_TOPIC, value)
        await producer.flush()
        return records / (time.perf_counter() - begin)


def sync_send(servers: str, options: dict[str, Any], records: int) -> float:
    """Records per second of `producer.send(...)`, all acknowledged at the end."""
    value = os.urandom(RECORD_BYTES)
    with SyncClient(servers, **options) as client, client.producer() as producer:
        producer.send_and_wait(WRITE_TOPIC, value)
        begin = time.perf_counter()
        for _ in range(records):
            producer.send(WRITE_TOPIC, value)
        producer.flush()
        return records / (time.perf_counter() - begin)


LOOPS: Final[dict[str, Callable[[str, dict[str, Any], int], Any]]] = {
    "async_for": async_for,
    "getmany": getmany,
    "sync_for": sync_for,
    "async_send": async_send,
    "sync_send": sync_send,
}

_FIRST_CALL: Final = """
import time
begin = time.perf_counter()
import oncelog
with oncelog.SyncClient({servers!r}) as client:
    client.admin.list_topics()
    print((time.perf_counter() - begin) * 1000)
"""


def first_call_ms(servers: str, runs: int) -> float:
    """Median of `import oncelog`, a client and its first answer, in fresh processes."""
    command = [sys.executable, "-c", _FIRST_CALL.format(servers=servers)]
    return statistics.median(
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(runs)
    )
