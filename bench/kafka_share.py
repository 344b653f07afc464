"""Kafka's share groups (KIP-932) as a queue, for `bench.queues`: three brokers, and Kafka's Java clients driven from Python.

The brokers are those of `bench.kafka_peer`: each record has three replicas, and so has each state of the share group. The topic
has four partitions, the group starts at the earliest record, and acknowledgement is explicit. Everything else has Kafka's
defaults; so a poll hands out whole batches of the producer, up to about 150 messages of 100 bytes, though `max.poll.records` is
100. Share groups are on by default from Kafka 4.2; an older one is refused.

`KafkaShareConsumer` and `KafkaProducer` are Java's: they run in one Java process beside the benchmark, and Python calls them
through py4j. Each call is an exchange over a socket (`call_us` measures an empty one), and is part of what is measured.
To be fair to Kafka there are few of them (`java_chains` says how):

    a poll          six calls for up to 37 messages and one for each 37 more: poll, the values of all its messages as one text,
                    its length, its pieces, and two for what has been confirmed
    single acks     one call for each message: `acknowledge` and `commitAsync` of that message alone. The client sends what has
                    gathered while its last request was under way, of more messages than the others have in flight; a message
                    counts when the broker has confirmed it. With `commitSync` each would wait for the one before it
    batched acks    three calls for a poll: `acknowledge` of each of its messages, one `commitSync`, and its answer
    an idle send    three calls: the record, `send`, and `get`; by a producer with `linger.ms=0`, since the default of 5 ms
                    would be most of what is seen. A backlog is written with 100 ms, so that it is in full batches

A worker has a thread of its own, since a consumer of Kafka serves one thread at a time; so each poll and each acknowledgement
changes threads. A worker is ready when the group has given it partitions, which takes seconds and is not measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from bench.java_chains import JavaChains
from bench.kafka_peer import KafkaCluster
from bench.queue_peers import CHANNEL, TOPIC, Queue

PARTITIONS: Final = 4
_CALLS: Final = 5_000
_JOIN_S: Final = 90.0
_POLL_MS: Final = 1_000
_UNCONFIRMED_POLL_MS: Final = 5
"""A consumer learns what is confirmed when it polls; where all is handed out, a long poll would hold up the last answers."""
_PIECE: Final = 4_000
"""Characters. Escaped they are at most twice as many, which fits py4j's buffer of 8,192."""
_SERIAL: Final = "org.apache.kafka.common.serialization"

T = TypeVar("T")


class KafkaError(Exception):
    """Kafka did not do what it was asked; the message says what."""


def in_pieces(builder: Any) -> str:
    """Returns the text of a StringBuilder. A longer answer than py4j's buffer goes out in two packets, of which the second
    waits 40 ms for the acknowledgement of the first, as TCP has it: that would be most of what is seen."""
    length: int = builder.length()
    return "".join(builder.substring(begin, min(begin + _PIECE, length)) for begin in range(0, length, _PIECE))


class JavaClients:
    """A Java process with Kafka's clients. `servers`: the brokers' addresses."""

    def __init__(self, jars: Path, servers: str) -> None:
        class_path = f"{jars.resolve()}/*"
        port, token, self._process = launch_gateway(
            classpath=class_path, javaopts=["-Xmx1g"], die_on_exit=True, enable_auth=True, return_proc=True
        )
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
        )
        self.jvm = self._gateway.jvm
        self.chains = JavaChains(self._gateway)
        self._servers = {"bootstrap.servers": servers}
        self._version = next(jars.glob("kafka_2*.jar")).stem
        self.admin = self.jvm.org.apache.kafka.clients.admin.Admin.create(self._servers)

    def call_us(self) -> float:
        """Microseconds of one empty call, when it is warm."""
        thing = self.jvm.Object()
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            for _ in range(_CALLS):
                thing.hashCode()
            seconds.append(time.perf_counter() - began)
        return min(seconds) / _CALLS * 1_000_000

    def note(self) -> str:
        """What a reader of the figures has to know."""
        cost = f"an empty call from Python to its Java clients takes {self.call_us():.0f} us"
        return f"{self._version}: {cost}, and its figures contain such calls"

    def set_up(self) -> None:
        """Makes the topic, and has the group start at the earliest record.

        Raises: KafkaError when this Kafka has no share groups.
        """
        if not self.admin.describeFeatures().featureMetadata().get().finalizedFeatures().containsKey("share.version"):
            raise KafkaError(
                "this Kafka has no share groups that are on by default; give the jars of 4.2 or a later version"
            )
        admin = self.jvm.org.apache.kafka.clients.admin
        optional = self.jvm.java.util.Optional
        topic = admin.NewTopic(TOPIC, optional.of(PARTITIONS), optional.empty())
        self.admin.createTopics([topic]).all().get()
        group = self.jvm.org.apache.kafka.common.config.ConfigResource(
            self._constant("org.apache.kafka.common.config.ConfigResource$Type", "GROUP"), CHANNEL
        )
        entry = admin.ConfigEntry("share.auto.offset.reset", "earliest")
        setting = self._constant("org.apache.kafka.clients.admin.AlterConfigOp$OpType", "SET")
        changes = self.jvm.java.util.HashMap()
        changes.put(group, [admin.AlterConfigOp(entry, setting)])
        self.admin.incrementalAlterConfigs(changes).all().get()

    def producer(self, linger_ms: int) -> Any:
        """A producer of strings: idempotent, acknowledged by all in-sync replicas. `linger_ms`: from 0; Kafka's default: 5."""
        settings = {f"{of}.serializer": f"{_SERIAL}.StringSerializer" for of in ("key", "value")}
        settings["linger.ms"] = str(linger_ms)
        return self.jvm.org.apache.kafka.clients.producer.KafkaProducer(self._servers | settings)

    def share_consumer(self, client_id: str, max_poll_records: int) -> Any:
        """A share consumer of the topic."""
        deserializers = {f"{of}.deserializer": f"{_SERIAL}.StringDeserializer" for of in ("key", "value")}
        settings = {
            "group.id": CHANNEL,
            "client.id": client_id,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": str(max_poll_records),
        }
        consumer = self.jvm.org.apache.kafka.clients.consumer.KafkaShareConsumer(
            self._servers | deserializers | settings
        )
        consumer.subscribe([TOPIC])
        return consumer

    def assigned(self, client_id: str) -> bool:
        """Returns whether the group has given partitions to this client."""
        try:
            group = self.admin.describeShareGroups([CHANNEL]).all().get().get(CHANNEL)
        except Py4JJavaError:  # there is no such group until its first member has come
            return False
        members = (member for member in group.members() if member.clientId() == client_id)
        return any(member.assignment().topicPartitions().size() for member in members)

    def close(self) -> None:
        """Ends the process."""
        try:
            self._gateway.shutdown()
        finally:
            self._process.terminate()
            self._process.wait()

    def _constant(self, enum: str, name: str) -> Any:
        return self.jvm.java.lang.Class.forName(enum).getField(name).get(None)


class ShareConsumer:
    """A worker's consumer. Blocking, and for one thread at a time; what is handed out is settled before the next poll."""

    def __init__(self, clients: JavaClients, client_id: str, max_poll_records: int) -> None:
        self._clients, self._client_id = clients, client_id
        self._consumer = clients.share_consumer(client_id, max_poll_records)
        self._counts = clients.jvm.java.util.LongSummaryStatistics()
        self._failure = clients.jvm.java.util.concurrent.atomic.AtomicReference()
        chains = clients.chains
        self._consumer.setAcknowledgementCommitCallback(chains.count_commits(self._counts, self._failure))
        self._texts = chains.texts()
        self._acknowledge = chains.acknowledge(self._consumer)
        self._settle_next = chains.settle_next(self._consumer)
        self._waits = {ms: clients.jvm.java.time.Duration.ofMillis(ms) for ms in (_POLL_MS, _UNCONFIRMED_POLL_MS)}
        self._records: Any = None
        self._rest: Any = None
        """The iterator of those records that are not settled one by one yet."""

    def join(self) -> list[str]:
        """Waits until the group has given it partitions. Returns the messages that it has by then, maybe none.

        Raises: KafkaError when that takes too long.
        """
        ends_s = time.monotonic() + _JOIN_S
        while time.monotonic() < ends_s:
            messages = self.poll(_UNCONFIRMED_POLL_MS)
            if messages or self._clients.assigned(self._client_id):
                return messages
            time.sleep(0.1)
        raise KafkaError(f"{self._client_id} is not given a partition within {_JOIN_S:.0f} s")

    def poll(self, wait_ms: int) -> list[str]:
        """Returns messages, or none after a while. All earlier ones must be acknowledged."""
        self._records, self._rest = self._consumer.poll(self._waits[wait_ms]), None
        text = in_pieces(self._texts.apply(self._records))
        return text.split("\n") if text else []

    def settle(self, count: int) -> None:
        """Acknowledges and commits the next messages, each by itself."""
        if self._rest is None:
            self._rest = self._records.iterator()
        for _ in range(count):
            self._settle_next.accept(self._rest)

    def settle_all(self) -> None:
        """Acknowledges all messages of the last poll, and waits for the broker's answer to one commit.

        Raises: KafkaError when the broker refuses.
        """
        self._records.forEach(self._acknowledge)
        answer: str = self._consumer.commitSync().toString()
        if "Optional[" in answer:
            raise KafkaError(f"a commit failed: {answer}")

    def confirmed(self) -> int:
        """Returns how many records the broker has confirmed to be settled, since the beginning.

        Raises: KafkaError when the broker has refused one.
        """
        failure = self._failure.get()
        if failure is not None:
            raise KafkaError(f"an acknowledgement failed: {failure.toString()}")
        count: int = self._counts.getSum()
        return count

    def close(self) -> None:
        """Leaves the group."""
        self._consumer.close()


class ShareWorker:
    """See `queue_peers.Worker`."""

    def __init__(self, consumer: ShareConsumer, thread: ThreadPoolExecutor) -> None:
        self._consumer, self._thread = consumer, thread
        self._first: list[str] = []
        self._taken = self._open = 0
        """Messages of the last poll, and those of them that are not acknowledged. Kafka does not poll before all are."""
        self._closed = asyncio.Event()
        """Set while there are none."""
        self._asked: list[asyncio.Future[None]] = []
        self._settling: asyncio.Task[None] | None = None
        self._sent = 0
        self._unconfirmed: deque[tuple[int, asyncio.Future[None]]] = deque()
        """With the count of confirmed records at which each is taken for confirmed."""

    @staticmethod
    async def joined(clients: JavaClients, client_id: str, max_poll_records: int) -> ShareWorker:
        """A worker that has partitions."""
        thread = ThreadPoolExecutor(1, thread_name_prefix=client_id)
        loop = asyncio.get_running_loop()
        consumer = await loop.run_in_executor(thread, ShareConsumer, clients, client_id, max_poll_records)
        worker = ShareWorker(consumer, thread)
        worker._first = await worker._in_thread(consumer.join)
        return worker

    async def take(self) -> Sequence[str]:
        """See `queue_peers.Worker`."""
        if self._open:
            await self._closed.wait()
        messages, self._first = self._first, []
        while not messages:
            messages = await self._poll()
        self._taken = self._open = len(messages)
        self._closed.clear()
        return messages

    async def ack(self, messages: Sequence[str]) -> None:
        """See `queue_peers.Worker`: all that were taken, with one commit; or a single one, with a commit of its own."""
        if len(messages) == self._taken:
            await self._in_thread(self._consumer.settle_all)
            self._sent += len(messages)
            self._acknowledged(len(messages))
            return
        if len(messages) != 1:
            raise ValueError(
                f"{len(messages)} of {self._taken} messages: acknowledge a single one, or all that were taken"
            )
        future = asyncio.get_running_loop().create_future()
        self._asked.append(future)
        if self._settling is None:
            self._settling = asyncio.ensure_future(self._settle())
        await future

    async def close(self) -> None:
        """See `queue_peers.Worker`."""
        await self._in_thread(self._consumer.close)
        self._thread.shutdown()

    async def _settle(self) -> None:
        """Settles what is asked for, until nothing is; so the thread is changed once for all that has gathered."""
        while self._asked:
            asked, self._asked = self._asked, []
            try:
                await self._in_thread(partial(self._consumer.settle, len(asked)))
            except Exception as error:
                for future in asked:
                    if not future.done():  # its task may have been cancelled
                        future.set_exception(error)
                continue
            for future in asked:
                self._sent += 1
                self._unconfirmed.append((self._sent, future))
            self._acknowledged(len(asked))
        self._settling = None

    def _acknowledged(self, count: int) -> None:
        self._open -= count
        if not self._open:
            self._closed.set()

    async def _poll(self) -> list[str]:
        wait_ms = _UNCONFIRMED_POLL_MS if self._unconfirmed else _POLL_MS
        messages, confirmed = await self._in_thread(partial(self._polled, wait_ms))
        while self._unconfirmed and self._unconfirmed[0][0] <= confirmed:
            _, future = self._unconfirmed.popleft()
            if not future.done():  # its task may have been cancelled
                future.set_result(None)
        return messages

    def _polled(self, wait_ms: int) -> tuple[list[str], int]:
        return self._consumer.poll(wait_ms), self._consumer.confirmed()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


class ShareGroup:
    """See `queue_peers.Queue`."""

    name = "Kafka share group"

    def __init__(self, clients: JavaClients) -> None:
        self._clients = clients
        self._at_once = clients.producer(linger_ms=0)
        self._gathering = clients.producer(linger_ms=100)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafka-producer")
        self._workers = 0
        self.note = ""
        """See `JavaClients.note`."""

    @staticmethod
    @contextlib.asynccontextmanager
    async def running(jars: Path, folder: Path) -> AsyncIterator[Queue]:
        """Three brokers, the topic, and a group that has handed out a message."""
        with (
            KafkaCluster(jars, folder) as cluster,
            contextlib.closing(JavaClients(jars, cluster.bootstrap_servers)) as clients,
        ):
            clients.set_up()
            queue = ShareGroup(clients)
            with queue._thread:
                queue.note = clients.note()
                await queue.publish([b"warm"])
                worker = await queue.worker(1)
                await worker.ack(await worker.take())
                await worker.close()
                yield queue

    async def publish(self, values: Sequence[bytes]) -> None:
        """See `queue_peers.Queue`."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._publish, values)

    async def worker(self, max_in_flight: int) -> ShareWorker:
        """See `queue_peers.Queue`. `max_in_flight` is the least that a full poll has, not the most that it may have."""
        self._workers += 1
        return await ShareWorker.joined(self._clients, f"worker-{self._workers}", max_in_flight)

    def _publish(self, values: Sequence[bytes]) -> None:
        record = self._clients.jvm.org.apache.kafka.clients.producer.ProducerRecord
        producer = self._at_once if len(values) == 1 else self._gathering
        sent = [producer.send(record(TOPIC, value.decode())) for value in values]
        for future in sent:
            future.get()
