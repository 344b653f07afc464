"""What the clients of a simulation do: transactions, plain sends, many-writer batches, and readers that follow along.

Rule: every operation goes into the history before it starts. `OK` and `FAIL` are only said on definite answers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from tests.simulation.cluster import SimCluster
from tests.simulation.history import History, Key, Operation, Status, Value

TOPIC: Final = "work"
PARTITIONS: Final = 3
_PAUSE_MAX_S: Final = 0.4
API_TIMEOUT_MS: Final = 20_000


def encode(value: Value) -> bytes:
    """The bytes of a record."""
    return str(value).encode()


@dataclass(slots=True)
class Workload:
    """Runs its processes until `stop` is set. `decided` keeps what is asked of `GetOutcome` at the end."""

    cluster: SimCluster
    history: History = field(default_factory=History)
    stopping: bool = False
    transactions: list[tuple[str, int, Operation]] = field(default_factory=list)
    committed_tokens: dict[str, int] = field(default_factory=dict)
    unexpected: list[str] = field(default_factory=list)

    def now_ms(self) -> int:
        """Virtual milliseconds."""
        return int(self.cluster.world.loop.time() * 1000)

    def _begin(self, process: str, kind: str) -> Operation:
        return self.history.invoke(process, kind, self.now_ms())

    def _end(self, operation: Operation, status: Status, error: BaseException | None = None) -> None:
        self.history.complete(operation, status, self.now_ms(), "" if error is None else type(error).__name__)

    def _new_writes(self, random: Random, operation: Operation, count: int) -> None:
        for _ in range(count):
            operation.writes.append(((TOPIC, random.randrange(PARTITIONS)), self.history.new_value()))

    # ------------------------------------------------------------ plain sends

    async def sender(self, name: str) -> None:
        """An idempotent producer: single sends, some of them at the same time."""
        random = self.cluster.world.random(name)
        async with self.cluster.client(name, default_api_timeout_ms=API_TIMEOUT_MS) as client:
            while not self.stopping:
                try:
                    await self._send_many(client, name, random)
                except errors.OncelogError:
                    await asyncio.sleep(0.2)

    async def _send_many(self, client: Client, name: str, random: Random) -> None:
        async with client.producer(delivery_timeout_ms=8_000, request_timeout_ms=1_500) as producer:
            for _ in range(random.randint(3, 25)):
                if self.stopping:
                    return
                await asyncio.gather(*(self._send(producer, name, random) for _ in range(random.randint(1, 4))))
                await asyncio.sleep(random.random() * _PAUSE_MAX_S)

    async def _send(self, producer: Any, name: str, random: Random) -> None:
        operation = self._begin(name, "send")
        self._new_writes(random, operation, 1)
        ((topic, partition), value) = operation.writes[0]
        try:
            delivery = await producer.send(topic, value=encode(value), partition=partition)
            metadata = await delivery
        except errors.OncelogError as error:
            self._end(operation, Status.INFO, error)
            return
        if metadata.offset >= 0:
            operation.write_offsets[operation.writes[0]] = metadata.offset
        self._end(operation, Status.OK)

    # ------------------------------------------------------------ transactions

    async def transactor(self, name: str) -> None:
        """A transactional producer: commits most, aborts some, begins a new session now and then."""
        random = self.cluster.world.random(name)
        async with self.cluster.client(name, default_api_timeout_ms=API_TIMEOUT_MS) as client:
            while not self.stopping:
                try:
                    async with client.producer(
                        transactional_id=name, transaction_timeout_ms=4_000, delivery_timeout_ms=8_000
                    ) as producer:
                        for _ in range(random.randint(1, 12)):
                            if self.stopping:
                                return
                            await self._transaction(producer, name, random)
                            await asyncio.sleep(random.random() * _PAUSE_MAX_S)
                except errors.OncelogError:
                    await asyncio.sleep(0.2)

    async def _transaction(self, producer: Any, name: str, random: Random) -> None:
        operation = self._begin(name, "txn")
        self._new_writes(random, operation, random.randint(0, 4))
        wants_abort = random.random() < 0.2
        txn = producer.transaction()
        try:
            await txn.begin()
            self.transactions.append((name, txn.txn_no, operation))
            for (topic, partition), value in operation.writes:
                await txn.send(topic, value=encode(value), partition=partition)
                if random.random() < 0.1:
                    await asyncio.sleep(random.random() * 2)
            if wants_abort:
                await txn.abort()
                self._end(operation, Status.FAIL)
                return
            await txn.commit(wait=random.choice(["decided", "visible"]))
        except errors.OncelogError as error:
            await self._end_by_outcome(txn, operation, error)
            return
        self._end(operation, Status.OK)

    async def _end_by_outcome(self, txn: Any, operation: Operation, error: errors.OncelogError) -> None:
        """A transaction whose end is not known here stays INFO; a definite abort is a FAIL."""
        definite = isinstance(error, errors.TxnAbortedError | errors.TxnEndedError)
        try:
            await txn.abort()
        except errors.OncelogError:
            self._end(operation, Status.FAIL if definite else Status.INFO, error)
        else:
            self._end(operation, Status.FAIL, error)

    # ------------------------------------------------------------ readers

    async def reader(self, name: str) -> None:
        """A read_committed consumer that follows all partitions from the beginning."""
        async with self.cluster.client(name, default_api_timeout_ms=API_TIMEOUT_MS) as client:
            consumer = client.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=200)
            async with consumer:
                await consumer.assign([(TOPIC, p) for p in range(PARTITIONS)])
                while not self.stopping:
                    await self._poll(consumer, name)

    async def _poll(self, consumer: Any, name: str) -> None:
        operation = self._begin(name, "poll")
        try:
            records = await consumer.getmany(timeout_ms=500)
        except errors.OncelogError as error:
            self._end(operation, Status.INFO, error)
            await asyncio.sleep(0.2)
            return
        for record in records:
            operation.reads.setdefault((record.topic, record.partition), []).append((record.offset, int(record.value)))
        self._end(operation, Status.OK)

    async def final_read(self) -> dict[Key, list[tuple[int, Value]]]:
        """All that a fresh read_committed client sees, up to the end as it is now."""
        found: dict[Key, list[tuple[int, Value]]] = {(TOPIC, p): [] for p in range(PARTITIONS)}
        async with self.cluster.client("final") as client:
            ends = await client.admin.partition_offsets(TOPIC)
            async with client.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=100) as consumer:
                await consumer.assign(list(found))
                while any(await consumer.position((TOPIC, p)) < ends[p].last_stable_offset for p in ends):
                    for record in await consumer.getmany(timeout_ms=500):
                        found[record.topic, record.partition].append((record.offset, int(record.value)))
        return found
