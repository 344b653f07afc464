"""`ProduceRecords` and `FetchRecords`: plain records for callers that have only the generated stubs.

Rule 1: these methods are slower: batches are built and unpacked here, a bounded number at once, beside the hot path. The
        memory for unpacking is known from the batches' headers and reserved (`Admission`) first, off the event loop.
Rule 2: any broker may be called; it sends requests for partitions that it does not lead to the leader over the ordinary
        methods, with the name of the calling client: the leader checks that client's rights, never this broker's.
Rule 3: a retry of an idempotent caller must be the same batch in the same partition, so the caller names the partition and
        each timestamp: this broker might choose differently at the next try.
"""

from __future__ import annotations

import asyncio

from oncelog.core.batch.batch import BatchIdentityFields, decode_arrow, encode_batch, iter_batches, records_of, row_at
from oncelog.core.batch.hashing import partition_for_key, shard_for
from oncelog.core.batch.header import BatchHeader
from oncelog.core.batch.record import Record
from oncelog.errors import (
    InvalidRequestError,
    InvalidTopicError,
    LeaderNotAvailableError,
    MessageTooLargeError,
    OncelogError,
)
from oncelog.ports import Transport, WallClock
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.appends.commands import ACKS_ALL
from oncelog_partition_leader.rpc.fetch import Reader
from oncelog_partition_leader.rpc.produce.produce_service import ProduceService
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, Topic
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Disk, RpcServer
from oncelog_runtime.security.gate import register
from oncelog_runtime.serving.admission import ADMISSION
from oncelog_runtime.serving.topic_access import TopicOperation, forwarded_for, require_access

_AT_ONCE = 4
_RECORDS_MAX = 50_000
"""The most records in the answer to one FetchRecords."""
_COPIES = 2
"""Unpacked records are copied into messages, and those into an answer."""
_RECORDS_BYTES_MAX = 1 << 20
_MARGIN_MS = 1_000
_TIMEOUT_MS = 10_000
"""The time-out of a caller that names none."""


class RecordsService:
    """The handlers of both methods."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: WallClock,
        transport: Transport,
        view: ClusterView,
        producing: ProduceService,
        reader: Reader,
        disk: Disk,
    ) -> None:
        self._disk = disk
        self._config = config
        self._clock = clock
        self._transport = transport
        self._view = view
        self._producing = producing
        self._reader = reader
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._next = 0

    def register(self, server: RpcServer) -> None:
        """Registers both methods with the server."""
        register(server, methods.PRODUCE_RECORDS, self.produce_records)
        register(server, methods.FETCH_RECORDS, self.fetch_records)

    async def produce_records(
        self, request: pb.ProduceRecordsRequest, _payload: Buffer
    ) -> tuple[pb.ProduceRecordsReply, Buffer]:
        """Builds one batch and produces it on the partition's leader.

        Raises as `Produce` does, and `InvalidRequestError` for an idempotent caller that leaves a choice to this broker.
        """
        topic = self._view.topic(request.topic)
        require_access(topic.name, TopicOperation.WRITE)
        if topic.name in INTERNAL_TOPICS:
            raise InvalidTopicError(
                "coordinators write the cluster's own topics, and not by this method", topic=topic.name
            )
        _check_size(request)
        partition = self._choose(topic, request)
        async with self._slots:
            data = self._encode(topic, partition, request)
        item = pb.ProducePartition(
            topic_id=topic.topic_id,
            partition=partition,
            length=len(data),
            transactional_id=request.transactional_id,
            session_token=request.session_token,
        )
        acks = request.acks if request.HasField("acks") else ACKS_ALL
        timeout_ms = max(request.timeout_ms or _TIMEOUT_MS, 1)
        produce = pb.ProduceRequest(acks=acks, timeout_ms=timeout_ms, partitions=[item])
        reply = await self._produce(PartitionId(topic.topic_id, partition), produce, data)
        if not reply.partitions:  # acks=0
            return pb.ProduceRecordsReply(partition=partition, base_offset=-1), b""
        answer = reply.partitions[0]
        if answer.HasField("error"):
            raise from_detail(answer.error)
        return pb.ProduceRecordsReply(
            partition=partition, base_offset=answer.base_offset, duplicate=answer.duplicate
        ), b""

    async def fetch_records(
        self, request: pb.FetchRecordsRequest, _payload: Buffer
    ) -> tuple[pb.FetchRecordsReply, Buffer]:
        """Reads one partition, without markers and, under READ_COMMITTED, without aborted records."""
        topic = self._view.topic(request.topic)
        require_access(topic.name, TopicOperation.READ)
        fetch = pb.FetchRequest(
            isolation_level=request.isolation_level,
            max_wait_ms=request.max_wait_ms,
            min_bytes=1,
            max_bytes=request.max_bytes or _RECORDS_BYTES_MAX,
            partitions=[
                pb.FetchPartition(
                    topic_id=topic.topic_id, partition=request.partition, fetch_offset=request.offset, leader_epoch=-1
                )
            ],
        )
        reply, payload = await self._fetch(PartitionId(topic.topic_id, request.partition), fetch)
        answer = reply.partitions[0]
        if answer.HasField("error"):
            raise from_detail(answer.error)
        result = pb.FetchRecordsReply(
            next_offset=answer.next_offset,
            high_watermark=answer.high_watermark,
            last_stable_offset=answer.last_stable_offset,
            log_start_offset=answer.log_start_offset,
        )
        batches, unpacked_bytes = _visible(payload, answer, request.offset, self._unpacked_bytes_max, result)
        async with self._slots:
            admission = ADMISSION.get()
            if admission is not None:
                admission.take(max(len(payload) + _COPIES * unpacked_bytes - admission.held_bytes, 0))
            await self._disk.run(lambda: _decode(batches, request.offset, result))
        return result, b""

    @property
    def _unpacked_bytes_max(self) -> int:
        return min(self._config.fetch_records_unpacked_bytes, self._config.max_message_bytes // _COPIES // 2)

    # ------------------------------------------------------------ where

    def _choose(self, topic: Topic, request: pb.ProduceRecordsRequest) -> int:
        if request.partition >= 0:
            if request.partition >= topic.partitions:
                raise InvalidRequestError("no such partition", partition=request.partition)
            return request.partition
        if request.producer_id > 0:
            raise InvalidRequestError(
                "an idempotent caller names the partition: a retry must go to the same one", topic=topic.name
            )
        key = request.records[0].key if request.records[0].HasField("key") else None
        if any((record.key if record.HasField("key") else None) != key for record in request.records):
            raise InvalidRequestError("records of several keys need a partition")
        if key is not None:
            return partition_for_key(key, topic.partitions)
        self._next += 1
        return self._next % topic.partitions

    async def _produce(self, partition: PartitionId, request: pb.ProduceRequest, data: bytes) -> pb.ProduceReply:
        address = self._elsewhere(partition)
        if address is None:
            return (await self._producing.produce(request, data))[0]
        timeout_ms = request.timeout_ms + _MARGIN_MS
        request.forwarded_for.CopyFrom(forwarded_for())
        reply, _ = await methods.PRODUCE.call(self._transport, address, request, timeout_ms, data)
        return reply

    async def _fetch(self, partition: PartitionId, request: pb.FetchRequest) -> tuple[pb.FetchReply, Buffer]:
        address = self._elsewhere(partition)
        if address is None:
            return await self._reader.fetch(request, b"")
        request.forwarded_for.CopyFrom(forwarded_for())
        return await methods.FETCH.call(self._transport, address, request, request.max_wait_ms + _MARGIN_MS)

    def _elsewhere(self, partition: PartitionId) -> str | None:
        """Returns the leader's address; None when this broker is the leader."""
        leader = self._view.require_leader(partition)
        if leader.broker_id == self._config.broker_id:
            return None
        address = self._view.address_of(leader.broker_id)
        if address is None:
            raise LeaderNotAvailableError(partition=partition.partition)
        return address

    # ------------------------------------------------------------ batches

    def _encode(self, topic: Topic, partition: int, request: pb.ProduceRecordsRequest) -> bytes:
        now_ms = self._clock.now_ms()
        records = request.records
        headers = [
            [(header.key, header.value if header.HasField("value") else None) for header in record.headers]
            for record in records
        ]
        shards = self._view.cluster.transaction_shards if self._view.cluster is not None else 0
        transactional = request.txn_no > 0
        if request.producer_id > 0 and any(not record.timestamp_ms for record in records):
            raise InvalidRequestError("an idempotent caller sets each timestamp_ms: a retry must be the same batch")
        if transactional and not (request.transactional_id and shards):
            raise InvalidRequestError("a transaction needs its transactional id")
        identity: BatchIdentityFields = {"topic_id": topic.topic_id, "partition": partition}
        if request.producer_id or request.producer_epoch or request.base_sequence or transactional:
            identity |= {
                "producer_id": request.producer_id,
                "producer_epoch": request.producer_epoch,
                "base_sequence": request.base_sequence,
            }
        if transactional:
            identity |= {
                "txn_producer_id": request.producer_id,
                "txn_no": request.txn_no,
                "txn_shard": shard_for(request.transactional_id, shards),
            }
        return encode_batch(
            [record.key if record.HasField("key") else None for record in records],
            [record.value if record.HasField("value") else None for record in records],
            timestamps_ms=[record.timestamp_ms or now_ms for record in records],
            headers=headers,
            **identity,
        )


def _check_size(request: pb.ProduceRecordsRequest) -> None:
    if not request.records:
        raise InvalidRequestError("at least one record")
    if request.ByteSize() > _RECORDS_BYTES_MAX:
        raise MessageTooLargeError("the records are above 1 MiB: use Produce", bytes=request.ByteSize())


Batches = list[tuple[BatchHeader, memoryview]]


def _visible(
    payload: Buffer, answer: pb.FetchedPartition, offset: int, most_bytes: int, result: pb.FetchRecordsReply
) -> tuple[Batches, int]:
    """Returns the batches to unpack and their unpacked bytes: as many as fit; `next_offset` is then before the rest.

    Raises `MessageTooLargeError` when the first batch alone is too large.
    """
    aborted = {(entry.txn_producer_id, entry.txn_no): entry for entry in answer.aborted}
    batches: Batches = []
    total_bytes = 0
    for header, data in iter_batches(payload):
        if header.is_control or header.next_offset <= offset or _is_skipped(header, aborted):
            continue
        size = max(header.uncompressed_length, len(data))
        if total_bytes + size > most_bytes:
            if not batches:
                raise MessageTooLargeError(
                    "a batch unpacks to more than FetchRecords answers with: read it with Fetch, or go on behind it",
                    offset=header.base_offset,
                    next_offset=header.next_offset,
                    uncompressed_length=header.uncompressed_length,
                    limit=most_bytes,
                )
            result.next_offset = header.base_offset
            break
        total_bytes += size
        batches.append((header, data))
    return batches, total_bytes


def _decode(batches: Batches, offset: int, result: pb.FetchRecordsReply) -> None:
    """Adds the records from `offset` on, up to `_RECORDS_MAX`: small records take more in messages than in a batch."""
    for header, data in batches:
        try:
            rows = decode_arrow(data, header)
        except OncelogError as error:
            raise InvalidRequestError(
                f"a batch cannot be decoded: {error.message}", offset=header.base_offset, next_offset=header.next_offset
            ) from error
        skipped = row_at(rows, header, offset)
        wanted = rows.slice(skipped, _RECORDS_MAX - len(result.records))
        begin = header if header.is_compacted else header._replace(base_offset=header.base_offset + skipped)
        for record in records_of(wanted, begin):
            _add(result, record)
        if skipped + wanted.num_rows < rows.num_rows:
            result.next_offset = result.records[-1].offset + 1 if wanted.num_rows else header.base_offset
            return


def _is_skipped(header: BatchHeader, aborted: dict[tuple[int, int], types_pb2.AbortedTransaction]) -> bool:
    if not header.is_transactional:
        return False
    entry = aborted.get((header.txn_producer_id, header.txn_no))
    return entry is not None and (entry.all or header.producer_id not in entry.winners)


def _add(result: pb.FetchRecordsReply, record: Record) -> None:
    added = result.records.add(timestamp_ms=record.timestamp_ms, offset=record.offset)
    if record.key is not None:
        added.key = record.key
    if record.value is not None:
        added.value = record.value
    for name, value in record.headers:
        header = added.headers.add(key=name)
        if value is not None:
            header.value = value
