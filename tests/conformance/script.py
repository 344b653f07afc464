"""What a conformance script can do: a started cluster without faults, raw calls, crafted batches, trouble on command.

Rule 1: a script speaks the wire contract itself; the SDK is used only to read what a user would see.
Rule 2: nothing happens by chance here: no faults are drawn, and trouble comes only where the script asks for it.
Rule 3: helpers decide nothing of the protocol; they build messages, look, and wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

from oncelog import errors, methods
from oncelog.client.client import Client
from oncelog.core.batch import encode_batch, iter_batches
from oncelog.core.hashing import shard_for
from oncelog.core.header import NO_SHARD, BatchHeader, partition_tag, seal
from oncelog.methods import MethodSpec
from oncelog.types import BrokerRef, PartitionId, TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire_errors import from_detail
from oncelog_coordinator.coordinator import CoordinatorNode
from oncelog_coordinator.shard import Shard
from oncelog_partition_leader.broker import Broker
from oncelog_partition_leader.partition import LocalPartition
from oncelog_runtime import cluster as keys
from oncelog_runtime.cluster import KIND_GROUP, KIND_TXN
from oncelog_runtime.cluster import Partition as PartitionState
from tests.conformance.tap import Match, Tap, Wire
from tests.simulation.cluster import SHARDS, SimCluster

T = TypeVar("T")
TIMEOUT_MS: Final = 5_000
ALL: Final = -1
COMMITTED: Final = types_pb2.COMMITTED
ABORTED: Final = types_pb2.ABORTED
ONGOING: Final = types_pb2.ONGOING


class Place(NamedTuple):
    """A partition under all its names."""

    topic: str
    topic_id: str
    partition: int

    @property
    def id(self) -> PartitionId:
        """By topic id."""
        return PartitionId(self.topic_id, self.partition)

    def to_proto(self) -> types_pb2.TopicPartition:
        """As it travels."""
        return types_pb2.TopicPartition(topic=self.topic, topic_id=self.topic_id, partition=self.partition)


@dataclass(frozen=True)
class Writer:
    """As whom a batch is written. `next()` is the same session's next transaction."""

    producer_id: int
    epoch: int = 0
    txn_producer_id: int = -1
    txn_no: int = 0
    txn_shard: int = NO_SHARD
    transactional_id: str = ""

    @property
    def name(self) -> co.TransactionName:
        """The transaction's name on the wire."""
        return co.TransactionName(
            transactional_id=self.transactional_id,
            txn_shard=self.txn_shard,
            txn_producer_id=self.txn_producer_id,
            txn_no=self.txn_no,
            producer_epoch=self.epoch,
        )

    def next(self) -> Writer:
        """The following transaction of this session."""
        return replace(self, txn_no=self.txn_no + 1)

    def of(self, **changes: Any) -> Writer:
        """The same with other fields, to play somebody who is wrong."""
        return replace(self, **changes)


@dataclass
class Joined:
    """A participant: its writer, and what it has acknowledged, for `commit_batch`."""

    writer: Writer
    counts: dict[Place, int] = field(default_factory=dict)

    @property
    def winner(self) -> co.Winner:
        """As the driver hands it in."""
        return co.Winner(
            producer_id=self.writer.producer_id, rows=sum(self.counts.values()), counts=counts_of(self.counts)
        )


class DelayedWrites:
    """Writes of one node that are on their way to etcd."""

    def __init__(self, store: Any, prefix: str) -> None:
        self.waiting = 0
        self.results: list[bool] = []
        self._original = store.commit
        self._go = asyncio.Event()
        self._store, self._prefix = store, prefix
        store.commit = self._commit

    async def _commit(self, compares: Any = (), puts: Any = (), deletes: Any = ()) -> Any:
        if self._go.is_set() or not any(put.key.startswith(self._prefix) for put in puts):
            return await self._original(compares, puts, deletes)
        self.waiting += 1
        await self._go.wait()
        result = self._store.store.commit(compares, puts, deletes)
        self.results.append(result.succeeded)
        return result

    def release(self) -> None:
        """They arrive now, and later ones pass."""
        self._go.set()


def counts_of(counts: dict[Place, int]) -> list[co.PartitionCount]:
    """Acknowledged records per partition, as they travel."""
    return [co.PartitionCount(topic_id=p.topic_id, partition=p.partition, records=n) for p, n in counts.items()]


def cluster(**options: Any) -> Callable[[T], T]:
    """Marks a script that wants another cluster: `brokers`, `coordinators`, or options of the broker."""

    def mark(test: T) -> T:
        test.cluster_options = options  # type: ignore[attr-defined]
        return test

    return mark


def run_script(test: Callable[..., Awaitable[None]], seed: int | str = 1, **arguments: Any) -> None:
    """Starts a cluster, runs the script, checks every core's invariants. Raises whatever the script raises."""
    options = {"brokers": 3, "coordinators": 2, **getattr(test, "cluster_options", {})}
    with SimCluster(seed, **options) as started:

        async def whole() -> None:
            await started.healthy()
            script = Script(started)
            async with asyncio.timeout(600):
                await test(script, **arguments)
            script.check()

        started.world.run(whole())


class Script:
    """The hands of one script."""

    def __init__(self, started: SimCluster) -> None:
        self.cluster = started
        self.world = started.world
        self.wire = Wire(started.world.network)
        self.transport = started.world.client("script")
        self._fetched = 0

    # ------------------------------------------------------------ time

    @property
    def now_ms(self) -> int:
        """Virtual milliseconds."""
        return int(self.world.loop.time() * 1000)

    async def sleep(self, seconds: float) -> None:
        """Virtual time passes."""
        await asyncio.sleep(seconds)

    def start(self, work: Awaitable[T]) -> asyncio.Task[T]:
        """Something that goes on beside the script; its exception is taken when it is awaited."""

        async def run() -> T:
            return await work

        task = asyncio.ensure_future(run())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def until(self, condition: Callable[[], Any], what: str = "", within_s: float = 30) -> None:
        """Waits until the condition holds."""
        deadline = self.world.loop.time() + within_s
        while not condition():
            assert self.world.loop.time() < deadline, f"not within {within_s} s: {what or condition}"
            await asyncio.sleep(0.005)

    async def retry(self, attempt: Callable[[], Awaitable[T]], within_s: float = 30) -> T:
        """Repeats what may be repeated, as every caller does."""
        deadline = self.world.loop.time() + within_s
        while True:
            try:
                return await attempt()
            except errors.OncelogError as error:
                if not error.retriable or self.world.loop.time() >= deadline:
                    raise
                await asyncio.sleep(0.02)

    # ------------------------------------------------------------ who is who

    async def topic(self, name: str = "work", partitions: int = 1, **config: str) -> list[Place]:
        """A new topic's partitions. Options as `min_insync_replicas="2"`."""
        async with self.client() as client:
            created = await client.admin.create_topic(name, partitions=partitions, config=config)
        return [Place(name, created.topic_id, number) for number in range(partitions)]

    async def place(self, name: str = "work", **config: str) -> Place:
        """The one partition of a new topic; two of three replicas must be in sync."""
        (found,) = await self.topic(name, **{"min_insync_replicas": "2", **config})
        return found

    def client(self, **config: Any) -> Client:
        """An SDK client."""
        return self.cluster.client(**{"default_api_timeout_ms": 20_000, **config})

    def state(self, place: Place) -> PartitionState:
        """What etcd says of a partition now."""
        item = self.world.metadata.get(keys.partition_key(*place.id))
        assert item is not None
        return PartitionState.decode(item.value)

    def leader(self, place: Place) -> str:
        """The node that etcd names as leader."""
        ref = self.state(place).leader
        assert ref is not None
        return f"broker-{ref.broker_id}"

    def followers(self, place: Place) -> list[str]:
        """The other replicas, in the order in which they would be elected."""
        names = [f"broker-{number}" for number in self.state(place).replicas]
        return [name for name in names if name != self.leader(place)]

    def isr(self, place: Place) -> set[str]:
        """Node names of the members that are registered as the ISR names them."""
        return {f"broker-{ref.broker_id}" for ref in self.state(place).isr if self.incarnation_of(ref) == ref}

    def incarnation_of(self, ref: BrokerRef) -> BrokerRef:
        """The broker's registration of now; incarnation 0 = none."""
        item = self.world.metadata.get(keys.broker_key(ref.broker_id))
        return BrokerRef(ref.broker_id, item.mod_revision if item is not None else 0)

    async def new_leader(self, place: Place, old: str) -> str:
        """Waits for an election after which another node leads and serves."""
        await self.until(lambda: self.leader(place) != old and self.leads(self.leader(place), place), "a new leader")
        return self.leader(place)

    def leads(self, node: str, place: Place) -> bool:
        """The node's process believes that it leads."""
        if self.world.nodes[node].life.dead:
            return False
        partition = self.broker(node).replicas.partitions.get(place.id)
        return partition is not None and partition.leadership is not None

    def broker(self, node: str) -> Broker:
        """A living broker's service object, to look at."""
        service = self.cluster.services[node]
        assert isinstance(service, Broker)
        return service

    def replica(self, node: str, place: Place) -> LocalPartition:
        """A replica, to look at."""
        return self.broker(node).replicas.partitions[place.id]

    def coordinator(self, node: str) -> CoordinatorNode:
        """A living coordinator's service object, to look at."""
        service = self.cluster.services[node]
        assert isinstance(service, CoordinatorNode)
        return service

    def _owner(self, kind: str, shard: int) -> str:
        item = self.world.metadata.get(keys.shard_owner_key(kind, shard))
        return "" if item is None else keys.ShardOwner.decode(item.value).address.partition(":")[0]

    def owner(self, transactional_id: str) -> str:
        """The node that owns an id's shard, as etcd says; empty while nobody does."""
        return self._owner(KIND_TXN, shard_for(transactional_id, SHARDS))

    def group_owner(self, group_id: str) -> str:
        """The node that owns a group's shard."""
        return self._owner(KIND_GROUP, shard_for(group_id, SHARDS))

    def shard_of(self, node: str, transactional_id: str) -> Shard:
        """The shard object of an id at a node."""
        return self.coordinator(node)._owned[KIND_TXN, shard_for(transactional_id, SHARDS)]

    def shard_log(self, transactional_id: str) -> Place:
        """The internal partition that holds an id's shard."""
        return self.internal(keys.TRANSACTION_TOPIC, shard_for(transactional_id, SHARDS))

    def internal(self, topic: str, partition: int) -> Place:
        """A partition of an internal topic."""
        item = self.world.metadata.get(keys.topic_key(topic))
        assert item is not None
        return Place(topic, keys.Topic.decode(item.value).topic_id, partition)

    # ------------------------------------------------------------ raw calls

    async def call(
        self, node: str, spec: MethodSpec[Any, Any], request: Any, payload: bytes = b"", timeout_ms: int = TIMEOUT_MS
    ) -> Any:
        """One remote call to one node, by hand. Raises its error."""
        address = self.world.nodes[node].address
        reply, bulk = await spec.call(self.transport, address, request, timeout_ms, payload)
        self._bulk = bulk
        return reply

    async def ask(self, transactional_id: str, spec: MethodSpec[Any, Any], request: Any) -> Any:
        """One call to the owner of an id, tried again while it should be."""
        return await self.retry(lambda: self._ask_once(self.owner(transactional_id), spec, request))

    async def ask_group(self, group_id: str, spec: MethodSpec[Any, Any], request: Any) -> Any:
        """One call to the owner of a group, tried again while it should be."""
        return await self.retry(lambda: self._ask_once(self.group_owner(group_id), spec, request))

    async def _ask_once(self, node: str, spec: MethodSpec[Any, Any], request: Any) -> Any:
        if not node:
            raise errors.CoordinatorNotAvailableError("nobody owns the shard")
        return await self.call(node, spec, request)

    # ------------------------------------------------------------ batches

    def batch(self, place: Place, writer: Writer, *values: str, seq: int = 0) -> bytes:
        """A data batch as a producer would send it."""
        return encode_batch(
            [None] * len(values),
            [value.encode() for value in values],
            timestamps_ms=[self.now_ms] * len(values),
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            base_sequence=seq,
            txn_producer_id=writer.txn_producer_id,
            txn_no=writer.txn_no,
            txn_shard=writer.txn_shard,
            topic_id=place.topic_id,
            partition=place.partition,
        )

    def huge_batch(self, place: Place, writer: Writer, seq: int, count: int) -> bytes:
        """A batch that claims very many records: the broker never looks inside, so sequences are used up quickly."""
        payload = b"not looked at..."
        return seal(
            payload,
            codec=0,
            attributes=0,
            schema_id=0,
            record_count=count,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            base_sequence=seq,
            txn_producer_id=-1,
            txn_no=0,
            base_timestamp_ms=self.now_ms,
            max_timestamp_ms=self.now_ms,
            uncompressed_length=len(payload),
            tag=partition_tag(place.topic_id, place.partition),
            txn_shard=NO_SHARD,
        )

    async def produce(
        self, place: Place, data: bytes, *, acks: int = ALL, to: str = "", timeout_ms: int = 1_500, tid: str = ""
    ) -> pa.ProducePartitionReply:
        """One produce call to the leader (or the node `to`). Raises the partition's error."""
        item = pa.ProducePartition(
            topic_id=place.topic_id, partition=place.partition, length=len(data), transactional_id=tid
        )
        request = pa.ProduceRequest(acks=acks, timeout_ms=timeout_ms, partitions=[item])
        reply = await self.call(to or self.leader(place), methods.PRODUCE, request, data, timeout_ms + 1_000)
        if acks == 0:
            return pa.ProducePartitionReply()
        (answer,) = reply.partitions
        if answer.HasField("error"):
            raise from_detail(answer.error)
        return answer

    async def write(self, place: Place, writer: Writer, *values: str, seq: int = 0, **how: Any) -> int:
        """One batch to the leader; its base offset."""
        data = self.batch(place, writer, *values, seq=seq)
        return int((await self.produce(place, data, tid=writer.transactional_id, **how)).base_offset)

    # ------------------------------------------------------------ sessions and transactions

    async def producer(self) -> Writer:
        """A plain idempotent producer."""
        reply = await self.ask("any", methods.INIT_PRODUCER_ID, co.InitProducerIdRequest())
        return Writer(reply.producer_id, reply.producer_epoch)

    async def session(self, tid: str = "t", *, timeout_ms: int = 60_000, nonce: str = "", **more: int) -> Writer:
        """A new session; the writer is in its next transaction."""
        request = co.InitProducerIdRequest(
            transactional_id=tid, transaction_timeout_ms=timeout_ms, nonce=nonce, **more
        )
        reply = await self.ask(tid, methods.INIT_PRODUCER_ID, request)
        own = reply.producer_id
        return Writer(own, reply.producer_epoch, own, reply.next_txn_no, reply.txn_shard, tid)

    async def enrol(self, writer: Writer, *places: Place, groups: Sequence[str] = ()) -> None:
        """Enrols partitions ahead."""
        request = co.EnrolPartitionsRequest(
            name=writer.name, partitions=[place.to_proto() for place in places], groups=groups
        )
        await self.ask(writer.transactional_id, methods.ENROL_PARTITIONS, request)

    def end_request(
        self, writer: Writer, commit: bool = True, counts: dict[Place, int] | None = None, visible: bool = False
    ) -> co.EndTransactionRequest:
        """END of a writer's transaction."""
        return co.EndTransactionRequest(
            name=writer.name,
            outcome=COMMITTED if commit else ABORTED,
            wait=co.VISIBLE if visible else co.DECIDED,
            counts=counts_of(counts or {}),
        )

    async def end(
        self, writer: Writer, commit: bool = True, counts: dict[Place, int] | None = None, visible: bool = False
    ) -> co.EndTransactionReply:
        """Ends a transaction at its owner."""
        request = self.end_request(writer, commit, counts, visible)
        reply: co.EndTransactionReply = await self.ask(writer.transactional_id, methods.END_TRANSACTION, request)
        return reply

    async def outcome(self, writer: Writer) -> int:
        """COMMITTED, ABORTED or ONGOING."""
        request = co.GetOutcomeRequest(transactional_id=writer.transactional_id, txn_no=writer.txn_no)
        return int((await self.ask(writer.transactional_id, methods.GET_OUTCOME, request)).outcome)

    def resolve_request(self, writer: Writer, place: Place | None = None, epoch: int = 0) -> co.ResolveTransactionRequest:
        """A leader's question."""
        return co.ResolveTransactionRequest(
            txn_shard=writer.txn_shard,
            txn_producer_id=writer.txn_producer_id,
            txn_no=writer.txn_no,
            topic_id=place.topic_id if place else "",
            partition=place.partition if place else 0,
            known_coordinator_epoch=epoch,
        )

    async def resolve(self, writer: Writer, place: Place | None = None) -> co.ResolveTransactionReply:
        """Asks what became of a transaction, as a leader does."""
        request = self.resolve_request(writer, place)
        reply: co.ResolveTransactionReply = await self.ask(
            writer.transactional_id, methods.RESOLVE_TRANSACTION, request
        )
        return reply

    def marker_request(
        self, writer: Writer, *places: Place, commit: bool = True, epoch: int = 1, **more: Any
    ) -> pa.WriteTxnMarkersRequest:
        """Markers as a coordinator of this epoch sends them."""
        markers = [
            pa.TxnMarker(
                topic_id=place.topic_id,
                partition=place.partition,
                txn_producer_id=writer.txn_producer_id,
                txn_no=writer.txn_no,
                session_epoch=writer.epoch,
                outcome=COMMITTED if commit else ABORTED,
                **{"expected_records": -1, **more},
            )
            for place in places
        ]
        return pa.WriteTxnMarkersRequest(txn_shard=writer.txn_shard, coordinator_epoch=epoch, markers=markers)

    async def mark(self, node: str, request: pa.WriteTxnMarkersRequest, timeout_ms: int = TIMEOUT_MS) -> list[int]:
        """Sends markers to a broker; their offsets. Raises the first error."""
        reply = await self.call(node, methods.WRITE_TXN_MARKERS, request, timeout_ms=timeout_ms)
        for answer in reply.markers:
            if answer.HasField("error"):
                raise from_detail(answer.error)
        return [answer.marker_offset for answer in reply.markers]

    # ------------------------------------------------------------ many writers

    async def join(
        self, tid: str = "q", run: str = "run-1", batch: int = 0, attempt: str = "1", app: str = "app", **more: int
    ) -> Joined:
        """A task joins; raises `AssertionError` for ALREADY_COMMITTED, which `join_reply` shows."""
        reply = await self.join_reply(tid, run, batch, attempt, app, **more)
        assert not reply.already_committed
        writer = Writer(
            reply.producer_id, reply.producer_epoch, reply.txn_producer_id, reply.txn_no, reply.txn_shard, tid
        )
        return Joined(writer)

    async def join_reply(
        self, tid: str, run: str, batch: int, attempt: str = "1", app: str = "app", **more: int
    ) -> co.JoinTransactionReply:
        """The whole answer to a join."""
        request = co.JoinTransactionRequest(
            transactional_id=tid,
            owner_run=run,
            token=co.CommitToken(app_id=app, batch_id=batch),
            write_attempt=attempt,
            **more,
        )
        reply: co.JoinTransactionReply = await self.ask(tid, methods.JOIN_TRANSACTION, request)
        return reply

    async def write_as(self, joined: Joined, place: Place, *values: str, seq: int = 0) -> None:
        """A participant writes and counts what was acknowledged."""
        await self.write(place, joined.writer, *values, seq=seq)
        joined.counts[place] = joined.counts.get(place, 0) + len(values)

    async def commit_batch(
        self,
        tid: str,
        txn_no: int,
        winners: Iterable[Joined],
        run: str = "run-1",
        batch: int = 0,
        attempt: str = "1",
        app: str = "app",
    ) -> co.CommitTransactionReply:
        """The driver commits."""
        request = co.CommitTransactionRequest(
            transactional_id=tid,
            owner_run=run,
            txn_no=txn_no,
            token=co.CommitToken(app_id=app, batch_id=batch),
            winners=[joined.winner for joined in winners],
            write_attempt=attempt,
        )
        reply: co.CommitTransactionReply = await self.ask(tid, methods.COMMIT_TRANSACTION, request)
        return reply

    # ------------------------------------------------------------ offsets of groups

    def offsets_request(
        self, writer: Writer, group: str, place: Place, offset: int, sequence: int
    ) -> co.SendOffsetsRequest:
        """Offsets inside a transaction, of a group without members."""
        return co.SendOffsetsRequest(
            name=writer.name,
            member=co.GroupMember(group_id=group, member_epoch=-1),
            commit_sequence=sequence,
            offsets=[self._entry(place, offset)],
        )

    @staticmethod
    def _entry(place: Place, offset: int) -> co.OffsetEntry:
        return co.OffsetEntry(
            topic_id=place.topic_id, topic=place.topic, partition=place.partition, offset=offset, leader_epoch=-1
        )

    async def send_offsets(self, writer: Writer, group: str, place: Place, offset: int, sequence: int) -> None:
        """Offsets that commit with the transaction."""
        request = self.offsets_request(writer, group, place, offset, sequence)
        await self.ask_group(group, methods.SEND_OFFSETS, request)

    async def commit_offset(
        self, group: str, place: Place, offset: int, *, member: str = "", epoch: int = -1, sequence: int = 0
    ) -> None:
        """A plain commit. Raises what is refused."""
        request = co.CommitOffsetsRequest(
            member=co.GroupMember(group_id=group, member_id=member, member_epoch=epoch),
            commit_sequence=sequence,
            offsets=[self._entry(place, offset)],
        )
        reply = await self.ask_group(group, methods.COMMIT_OFFSETS, request)
        for failed in reply.errors:
            raise from_detail(failed.error)

    @staticmethod
    def fetch_offsets_request(group: str, place: Place, stable: bool = False) -> co.FetchOffsetsRequest:
        """What has the group committed?"""
        return co.FetchOffsetsRequest(group_id=group, partitions=[place.to_proto()], require_stable=stable)

    async def committed_offset(self, group: str, place: Place, stable: bool = False) -> int | None:
        """A group's committed offset."""
        request = self.fetch_offsets_request(group, place, stable)
        reply = await self.ask_group(group, methods.FETCH_OFFSETS, request)
        return next((int(item.offset) for item in reply.offsets), None)

    # ------------------------------------------------------------ reading

    async def fetch(
        self, place: Place, offset: int = 0, *, committed: bool = True, to: str = "", wait_ms: int = 0, epoch: int = -1
    ) -> tuple[pa.FetchedPartition, list[BatchHeader]]:
        """One fetch by hand: the answer, and the headers of the batches. Raises the partition's error."""
        request = pa.FetchRequest(
            isolation_level=types_pb2.READ_COMMITTED if committed else types_pb2.READ_UNCOMMITTED,
            max_wait_ms=wait_ms,
            min_bytes=1,
            partitions=[
                pa.FetchPartition(
                    topic_id=place.topic_id, partition=place.partition, fetch_offset=offset, leader_epoch=epoch
                )
            ],
        )
        reply = await self.call(to or self.leader(place), methods.FETCH, request, timeout_ms=wait_ms + TIMEOUT_MS)
        (answer,) = reply.partitions
        if answer.HasField("error"):
            raise from_detail(answer.error)
        return answer, [header for header, _ in iter_batches(self._bulk)]

    async def read(self, *places: Place, committed: bool = True, from_offset: int = 0, **config: Any) -> list[str]:
        """The values that an SDK consumer sees up to the end as it is now, in the order of the log."""
        isolation = "read_committed" if committed else "read_uncommitted"
        found: list[str] = []
        async with self.client() as client:
            for place in places:
                end = await self.retry(lambda place=place: self._end_of(place, committed))  # type: ignore[misc]
                consumer = client.consumer(isolation_level=isolation, fetch_max_wait_ms=50, **config)
                async with consumer:
                    where = TopicPartition(place.topic, place.partition)
                    await consumer.assign([where])
                    consumer.seek(where, from_offset)
                    while await consumer.position(where) < end:
                        records = await consumer.getmany(timeout_ms=500)
                        found += [(record.value or b"").decode() for record in records]
        return found

    async def _end_of(self, place: Place, committed: bool) -> int:
        return await self.latest(place, committed=committed)

    async def latest(self, place: Place, committed: bool = True, timestamp_ms: int = -1) -> int:
        """ListOffsets; latest by default. Raises the partition's error."""
        request = pa.ListOffsetsRequest(
            isolation_level=types_pb2.READ_COMMITTED if committed else types_pb2.READ_UNCOMMITTED,
            partitions=[
                pa.ListOffsetsPartition(
                    topic_id=place.topic_id, partition=place.partition, timestamp_ms=timestamp_ms
                )
            ],
        )
        reply = await self.call(self.leader(place), methods.LIST_OFFSETS, request)
        (answer,) = reply.partitions
        if answer.HasField("error"):
            raise from_detail(answer.error)
        return int(answer.offset)

    async def stable(self, *places: Place, within_s: float = 30) -> None:
        """Waits until nothing is open on these partitions."""
        deadline = self.world.loop.time() + within_s
        for place in places:
            while True:
                try:
                    if await self.latest(place) == await self.latest(place, committed=False):
                        break
                except errors.RetriableError:
                    pass
                assert self.world.loop.time() < deadline, f"a transaction stays open on {place}"
                await asyncio.sleep(0.02)

    # ------------------------------------------------------------ trouble

    def hold(self, spec: MethodSpec[Any, Any], *, source: str = "", target: str = "", match: Match | None = None) -> Tap:
        """Stops matching requests in the network."""
        return self.wire.tap(spec, "hold", source, target, match)

    def lose_answers(
        self, spec: MethodSpec[Any, Any], *, source: str = "", target: str = "", match: Match | None = None
    ) -> Tap:
        """Matching requests are executed, and their callers hear that the link broke."""
        return self.wire.tap(spec, "lose", source, target, match)

    def watch(self, spec: MethodSpec[Any, Any], *, source: str = "", target: str = "", match: Match | None = None) -> Tap:
        """Matching requests pass and are kept."""
        return self.wire.tap(spec, "watch", source, target, match)

    def lose_etcd_answers(self, node: str, prefix: str, count: int = 1, *, and_cut: bool = False) -> None:
        """So many writes of the node to keys with this prefix happen, and it hears no answer (`and_cut`: nor ever again)."""
        store = self.world.nodes[node].ports.metadata
        original = store.commit
        left = count

        async def commit(compares: Any = (), puts: Any = (), deletes: Any = ()) -> Any:
            nonlocal left
            result = await original(compares, puts, deletes)
            if left and any(put.key.startswith(prefix) for put in puts):
                left -= 1
                if and_cut:
                    self.cut_from_etcd(node)
                raise errors.MetadataUnavailableError("the answer was lost", unknown="true")
            return result

        store.commit = commit  # type: ignore[method-assign]

    def delay_etcd_writes(self, node: str, prefix: str) -> DelayedWrites:
        """The node's writes to keys with this prefix wait in the network until they are released."""
        return DelayedWrites(self.world.nodes[node].ports.metadata, prefix)

    def cut_from_etcd(self, node: str) -> None:
        """The node gets no answers and no changes from etcd any more."""
        self.world.metadata.cut(node)

    def heal_etcd(self, node: str) -> None:
        """Ends `cut_from_etcd`."""
        self.world.metadata.heal(node)

    def cut(self, node: str, *others: str) -> None:
        """Nothing gets from the node to the others (all other nodes by default), nor back."""
        targets = [name for name in (others or self.world.nodes) if name != node]
        self.world.network.partition([node], targets)

    def heal(self) -> None:
        """Ends every cut of the network."""
        self.world.network.heal()

    def expire_ownership(self, node: str) -> None:
        """etcd takes a coordinator's lease away: its registration and its shards are free."""
        item = self.world.metadata.get(f"{keys.COORDINATORS}{self.world.nodes[node].address}")
        assert item is not None
        self.world.metadata.expire_lease(item.lease_id)

    async def depose_coordinator(self, node: str) -> None:
        """The node keeps running and hears nothing of it: others own its shards, and it believes that it still does."""
        self.cut_from_etcd(node)
        self.expire_ownership(node)
        await self.until(lambda: all(self._others_own(kind, n, node) for kind in (KIND_TXN, KIND_GROUP) for n in range(SHARDS)))

    def _others_own(self, kind: str, shard: int, node: str) -> bool:
        owner = self._owner(kind, shard)
        if owner in ("", node) or self.world.nodes[owner].life.dead:
            return False
        found = self.coordinator(owner)._owned.get((kind, shard))
        return found is not None and found.is_serving

    def kill(self, *nodes: str) -> None:
        """kill -9."""
        for node in nodes:
            self.world.nodes[node].kill()
            self.cluster.services.pop(node, None)

    def power_cut(self, *nodes: str, keep: Callable[[str], bool] | None = None) -> None:
        """Unsynced bytes are lost to the last one; files for which `keep(path)` holds happen to be on the platter."""
        for node in nodes:
            for path, inode in self.world.nodes[node].disk._files.items():
                if keep is not None and keep(path):
                    inode.synced = len(inode.data)
            self.lose_unsynced(node)
            self.world.nodes[node].crash(silent=False)
            self.cluster.services.pop(node, None)

    def lose_unsynced(self, node: str) -> None:
        """The kernel drops pages that were not written back."""
        for inode in self.world.nodes[node].disk._files.values():
            del inode.data[inode.synced :]

    def fail_syncs(self, node: str) -> None:
        """Every sync of the node's disk fails from now on, until `heal_disk`."""
        disk = self.world.nodes[node].disk
        disk.plan = replace(disk.plan, sync_error=1.0)

    def slow_syncs(self, node: str) -> None:
        """A sync of the node's disk takes six seconds, until `heal_disk`."""
        disk = self.world.nodes[node].disk
        disk.plan = replace(disk.plan, sync_min_ms=6_000.0, sync_max_ms=6_000.0)

    def broken(self, node: str, place: Place) -> bool:
        """The replica's log has failed and was not opened anew yet."""
        partition = self.broker(node).replicas.partitions.get(place.id)
        return partition is None or partition.failed is not None

    async def rejoined(self, node: str, *places: Place) -> None:
        """Waits until the node's process of now is in the ISR of these partitions."""
        await self.until(lambda: node in self.cluster.services and self.broker(node).registration.registered)
        for place in places:
            await self.until(lambda place=place: self.broker(node).me() in self.state(place).isr)  # type: ignore[misc]

    def heal_disk(self, node: str) -> None:
        """Ends `fail_syncs` and `slow_syncs`, for syncs that begin from now on."""
        self.world.nodes[node].disk.plan = self.world.plan

    def restart(self, *nodes: str) -> None:
        """New processes on the same disks; those that still run are killed."""
        for node in nodes:
            self.world.nodes[node].restart()

    # ------------------------------------------------------------ checking

    def check(self) -> None:
        """The invariants of every core of the living."""
        for name, service in sorted(self.cluster.services.items()):
            if self.world.nodes[name].life.dead:
                continue
            if isinstance(service, CoordinatorNode):
                service.check()
            elif isinstance(service, Broker):
                for partition in service.replicas.partitions.values():
                    if partition.failed is None and not partition.exclusive.locked():
                        partition.log.check()
