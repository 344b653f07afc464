"""`acks=all` on three brokers: batches of 1 MiB and 64 KiB, and single records."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from oncelog.client.client import Client

RECORD_BYTES = 100
BYTES_PER_ROW = RECORD_BYTES + 16  # value offset, key offset, timestamp
IN_FLIGHT = 16


@dataclass(frozen=True, slots=True)
class ProduceResult:
    """`latencies_ms` sorted, from the call to its acknowledgement; empty for throughput runs."""

    mb_per_s: float
    records_per_s: float
    latencies_ms: tuple[float, ...] = ()

    @property
    def p50_ms(self) -> float:
        """Median."""
        return statistics.median(self.latencies_ms)

    @property
    def p99_ms(self) -> float:
        """99th percentile."""
        return self.latencies_ms[int(len(self.latencies_ms) * 0.99)]


def rows_of(batch_bytes: int) -> Any:
    """An Arrow batch of 100-byte values that encodes to about `batch_bytes`."""
    count = max(1, batch_bytes // BYTES_PER_ROW)
    data = os.urandom(RECORD_BYTES * count)
    values = [data[i * RECORD_BYTES : (i + 1) * RECORD_BYTES] for i in range(count)]
    return pa.record_batch({"value": pa.array(values, pa.binary())})


async def throughput(servers: str, topic: str, batch_bytes: int, batches: int, **options: Any) -> ProduceResult:
    """Sends `batches` Arrow batches to partition 0, 16 unacknowledged at a time, after a tenth as warm-up."""
    rows = rows_of(batch_bytes)
    sizes = {"batch_size": 2 << 20, "buffer_memory": 128 << 20}
    async with Client(servers, **options) as client, client.producer(**sizes) as producer:

        async def run(count: int) -> float:
            waiting: deque[Any] = deque()
            begin = time.perf_counter()
            for _ in range(count):
                waiting.append(await producer.send_batch(topic, rows, partition=0))
                if len(waiting) >= IN_FLIGHT:
                    await waiting.popleft()
            while waiting:
                await waiting.popleft()
            return time.perf_counter() - begin

        await run(max(4, batches // 10))
        seconds = await run(batches)
    records = rows.num_rows * batches
    return ProduceResult(records * BYTES_PER_ROW / seconds / 1e6, records / seconds)


async def single_records(servers: str, topic: str, count: int, **options: Any) -> ProduceResult:
    """One record at a time, each acknowledged before the next is sent."""
    value = os.urandom(RECORD_BYTES)
    latencies: list[float] = []
    async with Client(servers, **options) as client, client.producer() as producer:
        for _ in range(count // 10):
            await producer.send_and_wait(topic, value, partition=0)
        begin = time.perf_counter()
        for _ in range(count):
            start = time.perf_counter()
            await producer.send_and_wait(topic, value, partition=0)
            latencies.append((time.perf_counter() - start) * 1e3)
        seconds = time.perf_counter() - begin
    return ProduceResult(0.0, count / seconds, tuple(sorted(latencies)))


async def many_producers(servers: str, topic: str, producers: int, each: int) -> ProduceResult:
    """`producers` loops in one process, one record in flight each."""
    value = os.urandom(RECORD_BYTES)
    async with Client(servers) as client, client.producer() as producer:

        async def loop() -> None:
            for _ in range(each):
                await producer.send_and_wait(topic, value, partition=0)

        begin = time.perf_counter()
        await asyncio.gather(*(loop() for _ in range(producers)))
        seconds = time.perf_counter() - begin
    return ProduceResult(0.0, producers * each / seconds)
