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

PASSING: Final = "passing-"
"""How the names of the topics that come and go begin. Some have one replica."""
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
    """`written` counts the records that were acknowledged, `operated` the rounds of the operator."""

    def __init__(self, workload: Workload) -> None:
        self.written = 0
        self.operated = 0
        self._workload = workload
        self._topics = 0
        self._listed: set[str] = set()

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
        topic = f"{PASSING}{self._topics}"
        try:
            await client.admin.create_topic(topic, partitions=1, replication_factor=random.choice([1, 3]))
            if random.random() < 0.5:
                await client.admin.add_partitions(topic, 3)
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

    # ------------------------------------------------------------ operators

    async def operator(self, name: str, *, may_change_flush_mode: bool) -> None:
        """Alters the trimmed topic's options, moves and deletes a group's offsets, fences the trimmed writer, lists."""

        async def session(client: Client, _name: str, random: Random) -> None:
            await self._operate(client, random, may_change_flush_mode)

        await self._workload.for_ever(name, session)

    async def _operate(self, client: Client, random: Random, may_change_flush_mode: bool) -> None:
        admin = client.admin
        options = {
            "segment_bytes": str(random.choice([1_500, 3_000])),
            "retention_bytes": str(random.choice([4_000, 9_000])),
        }
        if may_change_flush_mode:  # else a power cut of all would be allowed to take what must stay
            options["flush_mode"] = random.choice(["fsync", "replicated"])
        after = await admin.alter_topic(TRIMMED, config=options)
        assert options.items() <= after.config.items(), "an answered change is in force"
        assert after.config["min_insync_replicas"] == "2", "what was not named stays"
        await admin.set_group_offsets("operators", {(TRIMMED, p): 0 for p in range(TRIMMED_PARTITIONS)})
        found = await admin.describe_group("operators")
        assert all(item.offset == 0 for item in found.offsets)
        if random.random() < 0.5:
            await admin.delete_group_offsets("operators")
        if random.random() < 0.3:
            await admin.fence_producer("trimmer")
        known = {transaction.transactional_id for transaction in await admin.list_transactions()}
        assert self._listed <= known, f"a list has forgotten {sorted(self._listed - known)}"
        self._listed = known
        await admin.find_hanging([await admin.describe_topic(TRIMMED)])
        self.operated += 1
        await asyncio.sleep(random.random())
