"""A view of a small cluster, and a transport whose peers are functions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from oncelog.core.batch.batch import iter_batches
from oncelog.core.batch.header import stamp_prefix
from oncelog.errors import (
    InvalidProducerEpochError,
    NetworkError,
    NotLeaderError,
    OffsetOutOfRangeError,
    OncelogError,
    OutOfOrderSequenceError,
)
from oncelog.types import BrokerRef, Buffer
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog.wire.methods import MethodSpec
from oncelog.wire.wire_errors import to_detail
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import KeyValue, Listing

TXN_TOPIC_ID = "1" * 32
GROUP_TOPIC_ID = "2" * 32
USER_TOPIC_ID = "a" * 32
PARTITIONS = 3
BROKER = "broker-0:9092"
OTHER_BROKER = "broker-1:9092"
COORDINATOR = "coordinator-0:9092"


class Cluster:
    """Keys as the brokers would have written them; `view` sees them."""

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}
        self.view = ClusterView()
        self.revision = 1
        self.view.listed(Listing((), self.revision))
        self.put(cluster_keys.CLUSTER_KEY, cluster_keys.Cluster("c", PARTITIONS, PARTITIONS).encode())
        for i, address in enumerate((BROKER, OTHER_BROKER)):
            self.put(cluster_keys.broker_key(i), cluster_keys.Broker(address, address, str(i)).encode())
        self.topic(cluster_keys.TRANSACTION_TOPIC, TXN_TOPIC_ID)
        self.topic(cluster_keys.OFFSETS_TOPIC, GROUP_TOPIC_ID)
        self.topic("user", USER_TOPIC_ID)

    def put(self, key: str, value: bytes) -> None:
        """One key."""
        self.revision += 1
        self.items[key] = value
        self.view.learn([KeyValue(key, value, self.revision)])

    def topic(self, name: str, topic_id: str) -> None:
        """A topic whose partitions are led by broker 0."""
        self.put(cluster_keys.topic_key(name), cluster_keys.Topic(name, topic_id, PARTITIONS, 2).encode())
        for partition in range(PARTITIONS):
            self.lead(name, topic_id, partition, 0)

    def lead(self, name: str, topic_id: str, partition: int, broker: int | None) -> None:
        """Another leader, or none."""
        incarnations = self.view.live()
        leader = None if broker is None else BrokerRef(broker, incarnations[broker])
        value = cluster_keys.Partition(name, (0, 1), leader, self.revision, () if leader is None else (leader,))
        self.put(cluster_keys.partition_key(topic_id, partition), value.encode())

    def own(self, kind: str, shard: int, epoch: int = 1) -> None:
        """A coordinator owns a shard."""
        self.put(cluster_keys.shard_epoch_key(kind, shard), str(epoch).encode())
        self.put(cluster_keys.shard_owner_key(kind, shard), cluster_keys.ShardOwner(COORDINATOR, "x", epoch).encode())

    async def get(self, key: str) -> KeyValue | None:
        """The linearizable read of a metadata store."""
        return KeyValue(key, self.items[key], self.revision) if key in self.items else None

    async def list(self, prefix: str) -> Listing:
        """The linearizable listing of a metadata store."""
        found = [KeyValue(k, v, self.revision) for k, v in sorted(self.items.items()) if k.startswith(prefix)]
        return Listing(tuple(found), self.revision)


Peer = Callable[[Any, Buffer], Awaitable[tuple[Any, Buffer]]]


class FakeTransport:
    """Calls go to the peer registered for (address, method); nobody there: refused."""

    def __init__(self) -> None:
        self.peers: dict[tuple[str, str], tuple[MethodSpec[Any, Any], Peer]] = {}
        self.calls: list[tuple[str, str, Any]] = []

    def serve(self, address: str, spec: MethodSpec[Any, Any], peer: Peer) -> None:
        """Registers a peer."""
        self.peers[address, spec.name] = (spec, peer)

    async def call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int
    ) -> tuple[bytes, Buffer]:
        """See `Transport.call`."""
        await asyncio.sleep(0.001)
        if (address, method) not in self.peers:
            raise NetworkError("nobody listens", refused="true")
        spec, peer = self.peers[address, method]
        request = spec.decode_request(header)
        self.calls.append((address, method, request))
        reply, bulk = await peer(request, payload)
        return reply.SerializeToString(), bulk

    async def close(self) -> None:
        """Nothing to close."""


class FakeLeader:
    """One partition with the rules of an idempotent producer: epoch fence, next sequence, duplicates answered alike."""

    def __init__(self, transport: FakeTransport, address: str = BROKER) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.kept: dict[tuple[int, int, int], int] = {}
        """Base offsets of the last five batches, by (writer, epoch, first sequence)."""
        self.refuse: list[OncelogError] = []
        self.lose_replies = 0
        self.fetch_batches = 1
        self.start = 0
        self.deletions: list[tuple[int, int, int]] = []
        """Offset, writer and epoch of each request that was served."""
        transport.serve(address, methods.PRODUCE, self.produce)
        transport.serve(address, methods.FETCH, self.fetch)
        transport.serve(address, methods.DELETE_RECORDS, self.delete_records)

    async def produce(self, request: Any, payload: Buffer) -> tuple[Any, Buffer]:
        """One batch."""
        (item,) = request.partitions
        answer = pa.ProducePartitionReply(topic_id=item.topic_id, partition=item.partition)
        try:
            if self.refuse:
                raise self.refuse.pop(0)
            answer.duplicate = self._append(bytes(payload))
            answer.base_offset = self.kept.get(_name(payload), -1)
        except OncelogError as error:
            answer.error.CopyFrom(to_detail(error))
        if self.lose_replies:
            self.lose_replies -= 1
            raise NetworkError("the link broke")
        return pa.ProduceReply(partitions=[answer]), b""

    def _append(self, data: bytes) -> bool:
        ((header, _),) = iter_batches(data)
        writer, epoch = header.producer_id, header.producer_epoch
        known = self.epochs.get(writer, -1)
        if epoch < known:
            raise InvalidProducerEpochError(newest=known)
        following = self.sequences.get(writer, 0) if epoch == known else 0
        if header.base_sequence < following:
            return True
        if header.base_sequence > following:
            raise OutOfOrderSequenceError()
        self.epochs[writer], self.sequences[writer] = epoch, following + header.record_count
        self.kept = dict([*self.kept.items(), (_name(data), self.end)][-5:])
        self.batches.append(stamp_prefix(self.end, header.batch_length, 1, 5) + data[36:])
        self.end += header.record_count
        return False

    async def delete_records(self, request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        """Raises the start of the log."""
        if self.refuse:
            raise self.refuse.pop(0)
        self.deletions.append((request.before_offset, request.writer_id, request.writer_epoch))
        self.start = max(self.start, request.before_offset)
        return pa.DeleteRecordsReply(log_start_offset=self.start), b""

    async def fetch(self, request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        """A few batches from the offset on."""
        (item,) = request.partitions
        if self.refuse:
            raise self.refuse.pop(0)
        if item.fetch_offset < self.start:
            answer = pa.FetchedPartition(log_start_offset=self.start, error=to_detail(OffsetOutOfRangeError()))
            return pa.FetchReply(partitions=[answer]), b""
        found: list[bytes] = []
        following = item.fetch_offset
        for data in self.batches:
            ((header, _),) = iter_batches(data)
            if header.next_offset > item.fetch_offset and len(found) < self.fetch_batches:
                found.append(data)
                following = header.next_offset
        bulk = b"".join(found)
        answer = pa.FetchedPartition(
            topic_id=item.topic_id, partition=item.partition, length=len(bulk), next_offset=following
        )
        return pa.FetchReply(partitions=[answer]), bulk


def _name(data: Buffer) -> tuple[int, int, int]:
    ((header, _),) = iter_batches(data)
    return header.producer_id, header.producer_epoch, header.base_sequence


__all__ = ["Cluster", "FakeLeader", "FakeTransport", "NotLeaderError"]
