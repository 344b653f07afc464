"""How old the first record is that a group has not committed. Imported when a verb runs.

Rule 1: one read for all partitions with lag, in which each gives one record; it ends when all have, or after `LOOK_MS`.
Rule 2: a partition whose record could not be read has no age: nothing is guessed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from oncelog.types import TopicPartition
from oncelog_cli.cluster.group_rows import Row

if TYPE_CHECKING:
    from oncelog.client.client import Client
    from oncelog.client.consume.consumer import Consumer

LOOK_MS: Final = 5_000
_POLL_MS: Final = 500
_FETCH_BYTES: Final = 64 << 10


async def add_lag_times(client: Client, rows: Iterable[Row]) -> None:
    """Sets `lag_time_ms` of the rows whose lag is known: 0 without lag, else the age of the first unread record."""
    behind: dict[TopicPartition, int] = {}
    waiting: dict[TopicPartition, Row] = {}
    for row in rows:
        topic, partition, offset, lag = (row[name] for name in ("topic", "partition", "current_offset", "lag"))
        if lag == 0:
            row["lag_time_ms"] = 0
        elif lag is not None and isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int):
            where = TopicPartition(topic, partition)
            behind[where], waiting[where] = offset, row
    found = await first_times(client, behind)
    now_ms = time.time_ns() // 1_000_000
    for where, timestamp_ms in found.items():
        waiting[where]["lag_time_ms"] = max(0, now_ms - timestamp_ms)


async def first_times(client: Client, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Partition -> timestamp of the first committed record from this offset on; without those that do not answer."""
    found: dict[TopicPartition, int] = {}
    if not offsets:
        return found
    async with client.consumer(auto_offset_reset="earliest", max_partition_fetch_bytes=_FETCH_BYTES) as consumer:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_MS / 1000):
                await consumer.assign(offsets)
                for where, offset in offsets.items():
                    consumer.seek(where, offset)
                while len(found) < len(offsets):
                    await _read(consumer, found)
    return found


async def _read(consumer: Consumer, found: dict[TopicPartition, int]) -> None:
    """Takes the first record of each partition that has one, and reads no further there."""
    try:
        records = await consumer.getmany(timeout_ms=_POLL_MS)
    except OncelogError:
        await asyncio.sleep(
            _POLL_MS / 1000
        )  # of one partition, perhaps at each try (no READ on the topic); others go on
        return
    for record in records:
        where = TopicPartition(record.topic, record.partition)
        if where not in found:
            found[where] = record.timestamp_ms
            consumer.pause(where)
