"""What the clients of a simulation do: transactions, plain sends, and readers that follow along.

Rule 1: every operation goes into the history before it starts. `OK` and `FAIL` are only said on definite answers.
Rule 2: a process that meets an error goes on with a new session after a while; it never ends before `stopping` is set.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from tests.simulation.cluster import SimCluster
from tests.simulation.history import History, Key, Operation, Status, Value

TOPIC: Final = "work"
PARTITIONS: Final = 3
API_TIMEOUT_MS: Final = 10_000
_PAUSE_MAX_S: Final = 0.4
_RETRY_S: Final = 0.2
Records = list[tuple[int, Value]]


def encode(value: Value) -> bytes:
    """The bytes of a record."""
    return str(value).encode()


@dataclass(slots=True)
class Workload:
    """Runs its processes until `stopping` is set. `named` keeps what is asked of `GetOutcome` at the end."""

    cluster: SimCluster
    history: History = field(default_factory=History)
    stopping: bool = False
    named: list[tuple[str, int, Operation]] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)
    acknowledged: Callable[[Key, int], None] = lambda _key, _offset: None

    def now_ms(self) -> int:
        """Virtual milliseconds."""
        return int(self.cluster.world.loop.time() * 1000)

    def begin(self, process: str, kind: str) -> Operation:
        """A new operation in the history."""
        return self.history.invoke(process, kind, self.now_ms())

    def end(self, operation: Operation, status: Status, error: BaseException | None = None) -> None:
        """Its end."""
        cause = "" if error is None else type(error).__name__
        if cause:
            self.causes[f"{operation.kind} {status.value} {cause}"] += 1
        self.history.complete(operation, status, self.now_ms(), cause)

    def new_writes(self, random: Random, operation: Operation, count: int) -> None:
        """Fresh values for random partitions."""
        for _ in range(count):
            operation.writes.append(((TOPIC, random.randrange(PARTITIONS)), self.history.new_value()))

    async def for_ever(self, name: str, session: Callable[[Client, str, Random], Awaitable[None]]) -> None:
        """One session after the other, with one client, until `stopping`."""
        random = self.cluster.world.random(name)
        client = self.cluster.client(name, default_api_timeout_ms=API_TIMEOUT_MS, close_timeout_ms=2_000)
        try:
            while not self.stopping:
                try:
                    await session(client, name, random)
                except errors.OncelogError as error:
                    self.causes[f"session {type(error).__name__}"] += 1
                    await asyncio.sleep(_RETRY_S)
        finally:
            await client.close()

    # ------------------------------------------------------------ plain sends

    async def sender(self, name: str) -> None:
        """An idempotent producer: single sends, some of them at the same time."""
        await self.for_ever(name, self._send_many)

    async def _send_many(self, client: Client, name: str, random: Random) -> None:
        async with client.producer(delivery_timeout_ms=8_000, request_timeout_ms=1_500) as producer:
            for _ in range(random.randint(3, 25)):
                if self.stopping:
                    return
                await asyncio.gather(*(self._send(producer, name, random) for _ in range(random.randint(1, 4))))
                await asyncio.sleep(random.random() * _PAUSE_MAX_S)

    async def _send(self, producer: Any, name: str, random: Random) -> None:
        operation = self.begin(name, "send")
        self.new_writes(random, operation, 1)
        ((topic, partition), value) = operation.writes[0]
        try:
            delivery = await producer.send(topic, value=encode(value), partition=partition)
            metadata = await delivery
        except errors.OncelogError as error:
            self.end(operation, Status.INFO, error)
            return
        if metadata.offset >= 0:
            operation.write_offsets[operation.writes[0]] = metadata.offset
            self.acknowledged((topic, partition), metadata.offset)
        self.end(operation, Status.OK)

    # ------------------------------------------------------------ transactions

    async def transactor(self, name: str, transactional_id: str = "") -> None:
        """A transactional producer: commits most, aborts some, begins a new session now and then."""
        id_ = transactional_id or name
        await self.for_ever(name, lambda client, own, random: self._transactions(client, own, id_, random))

    async def _transactions(self, client: Client, name: str, id_: str, random: Random) -> None:
        async with client.producer(
            transactional_id=id_, transaction_timeout_ms=4_000, delivery_timeout_ms=8_000, request_timeout_ms=1_500
        ) as producer:
            for _ in range(random.randint(1, 12)):
                if self.stopping:
                    return
                if not await self._transaction(producer, name, id_, random):
                    return
                await asyncio.sleep(random.random() * _PAUSE_MAX_S)
            if random.random() < 0.3:  # leaves one behind: the next session or the time-out ends it
                await self._abandoned(producer, name, id_, random)

    async def _transaction(self, producer: Any, name: str, id_: str, random: Random) -> bool:
        """False: this session is of no use any more."""
        operation = self.begin(name, "txn")
        self.new_writes(random, operation, random.randint(0, 4))
        wants_abort = random.random() < 0.2
        txn = producer.transaction()
        try:
            await self._write(txn, id_, operation, random)
            if wants_abort:
                await txn.abort()
                self.end(operation, Status.FAIL)
                return True
            await self._commit(txn, random)
        except errors.OncelogError as error:
            return await self._end_by_outcome(txn, operation, error)
        self.end(operation, Status.OK)
        return True

    async def _write(self, txn: Any, id_: str, operation: Operation, random: Random) -> None:
        await txn.begin()
        if operation.writes:
            self.named.append((id_, txn.txn_no, operation))
        for (topic, partition), value in operation.writes:
            await txn.send(topic, value=encode(value), partition=partition)
            if random.random() < 0.1:
                await asyncio.sleep(random.random() * 2)

    @staticmethod
    async def _commit(txn: Any, random: Random) -> None:
        """Asks twice when the outcome is unknown, as the error says."""
        wait = random.choice(["decided", "visible"])
        try:
            await txn.commit(wait=wait)
        except errors.CommitOutcomeUnknownError:
            await txn.commit(wait=wait)

    async def _end_by_outcome(self, txn: Any, operation: Operation, error: errors.OncelogError) -> bool:
        """A transaction whose end is not known here stays INFO; a definite abort is a FAIL."""
        try:
            await txn.abort()
        except errors.OncelogError:
            self.end(operation, Status.INFO, error)
            return False
        self.end(operation, Status.FAIL, error)
        return True

    async def _abandoned(self, producer: Any, name: str, id_: str, random: Random) -> None:
        operation = self.begin(name, "txn")
        self.new_writes(random, operation, 2)
        txn = producer.transaction()
        try:
            await self._write(txn, id_, operation, random)
            await txn.flush()
        finally:
            self.end(operation, Status.INFO)
            producer._current = None  # as if the process had died: nobody aborts it

    # ------------------------------------------------------------ readers

    async def reader(self, name: str, isolation_level: str = "read_committed") -> None:
        """Follows all partitions from the beginning: `poll`s, or `peek`s with read_uncommitted."""
        kind = "poll" if isolation_level == "read_committed" else "peek"
        async with self.cluster.client(name, default_api_timeout_ms=API_TIMEOUT_MS) as client:
            consumer = client.consumer(
                auto_offset_reset="earliest", fetch_max_wait_ms=200, isolation_level=isolation_level
            )
            async with consumer:
                await consumer.assign([(TOPIC, p) for p in range(PARTITIONS)])
                while not self.stopping:
                    await self._poll(consumer, name, kind)

    async def _poll(self, consumer: Any, name: str, kind: str) -> None:
        operation = self.begin(name, kind)
        try:
            records = await consumer.getmany(timeout_ms=500)
        except errors.OncelogError as error:
            self.end(operation, Status.INFO, error)
            await asyncio.sleep(_RETRY_S)
            return
        for record in records:
            operation.reads.setdefault((record.topic, record.partition), []).append((record.offset, int(record.value)))
        self.end(operation, Status.OK)


async def final_read(cluster: SimCluster, topic: str, partitions: int) -> dict[Key, Records]:
    """All that a fresh read_committed client sees of a topic, up to the end as it is now."""
    found: dict[Key, Records] = {(topic, p): [] for p in range(partitions)}
    async with (
        cluster.client() as client,
        client.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer,
    ):
        await consumer.assign(list(found))
        ends = await consumer.end_offsets(list(found))
        assert len(ends) == partitions, "every partition answers"
        while any([await consumer.position(key) < end for key, end in ends.items()]):
            for record in await consumer.getmany(timeout_ms=500):
                found[record.topic, record.partition].append((record.offset, int(record.value)))
    return found
