"""Transactions back to back from one producer: begin, send, commit."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import Any

from oncelog.client.client import Client


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """Milliseconds of a whole transaction, sorted."""

    latencies_ms: tuple[float, ...]

    @property
    def p50_ms(self) -> float:
        """Median."""
        return statistics.median(self.latencies_ms)

    @property
    def p99_ms(self) -> float:
        """99th percentile."""
        return self.latencies_ms[int(len(self.latencies_ms) * 0.99)]


async def back_to_back(
    servers: str, topic: str, records: int, count: int, wait: str, **options: Any
) -> TransactionResult:
    """`count` transactions of `records` records of 100 B over the topic's partitions, after a tenth as warm-up."""
    value = os.urandom(100)
    latencies: list[float] = []
    name = f"bench-{records}-{wait}"
    async with Client(servers, **options) as client, client.producer(transactional_id=name) as producer:
        for number in range(count + count // 10):
            start = time.perf_counter()
            transaction = await producer.begin_transaction()
            for _ in range(records):
                await transaction.send(topic, value)
            await transaction.commit(wait=wait)
            if number >= count // 10:
                latencies.append((time.perf_counter() - start) * 1e3)
    return TransactionResult(tuple(sorted(latencies)))
