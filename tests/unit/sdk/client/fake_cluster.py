"""A whole cluster as one scripted `Transport`: small, strict, and it fails where a test says so.

Rule: the leader here judges sequences as a broker does (hole 21: next first, then duplicate, else a gap), so a client that
breaks the order is caught; `faults` are consulted once per call, in order, and say what goes wrong with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from google.protobuf.message import Message

from oncelog import errors
from oncelog.client.client import Client
from oncelog.core.batch import header as hd
from oncelog.core.batch.batch import decode_batch, iter_batches
from oncelog.core.batch.record import Record
from oncelog.core.batch.sequence import last_sequence, successor
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_runtime.sim import SimClock, SimLoop

T = TypeVar("T")
TOPIC, TOPIC_ID = "orders", "0a" * 16
BROKERS = ("b0:1", "b1:1")
COORDINATOR = "c0:1"
LATENCY_S = 0.001


def fast(**options: Any) -> dict[str, Any]:
    """Options of a producer that does not wait for long."""
    return {"request_timeout_ms": 100, "delivery_timeout_ms": 2_000, **options}


class Lost(Exception):
    """The call is executed and its answer lost."""


Lie = Callable[[Any, Any, bytes], tuple[Any, bytes]]
"""(request, honest reply, honest payload) -> what is answered instead; a reply of `bytes` goes out as it is."""

Answer = Message | Callable[[str, Any], Message]
"""What a method answers that needs no state here: a reply, or a function of (address, request) that makes one."""

Fault = Callable[[str, Any], BaseException | None]
"""(address, request) -> what goes wrong, or None. An `OncelogError` comes instead of the execution."""


@dataclass(slots=True)
class Log:
    """One partition as its leader has it."""

    records: list[tuple[hd.BatchHeader, Record]] = field(default_factory=list)
    batches: list[bytes] = field(default_factory=list)
    sequences: dict[tuple[int, int, int], list[tuple[int, int, int]]] = field(default_factory=dict)
    fenced: dict[int, int] = field(default_factory=dict)
    end: int = 0
    start: int = 0

    def append(self, batch: bytes) -> tuple[int, bool]:
        """Base offset, and whether it was there before. Raises as a leader does."""
        header = hd.read_header(batch)
        hd.check_body(batch, header)
        if header.producer_id < 0:
            return self._write(header, batch), False
        if header.producer_epoch < self.fenced.get(header.producer_id, 0):
            raise errors.InvalidProducerEpochError()
        kept = self.sequences.setdefault((header.producer_id, header.producer_epoch, header.txn_no), [])
        expected = successor(kept[-1][1]) if kept else 0
        if header.base_sequence != expected:
            for base, _, offset in kept:
                if base == header.base_sequence:
                    return offset, True
            raise errors.OutOfOrderSequenceError(expected=expected, got=header.base_sequence)
        offset = self._write(header, batch)
        kept.append((header.base_sequence, last_sequence(header.base_sequence, header.record_count), offset))
        return offset, False

    def _write(self, header: hd.BatchHeader, batch: bytes) -> int:
        offset, self.end = self.end, self.end + header.record_count
        stamped = hd.stamp_prefix(offset, len(batch), 0, 0) + batch[hd.PREFIX_BYTES :]
        self.batches.append(stamped)
        self.records += [(header, record) for record in decode_batch(stamped)]
        return offset


class FakeCluster:
    """Two brokers and a coordinator. `calls` has (address, method, request) of everything that arrived."""

    def __init__(self, partitions: int = 2) -> None:
        self.loop = SimLoop(1)
        self.logs = {PartitionId(TOPIC_ID, i): Log() for i in range(partitions)}
        self.leaders: dict[int, str | None] = {i: BROKERS[i % 2] for i in range(partitions)}
        self.epochs = dict.fromkeys(range(partitions), 0)
        self.calls: list[tuple[str, str, Any]] = []
        self.faults: dict[str, list[Fault]] = {}
        self.lies: dict[str, Lie] = {}
        self.answers: dict[str, Answer] = {}
        self.down: set[str] = set()
        self.racks = [""] * len(BROKERS)
        self.answering: set[str] = set()  # followers that answer readers
        self.watermarks: dict[str, int] = {}  # of brokers that know of less than the end of their logs
        self.next_producer_id = 100
        self.next_txn_no = 1
        self.ended: dict[int, int] = {}
        self.end_requests: list[co.EndTransactionRequest] = []
        self.committed_tokens: list[co.CommitToken] = []
        self.aborted: list[types_pb2.AbortedTransaction] = []
        self.committed: dict[tuple[str, int], int] = {}  # rows of each batch, by application and number
        self.offsets: dict[tuple[str, int], int] = {}  # by topic id and partition, as the coordinator keeps them
        self.offset_epochs: dict[tuple[str, int], int] = {}  # those that the commits named
        self.lost_from: dict[
            int, tuple[int, int]
        ] = {}  # by partition: what was read up to an epoch is lost from there on
        self.has_leaderless = False  # a partition of each transaction has no leader, so its marker is not written
        self.topic_exists = True
        self.late: set[str] = set()  # brokers that have not heard of the topic
        self.topic_id = TOPIC_ID
        self.revision = 10
        self.controller: int | None = 0  # the number of a broker
        self.behind: dict[
            str, tuple[int, str]
        ] = {}  # brokers with an older view: its revision, and the topic's id there

    # ------------------------------------------------------------ for tests

    def run(self, work: Callable[[FakeCluster], Coroutine[Any, Any, T]]) -> T:
        """Runs `work(self)` in virtual time."""
        return self.loop.run(work(self))

    def client(self, **config: Any) -> Client:
        """A client of this cluster."""
        return Client(",".join(BROKERS), transport=self, clock=SimClock(self.loop), random=Random(1), **config)

    def loses_from(self, offset: int) -> None:
        """Partition 0 has another leader, whose log has lost what was there from this offset on, and has others there."""
        self.lost_from[0] = self.epochs[0], offset
        self.leaders[0], self.epochs[0] = BROKERS[1], self.epochs[0] + 1

    def fail(self, method: str, *faults: BaseException | Fault | None) -> None:
        """The next calls of this method go wrong like this, one each; None = not this one."""
        queue = self.faults.setdefault(method, [])
        for fault in faults:
            queue.append(fault if callable(fault) else lambda address, request, fault=fault: fault)  # type: ignore[misc]

    def create_again(self) -> str:
        """The topic is deleted, and created anew under the same name; returns its new id."""
        self.topic_id = f"{int(self.topic_id, 16) + 1:032x}"
        self.revision += 1
        self.logs |= {PartitionId(self.topic_id, number): Log() for number in self.leaders}
        return self.topic_id

    def fall_behind(self, address: str) -> None:
        """This broker hears of nothing that happens from now on."""
        self.behind[address] = (self.revision, self.topic_id)

    def add_partition(self) -> int:
        """The topic gets another one, led by the first broker; returns its number."""
        number = len(self.leaders)
        self.leaders[number], self.epochs[number] = BROKERS[0], 0
        self.logs[PartitionId(self.topic_id, number)] = Log()
        return number

    def values(self, partition: int) -> list[bytes | None]:
        """What the partition holds."""
        return [record.value for _, record in self.logs[PartitionId(TOPIC_ID, partition)].records]

    async def pause(self) -> None:
        """A moment of virtual time."""
        await asyncio.sleep(0.01)

    def requests(self, method: str) -> list[Any]:
        """The requests of this method that arrived."""
        return [request for _, name, request in self.calls if name.endswith("." + method)]

    def count(self, method: str) -> int:
        """How many calls of this method arrived."""
        return sum(name.endswith("." + method) for _, name, _ in self.calls)

    # ------------------------------------------------------------ transport

    async def call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int
    ) -> tuple[bytes, Buffer]:
        """As `oncelog.ports.Transport.call`."""
        if address in self.down:
            await asyncio.sleep(LATENCY_S)
            raise errors.NetworkError(address=address, refused="true")
        spec = methods.ALL[method]
        request = spec.decode_request(header)
        self.calls.append((address, method, request))
        queue = self.faults.get(spec.method)
        fault = queue.pop(0)(address, request) if queue else None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if isinstance(fault, errors.OncelogError):
                    await asyncio.sleep(LATENCY_S)
                    raise fault
                reply, bulk = await self._answer(spec.method, address, request, bytes(payload))
                await asyncio.sleep(LATENCY_S)
                if isinstance(fault, Lost):
                    await asyncio.sleep(1_000)
        except TimeoutError:
            raise errors.RequestTimedOutError(method=method) from None
        if spec.method in self.lies:
            reply, bulk = self.lies[spec.method](request, reply, bytes(bulk))
        return reply if isinstance(reply, bytes) else reply.SerializeToString(), bulk

    async def _answer(self, method: str, address: str, request: Any, payload: bytes) -> tuple[Any, Buffer]:
        if method in self.answers:
            answer = self.answers[method]
            return answer if isinstance(answer, Message) else answer(address, request), b""
        handler: Callable[..., Awaitable[tuple[Any, Buffer]]] = getattr(self, "_" + method)
        return await handler(address, request, payload)

    async def close(self) -> None:
        """Nothing to close."""

    # ------------------------------------------------------------ brokers

    async def _GetMetadata(self, address: str, request: pb.GetMetadataRequest, _: bytes) -> tuple[Any, bytes]:
        refs = [types_pb2.BrokerRef(broker_id=i, incarnation=7) for i in range(len(BROKERS))]
        revision, topic_id = self.behind.get(address, (self.revision, self.topic_id))
        reply = pb.GetMetadataReply(
            cluster_id="fake", revision=revision, transaction_shard_count=1, group_shard_count=1
        )
        if self.controller is not None:
            reply.controller.CopyFrom(refs[self.controller])
            reply.controller_term = 3
        for ref, where, rack in zip(refs, BROKERS, self.racks, strict=True):
            reply.brokers.add(broker=ref, address=where, rack=rack)
        for owners in (reply.transaction_shards, reply.group_shards):
            owners.add(shard=0, address=COORDINATOR, epoch=1)
        every = [TOPIC] if request.all_topics and self.topic_exists else []
        for name in request.topics or every:
            topic = reply.topics.add(name=name)
            if name != TOPIC or not self.topic_exists or address in self.late:
                topic.error.CopyFrom(to_detail(errors.UnknownTopicError()))
                continue
            topic.topic_id = topic_id
            for number, leader in self.leaders.items():
                info = topic.partitions.add(partition=number, leader_epoch=self.epochs[number])
                info.replicas.extend(range(len(BROKERS)))
                if leader is not None:
                    info.leader.CopyFrom(refs[BROKERS.index(leader)])
        return reply, b""

    async def _Produce(self, address: str, request: pb.ProduceRequest, payload: bytes) -> tuple[Any, bytes]:
        reply = pb.ProduceReply()
        start = 0
        for item in request.partitions:
            batch, start = payload[start : start + item.length], start + item.length
            answer = reply.partitions.add(topic_id=item.topic_id, partition=item.partition)
            try:
                answer.base_offset, answer.duplicate = self._append(address, item, batch)
            except errors.OncelogError as error:
                answer.error.CopyFrom(to_detail(error))
        if request.acks == 0:
            refused = [item for item in reply.partitions if item.HasField("error")]
            reply = pb.ProduceReply(partitions=refused)
        return reply, b""

    def _append(self, address: str, item: pb.ProducePartition, batch: bytes) -> tuple[int, bool]:
        if item.topic_id != self.topic_id:
            raise errors.UnknownTopicError()
        if self.leaders[item.partition] != address:
            raise errors.NotLeaderError()
        queue = self.faults.get("append")
        fault = queue.pop(0)(address, item) if queue else None
        if isinstance(fault, errors.OncelogError):
            raise fault
        if hd.read_header(batch).partition_tag != hd.partition_tag(item.topic_id, item.partition):
            raise errors.MisdirectedBatchError()
        return self.logs[PartitionId(item.topic_id, item.partition)].append(batch)

    async def _GetProducerState(self, address: str, request: pb.GetProducerStateRequest, _: bytes) -> tuple[Any, bytes]:
        log = self.logs[PartitionId(request.topic_id, request.partition)]
        for (producer_id, _, _), kept in log.sequences.items():
            for base, _, offset in kept:
                if producer_id == request.producer_id and base == request.base_sequence:
                    return pb.GetProducerStateReply(known=True, written=True, base_offset=offset), b""
        log.fenced[request.producer_id] = request.producer_epoch + 1
        return pb.GetProducerStateReply(written=False, base_offset=-1), b""

    async def _ListOffsets(self, address: str, request: pb.ListOffsetsRequest, _: bytes) -> tuple[Any, bytes]:
        reply = pb.ListOffsetsReply()
        for item in request.partitions:
            if item.topic_id != self.topic_id:
                gone = reply.partitions.add(topic_id=item.topic_id, partition=item.partition)
                gone.error.CopyFrom(to_detail(errors.UnknownTopicError()))
                continue
            log = self.logs[PartitionId(item.topic_id, item.partition)]
            offset = {-1: log.end, -2: log.start}.get(item.timestamp_ms, -1)
            reply.partitions.add(topic_id=item.topic_id, partition=item.partition, offset=offset, timestamp_ms=-1)
        return reply, b""

    async def _OffsetForLeaderEpoch(
        self, address: str, request: pb.OffsetForLeaderEpochRequest, _: bytes
    ) -> tuple[Any, bytes]:
        if request.topic_id != self.topic_id:
            raise errors.UnknownTopicError()
        end = self.logs[PartitionId(request.topic_id, request.partition)].end
        lost_epoch, lost_from = self.lost_from.get(request.partition, (-1, 0))
        if request.leader_epoch <= lost_epoch:
            end = lost_from
        return pb.OffsetForLeaderEpochReply(leader_epoch=request.leader_epoch, end_offset=end), b""

    async def _Fetch(self, address: str, request: pb.FetchRequest, _: bytes) -> tuple[Any, bytes]:
        now = asyncio.get_running_loop().time
        deadline = now() + request.max_wait_ms / 1000
        while True:
            reply, payload = self._read(address, request)
            if payload or now() >= deadline or any(item.HasField("error") for item in reply.partitions):
                return reply, payload
            await asyncio.sleep(0.005)

    def _read(self, address: str, request: pb.FetchRequest) -> tuple[pb.FetchReply, bytes]:
        reply, parts = pb.FetchReply(), []
        for item in request.partitions:
            if item.topic_id != self.topic_id or not self.topic_exists:
                gone = reply.partitions.add(topic_id=item.topic_id, partition=item.partition)
                gone.error.CopyFrom(to_detail(errors.UnknownTopicError()))
                continue
            log = self.logs[PartitionId(item.topic_id, item.partition)]
            found = reply.partitions.add(topic_id=item.topic_id, partition=item.partition)
            may_answer = request.follower_may_answer and address in self.answering
            if self.leaders[item.partition] != address and not may_answer:
                found.error.CopyFrom(to_detail(errors.NotLeaderError()))
                continue
            epoch, lost_from = self.lost_from.get(item.partition, (-1, 0))
            if item.HasField("read_epoch") and item.read_epoch <= epoch and item.fetch_offset > lost_from:
                found.error.CopyFrom(to_detail(errors.OffsetOutOfRangeError("lost", lost_from=lost_from)))
                continue
            if not log.start <= item.fetch_offset <= log.end:
                found.error.CopyFrom(to_detail(errors.OffsetOutOfRangeError()))
                continue
            data = b""
            for batch in (b for b in log.batches if hd.read_header(b).next_offset > item.fetch_offset):
                if data and 0 < item.max_bytes < len(data) + len(batch):
                    break
                data += batch
            ends = [header.next_offset for header, _ in iter_batches(data)]
            found.length = len(data)
            found.next_offset = max([item.fetch_offset, *ends])
            found.high_watermark = found.last_stable_offset = max(self.watermarks.get(address, log.end), *ends, 0)
            found.leader_epoch = self.epochs[item.partition]
            found.aborted.extend(self.aborted)
            parts.append(data)
        return reply, b"".join(parts)

    # ------------------------------------------------------------ coordinator

    async def _InitProducerId(self, address: str, request: co.InitProducerIdRequest, _: bytes) -> tuple[Any, bytes]:
        self.next_producer_id += 1
        reply = co.InitProducerIdReply(producer_id=self.next_producer_id, txn_shard=0)
        reply.next_txn_no = self.next_txn_no if request.transactional_id else 0
        return reply, b""

    async def _EnrolPartitions(self, address: str, request: co.EnrolPartitionsRequest, _: bytes) -> tuple[Any, bytes]:
        return co.EnrolPartitionsReply(coordinator_epoch=1), b""

    async def _EndTransaction(self, address: str, request: co.EndTransactionRequest, _: bytes) -> tuple[Any, bytes]:
        self.end_requests.append(request)
        outcome = self.ended.setdefault(request.name.txn_no, request.outcome)
        if outcome != request.outcome:
            raise errors.TxnAbortedError()
        self.next_txn_no = max(self.next_txn_no, request.name.txn_no + 1)
        await self._markers(request.wait)
        return co.EndTransactionReply(outcome=request.outcome, visible=request.wait == co.END_WAIT_VISIBLE), b""

    async def _markers(self, wait: co.EndWait) -> None:
        if wait == co.END_WAIT_VISIBLE and self.has_leaderless:
            await asyncio.sleep(1_000)

    async def _SendOffsets(self, address: str, request: co.SendOffsetsRequest, _: bytes) -> tuple[Any, bytes]:
        return co.SendOffsetsReply(), b""

    def take_offset(self, entry: co.OffsetEntry) -> None:
        """Keeps a committed offset, with the epoch that its commit named."""
        place = entry.topic_id, entry.partition
        self.offsets[place] = entry.offset
        self.offset_epochs.pop(place, None)
        if entry.epoch_known:
            self.offset_epochs[place] = entry.leader_epoch

    async def _CommitOffsets(self, address: str, request: co.CommitOffsetsRequest, _: bytes) -> tuple[Any, bytes]:
        for entry in request.offsets:
            self.take_offset(entry)
        return co.CommitOffsetsReply(), b""

    async def _FetchOffsets(self, address: str, request: co.FetchOffsetsRequest, _: bytes) -> tuple[Any, bytes]:
        reply = co.FetchOffsetsReply()
        wanted = [(item.topic_id, item.partition) for item in request.partitions] or sorted(self.offsets)
        for topic_id, partition in wanted:
            offset = self.offsets.get((topic_id, partition))
            if offset is not None:
                epoch = self.offset_epochs.get((topic_id, partition))
                place: Any = {"topic_id": topic_id, "topic": TOPIC, "partition": partition, "offset": offset}
                reply.offsets.add(**place, leader_epoch=epoch, epoch_known=epoch is not None)
        return reply, b""

    async def _JoinTransaction(self, address: str, request: co.JoinTransactionRequest, _: bytes) -> tuple[Any, bytes]:
        token = (request.token.app_id, request.token.batch_id)
        if token in self.committed:
            return co.JoinTransactionReply(already_committed=True, committed_rows=self.committed[token]), b""
        self.next_producer_id += 1
        reply = co.JoinTransactionReply(
            producer_id=self.next_producer_id, producer_epoch=2, txn_producer_id=1, txn_no=9, txn_shard=0
        )
        return reply, b""

    async def _RenewTransaction(self, address: str, request: co.RenewTransactionRequest, _: bytes) -> tuple[Any, bytes]:
        return co.RenewTransactionReply(), b""

    async def _CommitTransaction(
        self, address: str, request: co.CommitTransactionRequest, _: bytes
    ) -> tuple[Any, bytes]:
        self.committed_tokens.append(request.token)
        rows = sum(winner.rows for winner in request.winners)
        await self._markers(request.wait)
        self.committed[request.token.app_id, request.token.batch_id] = rows
        return co.CommitTransactionReply(committed_rows=rows, txn_no=request.txn_no), b""
