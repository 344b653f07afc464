"""What the clients of a simulation do: transactions, plain sends, and readers that follow along.

The rules are those of `recorded.py`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from oncelog.wire import methods
from tests.simulation.cluster import SimCluster
from tests.simulation.history import History, Key, Operation, Records, Status, Value, Write
from tests.simulation.recorded import RecordedLoad, Session, encode, read_to
from tests.simulation.topics import SimTopic

API_TIMEOUT_MS: Final = 10_000
RACKS: Final = ("rack-0", "rack-1", "rack-2")
"""Where readers stand: each of the first three brokers is alone in one of them."""
Timeouts = dict[str, int]
PATIENT: Final[Timeouts] = {"delivery_timeout_ms": 8_000, "request_timeout_ms": 1_500}
_SNAPSHOT_PAUSE_S: Final = 3.0
_LARGE_SHARE: Final = 0.03
_LARGE_BYTES: Final = 30_000


def hasty(random: Random) -> Timeouts:
    """Of a client that gives up while a fail-over is under way, and is left in doubt by every slow answer."""
    return {"delivery_timeout_ms": random.randint(400, 1_500), "request_timeout_ms": random.randint(100, 400)}


class Workload(RecordedLoad):
    """Runs its processes until `stopping` is set. `named` keeps what is asked of `GetOutcome` at the end."""

    def __init__(
        self,
        cluster: SimCluster,
        topics: Sequence[SimTopic],
        on_acknowledged: Callable[[Key, int], None] | None = None,
        on_visible: Callable[[int, int, set[Key]], None] | None = None,
    ) -> None:
        super().__init__(History(), pause_max_s=0.4)
        self.cluster = cluster
        self.keys = [key for topic in topics for key in topic.keys if topic.weight]
        self._topics = [topic for topic in topics if topic.weight]
        self._weights = [topic.weight for topic in self._topics]
        self._may_be_large = {topic.name for topic in topics if "max.message.bytes" not in topic.config}
        self._sizes = cluster.world.random("sizes")
        self.named: list[tuple[str, int, Operation]] = []
        self.causes: Counter[str] = Counter()
        self._on_acknowledged = on_acknowledged
        self._on_visible = on_visible

    def now_ms(self) -> int:
        """Virtual milliseconds."""
        return int(self.cluster.world.loop.time() * 1000)

    def new_key(self, random: Random) -> Key:
        """A random partition of a random topic."""
        (topic,) = random.choices(self._topics, self._weights)
        return topic.name, random.randrange(topic.partitions)

    def payload(self, topic: str, value: Value) -> bytes:
        """Some are large."""
        large = topic in self._may_be_large and self._sizes.random() < _LARGE_SHARE
        return encode(value).ljust(self._sizes.randrange(_LARGE_BYTES) if large else 0)

    def note(self, process: str, kind: str, error: errors.OncelogError) -> None:
        """Counts it."""
        self.causes[f"{kind} {type(error).__name__}"] += 1

    def ended(self, operation: Operation, error: BaseException | None) -> None:
        """Counts why."""
        if error is not None:
            self.causes[f"{operation.kind} {operation.status.value} {operation.cause}"] += 1

    def acknowledged(self, key: Key, offset: int) -> None:
        """Tells the invariants."""
        if self._on_acknowledged is not None:
            self._on_acknowledged(key, offset)

    def may_come_late(self) -> bool:
        """The simulated network copies requests, whatever was answered to the first one."""
        return self.cluster.world.network.copies_under_way(methods.PRODUCE.name) > 0

    async def commit(self, txn: Any, operation: Operation, **options: Any) -> None:
        """Tells the invariants what is said to be visible."""
        await super().commit(txn, operation, **options)
        if operation.is_visible and operation.session is not None and self._on_visible is not None:
            self._on_visible(operation.session[1], txn.txn_no, {key for key, _ in operation.writes})

    async def for_ever(self, name: str, session: Session) -> None:
        """One session after the other, with one client, until `stopping`."""
        random = self.cluster.world.random(name)
        client = self.cluster.client(name, default_api_timeout_ms=API_TIMEOUT_MS, close_timeout_ms=2_000)
        await self.sessions(client, name, random, session)

    # ------------------------------------------------------------ plain sends

    async def sender(self, name: str, timeouts: Timeouts = PATIENT) -> None:
        """An idempotent producer: single sends, some of them at the same time."""
        await self.for_ever(name, lambda client, own, random: self._send_many(client, own, random, timeouts))

    async def _send_many(self, client: Client, name: str, random: Random, timeouts: Timeouts) -> None:
        async with client.producer(**timeouts) as producer:
            await self.send_some(producer, name, random, random.randint(3, 25))

    # ------------------------------------------------------------ transactions

    async def transactor(self, name: str, transactional_id: str = "", timeouts: Timeouts = PATIENT) -> None:
        """A transactional producer: commits most, aborts some, begins a new session now and then."""
        id_ = transactional_id or name
        await self.for_ever(name, lambda client, own, random: self._transactions(client, own, id_, random, timeouts))

    async def _transactions(self, client: Client, name: str, id_: str, random: Random, timeouts: Timeouts) -> None:
        options: dict[str, Any] = {"compression_type": random.choice(["none", "zstd", "lz4"]), **timeouts}
        async with client.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=20) as consumer:
            await consumer.assign([random.choice(self.keys)])
            init = self.begin(name, "init")
            async with client.producer(
                transactional_id=id_,
                transaction_timeout_ms=4_000,
                **options,
            ) as producer:
                init.session = session_of(producer, id_)
                self.end(init, Status.OK)
                for _ in range(random.randint(1, 12)):
                    if self.stopping:
                        return
                    if not await self._transaction(producer, consumer, name, id_, random):
                        return
                    await asyncio.sleep(random.random() * self.pause_max_s)
                if random.random() < 0.3:  # leaves one behind: the next session or the time-out ends it
                    await self._abandoned(producer, name, id_, random)

    async def _transaction(self, producer: Any, consumer: Any, name: str, id_: str, random: Random) -> bool:
        """False: this session is of no use any more."""
        operation = self.begin(name, "txn")
        operation.session = session_of(producer, id_)
        self._draw_writes(operation, random)
        wants_abort = random.random() < 0.2
        txn = producer.transaction()
        try:
            sent = await self._write(txn, id_, operation, random)
            if random.random() < 0.3:
                await self._read(operation, consumer)
            if wants_abort:
                await txn.abort()
                self.end(operation, Status.FAIL)
                return True
            await self.commit(txn, operation, wait=random.choice(["decided", "visible"]))
        except errors.OncelogError as error:
            return await self.end_by_outcome(txn, operation, error)
        for write, delivery in sent.items():
            if delivery.offset >= 0:
                operation.write_offsets[write] = delivery.offset
        self.end(operation, Status.OK)
        return True

    def _draw_writes(self, operation: Operation, random: Random) -> None:
        """A few records, or now and then some for every partition that there is."""
        if random.random() < 0.05:
            operation.writes += [
                (key, self.history.new_value()) for key in self.keys for _ in range(random.randint(1, 3))
            ]
            self.history.will_write(operation)
        else:
            self.new_writes(random, operation, random.randint(0, 4))

    async def _write(self, txn: Any, id_: str, operation: Operation, random: Random) -> dict[Write, Any]:
        """The deliveries."""
        await txn.begin()
        if operation.writes:
            self.named.append((id_, txn.txn_no, operation))
        sent: dict[Write, Any] = {}
        for (topic, partition), value in operation.writes:
            record, key = self.payload(topic, value), self.record_key(topic, value)
            sent[(topic, partition), value] = await txn.send(topic, value=record, key=key, partition=partition)
            if random.random() < 0.1:
                await asyncio.sleep(random.random() * 2)
        return sent

    @staticmethod
    async def _read(operation: Operation, consumer: Any) -> None:
        """Inside the transaction: only what others have committed may be there."""
        for record in await consumer.getmany(timeout_ms=50, max_records=20):
            operation.reads.setdefault((record.topic, record.partition), []).append((record.offset, int(record.value)))

    async def _abandoned(self, producer: Any, name: str, id_: str, random: Random) -> None:
        operation = self.begin(name, "txn")
        operation.session = session_of(producer, id_)
        self.new_writes(random, operation, 2)
        txn = producer.transaction()
        try:
            await self._write(txn, id_, operation, random)
            await txn.flush()
        finally:
            self.end(operation, Status.INFO)
            producer._current = None  # as if the process had died: nobody aborts it

    # ------------------------------------------------------------ readers

    async def reader(self, name: str, isolation_level: str = "read_committed", rack: str = "") -> None:
        """Follows all partitions from the beginning: `poll`s, or `peek`s with read_uncommitted; followers in its `rack`."""
        kind = "poll" if isolation_level == "read_committed" else "peek"
        async with self.cluster.client(name, default_api_timeout_ms=API_TIMEOUT_MS) as client:
            consumer = client.consumer(
                auto_offset_reset="earliest",
                fetch_max_wait_ms=200,
                isolation_level=isolation_level,
                client_rack=rack,
            )
            async with consumer:
                await consumer.assign(self.keys)
                while not self.stopping:
                    await self.poll(consumer, name, kind)

    async def snapshooter(self, name: str) -> None:
        """Reads one partition after the other from its beginning, each time anew, to the end as it is then."""
        await self.for_ever(name, self._snapshots)

    async def _snapshots(self, client: Client, name: str, random: Random) -> None:
        while not self.stopping:
            await asyncio.sleep(random.random() * _SNAPSHOT_PAUSE_S)
            isolation_level = random.choice(["read_committed", "read_uncommitted"])
            key, rack = random.choice(self.keys), random.choice(("", *RACKS))
            operation = self.begin(name, "snapshot" if isolation_level == "read_committed" else "look")
            try:
                async with client.consumer(
                    auto_offset_reset="earliest",
                    fetch_max_wait_ms=20,
                    isolation_level=isolation_level,
                    client_rack=rack,
                ) as consumer:
                    await consumer.assign([key])
                    operation.read_ends = await consumer.end_offsets([key])
                    operation.reads = await read_to(consumer, operation.read_ends)
            except errors.OncelogError as error:
                operation.reads, operation.read_ends = {}, {}
                self.end(operation, Status.INFO, error)
                raise
            self.end(operation, Status.OK)


def session_of(producer: Any, id_: str) -> tuple[str, int, int]:
    """Transactional id, producer id and epoch, as they go into the history."""
    session = producer._session
    return id_, session.producer_id, session.producer_epoch


async def final_read(cluster: SimCluster, keys: Sequence[Key]) -> dict[Key, Records]:
    """All that a fresh read_committed client sees of these partitions, up to the end as it is now."""
    async with (
        cluster.client() as client,
        client.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer,
    ):
        await consumer.assign(keys)
        ends = await consumer.end_offsets(keys)
        assert len(ends) == len(keys), "every partition answers"
        return await read_to(consumer, ends)
