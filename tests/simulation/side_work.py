"""Work beside the history: a topic that retention trims, and topics that come and go under names that come again.

It is there for what it does to the brokers: followers that begin above their log's end, logs opened and deleted under way,
snapshots with open transactions in them. What may be gone is only what retention or a deletion may have taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.admin.descriptions import TransactionDescription
from oncelog.client.client import Client
from oncelog.client.produce.delivery import RecordMetadata
from oncelog_partition_leader.log.partition_log import PartitionLog
from tests.simulation.history import Key, Records, Value
from tests.simulation.recorded import encode, read_to
from tests.simulation.replicas import bytes_from
from tests.simulation.workload import Workload, final_read

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
_READ_MAX_S: Final = 75.0
"""Longer than a partition of one replica may be without its broker, and than two fetches whose answers were lost take to
time out (30 s each)."""
_LOOK_S: Final = 1.0
_RECORD_BYTES: Final = 120
_RETAINED_BYTES: Final = 2_500
"""Retention leaves at least this much: 4,000, less a largest batch that it may have counted and that was never committed."""
_NAMES: Final = 2
"""So many names are used for topics that come and go."""


class SideWork:
    """`written` counts the records that were acknowledged, `operated` the rounds of the operator.

    `is_written_off(topic_id)`: the topic may have lost what it had. `reached(key)`: how far a partition is committed.
    `stays(transaction)`: a transactional id that was listed once is listed for ever. `problems` grows.
    """

    def __init__(
        self,
        workload: Workload,
        is_written_off: Callable[[str], bool],
        reached: Callable[[Key], int],
        stays: Callable[[TransactionDescription], bool],
    ) -> None:
        self.written = 0
        self.operated = 0
        self.problems: list[str] = []
        self._workload = workload
        self._is_written_off = is_written_off
        self._reached = reached
        self._stays = stays
        self._topics = 0
        self._listed: set[str] = set()
        self._acknowledged: dict[Key, dict[int, Value]] = {(TRIMMED, p): {} for p in range(TRIMMED_PARTITIONS)}
        self._deleted_to: dict[int, int] = dict.fromkeys(range(TRIMMED_PARTITIONS), 0)
        """By partition of the trimmed topic: below this a deletion may have taken everything."""

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
                sent = []
                async with transactional.transaction() as txn:
                    for _ in range(random.randint(1, 4)):
                        sent.append(await self._send(txn, random))
                        value, delivery = await self._send(plain, random)
                        self._note(value, await delivery)
                for value, delivery in sent:
                    self._note(value, delivery.result())
                await asyncio.sleep(random.random() * _PAUSE_MAX_S)

    async def _send(self, producer: Any, random: Random) -> tuple[Value, Any]:
        value = self._workload.history.new_value()
        partition = random.randrange(TRIMMED_PARTITIONS)
        return value, await producer.send(TRIMMED, encode(value).ljust(_RECORD_BYTES), partition=partition)

    def _note(self, value: Value, written: RecordMetadata) -> None:
        self.written += 1
        if written.offset >= 0:
            self._acknowledged[TRIMMED, written.partition][written.offset] = value

    async def check(self, logs: Mapping[int, PartitionLog]) -> list[str]:
        """What is wrong with the trimmed topic in the end. `logs`: its leaders' logs by partition."""
        final = await final_read(self._workload.cluster, list(self._acknowledged))
        return [*self._missing(final, logs), *self._gone_too_early(logs)]

    def _missing(self, final: dict[Key, Records], logs: Mapping[int, PartitionLog]) -> Iterator[str]:
        for key, acknowledged in self._acknowledged.items():
            there = dict(final[key])
            for offset, value in sorted(acknowledged.items()):
                if offset >= logs[key[1]].log_start_offset and there.get(offset) != value:
                    yield f"lost-write: {key} offset {offset} is {there.get(offset)}, and {value} was acknowledged there"

    def _gone_too_early(self, logs: Mapping[int, PartitionLog]) -> Iterator[str]:
        for number, log in sorted(logs.items()):
            start = log.log_start_offset
            kept = len(bytes_from(log, start))
            if start > self._deleted_to[number] and kept < _RETAINED_BYTES:
                yield (
                    f"deleted-too-much: {TRIMMED}-{number} begins at {start} and has {kept} bytes; retention leaves"
                    f" {_RETAINED_BYTES}, and nobody deleted above {self._deleted_to[number]}"
                )

    async def topic_maker(self, name: str) -> None:
        """Creates a topic, writes a little, reads it, deletes it; the next one has a name that was there before."""
        await self._workload.for_ever(name, self._make_topic)

    async def _make_topic(self, client: Client, name: str, random: Random) -> None:
        self._topics += 1
        topic = f"{PASSING}{self._topics % _NAMES}"
        try:
            await self._pass(client, topic, random)
        finally:
            await self._delete(client, topic)
        await asyncio.sleep(random.random() * _PAUSE_MAX_S)

    async def _pass(self, client: Client, topic: str, random: Random) -> None:
        created = await client.admin.create_topic(topic, partitions=1, replication_factor=random.choice([1, 3]))
        if random.random() < 0.5:
            await client.admin.add_partitions(topic, 3)
        acknowledged: set[Value] = set()
        try:
            async with client.producer(delivery_timeout_ms=2_000, request_timeout_ms=1_000) as producer:
                for _ in range(random.randint(0, 5)):
                    value = self._workload.history.new_value()
                    await producer.send_and_wait(topic, encode(value), partition=0)
                    acknowledged.add(value)
            await asyncio.sleep(random.random() * _PAUSE_MAX_S)
            found = await self._read_unless_lost(client, topic, created.topic_id)
        except TimeoutError:
            self.problems.append(f"unreadable: {topic} {created.topic_id} ends before the end that it had told")
            return
        except errors.UnknownTopicError as error:
            self.problems.append(f"topic-vanished: {topic} {created.topic_id} was deleted by nobody: {error}")
            return
        if found is None:
            return
        missing = acknowledged - found
        if missing and not self._is_written_off(created.topic_id):
            self.problems.append(f"lost-write: {topic} {created.topic_id} does not have {sorted(missing)} any more")

    async def _read_unless_lost(self, client: Client, topic: str, topic_id: str) -> set[Value] | None:
        """None: its log may have lost its end, so that nobody ever reads to it. Raises `TimeoutError` for any other log."""
        reading = asyncio.get_running_loop().create_task(self._read(client, topic))
        try:
            async with asyncio.timeout(_READ_MAX_S):
                while not reading.done() and not self._is_written_off(topic_id):
                    await asyncio.wait([reading], timeout=_LOOK_S)
            return await reading if reading.done() else None
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    @staticmethod
    async def _read(client: Client, topic: str) -> set[Value]:
        async with client.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=20) as consumer:
            await consumer.assign([(topic, 0)])
            found = await read_to(consumer, await consumer.end_offsets([(topic, 0)]))
        return {value for _, value in found[topic, 0]}

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

    async def _delete_records(self, client: Client, partition: int, random: Random) -> None:
        """Everything that is committed, or what is below some offset. Later records must stay, however late a copy acts."""
        known = max(self._acknowledged[TRIMMED, partition], default=0)
        before = random.choice([-1, random.randint(0, known)])
        try:
            await client.admin.delete_records(TRIMMED, partition, before)
        except errors.OffsetOutOfRangeError:
            pass
        finally:
            reached = self._reached((TRIMMED, partition)) if before < 0 else before
            self._deleted_to[partition] = max(self._deleted_to[partition], reached)

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
        if random.random() < 0.3:
            await self._delete_records(client, random.randrange(TRIMMED_PARTITIONS), random)
        listed = await admin.list_transactions()
        known = {item.transactional_id for item in listed}
        assert self._listed <= known, f"a list has forgotten {sorted(self._listed - known)}"
        self._listed = {item.transactional_id for item in listed if self._stays(item)}
        await admin.find_hanging([await admin.describe_topic(TRIMMED)])
        self.operated += 1
        await asyncio.sleep(random.random())
