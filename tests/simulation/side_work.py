"""Work beside the history: a topic that retention trims, and topics that come and go.

What it writes is not looked for in the end: retention may have taken it. It is there for what it does to the brokers:
followers that begin above their log's end, logs opened and deleted under way, snapshots with open transactions in them.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from tests.simulation.workload import Workload

TRIMMED: Final = "trimmed"
TRIMMED_CONFIG: Final = {
    "min.insync.replicas": "2",
    "segment.bytes": "1500",
    "max.message.bytes": "1500",
    "retention.bytes": "4000",
}
TRIMMED_PARTITIONS: Final = 2
_PAUSE_MAX_S: Final = 0.3
_VALUE: Final = bytes(120)


class SideWork:
    """`written` counts the records that were acknowledged."""

    def __init__(self, workload: Workload) -> None:
        self.written = 0
        self._workload = workload
        self._topics = 0

    async def trimmed_writer(self, name: str) -> None:
        """Transactions and plain sends into the trimmed topic."""
        await self._workload.for_ever(name, self._write)

    async def _write(self, client: Client, name: str, random: Random) -> None:
        timeouts: dict[str, Any] = {"delivery_timeout_ms": 4_000, "request_timeout_ms": 1_500}
        async with (
            client.producer(transactional_id=name, transaction_timeout_ms=3_000, **timeouts) as transactional,
            client.producer(**timeouts) as plain,
        ):
            for _ in range(random.randint(2, 10)):
                if self._workload.stopping:
                    return
                async with transactional.transaction() as txn:
                    for _ in range(random.randint(1, 4)):
                        await txn.send(TRIMMED, _VALUE, partition=random.randrange(TRIMMED_PARTITIONS))
                        await (await plain.send(TRIMMED, _VALUE, partition=random.randrange(TRIMMED_PARTITIONS)))
                        self.written += 1
                await asyncio.sleep(random.random() * _PAUSE_MAX_S)

    async def topic_maker(self, name: str) -> None:
        """Creates a topic, writes a little, deletes it."""
        await self._workload.for_ever(name, self._make_topic)

    async def _make_topic(self, client: Client, name: str, random: Random) -> None:
        self._topics += 1
        topic = f"passing-{self._topics}"
        try:
            await client.admin.create_topic(topic, partitions=1, replication_factor=random.choice([1, 3]))
            async with client.producer(delivery_timeout_ms=2_000, request_timeout_ms=1_000) as producer:
                for _ in range(random.randint(0, 5)):
                    await (await producer.send(topic, _VALUE))
        finally:
            await self._delete(client, topic)
        await asyncio.sleep(random.random() * _PAUSE_MAX_S)

    @staticmethod
    async def _delete(client: Client, topic: str) -> None:
        try:
            await client.admin.delete_topic(topic)
        except errors.UnknownTopicError:
            pass
