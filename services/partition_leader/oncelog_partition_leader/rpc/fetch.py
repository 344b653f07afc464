"""Reads: fetch with long polling, offsets by time, ends of epochs.

Rule 1: `read_committed` ends at the last stable offset, `read_uncommitted` at the high watermark; both are taken at the
        same instant, with no await between.
Rule 2: a range that lost records in a power cut is a named error, unless the request says that it skips such ranges.
Rule 3: one partition's error answers the request at once, and does not fail the other partitions.
Rule 4: a request may allow followers to answer (`follower_may_answer`): one that can vouch for its log does, by the same rules
        and up to the high watermark that its leader told; any other sends the reader to the leader
        (`core/replication/vouching.py`). Offsets by time and ends of logs are the leader's.
Rule 5: the memory of an answer is reserved (`Admission`) before it is read: with little room the answer has fewer partitions
        and bytes, without any the request waits for its turn. A request that waits for data reserves nothing.
"""

from __future__ import annotations

import asyncio

from oncelog.core.batch.header import span_of
from oncelog.errors import (
    InvalidRequestError,
    OffsetNotAvailableError,
    OncelogError,
    StorageError,
    TransactionDataLossError,
    UnknownLeaderEpochError,
)
from oncelog.ports import WallClock
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry
from oncelog_partition_leader.log.reader import NoRoomError
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.long_poll import LongPoll
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.partition.readable import Readable
from oncelog_partition_leader.replication.observe.observer import BrokerObserver
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_runtime.core.budget import Budget
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register
from oncelog_runtime.serving.admission import ADMISSION, Admission
from oncelog_runtime.serving.topic_access import TopicOperation, require_access

_LATEST = -1
_EARLIEST = -2
_MAX_TIMESTAMP = -3
_PARTITIONS_PER_MS = 100


class Reader:
    """Serves every kind of read."""

    def __init__(
        self, config: BrokerConfig, clock: WallClock, replicas: ReplicaManager, observer: BrokerObserver
    ) -> None:
        self._config = config
        self._clock = clock
        self._replicas = replicas
        self._observer = observer

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.FETCH, self.fetch)
        register(server, methods.LIST_OFFSETS, self.list_offsets)
        register(server, methods.OFFSET_FOR_LEADER_EPOCH, self.offset_for_leader_epoch)

    # ------------------------------------------------------------ fetch

    async def fetch(self, request: pb.FetchRequest, _payload: Buffer = b"") -> tuple[pb.FetchReply, Buffer]:
        """Answers as soon as `min_bytes` are there, or more than the answer takes, one partition has an error, or `max_wait_ms`
        has passed.

        Raises `InvalidRequestError`; `ResourceExhaustedError` when its turn for memory did not come in that time.
        """
        _check_isolation(request.isolation_level)
        if request.max_wait_ms < 0 or request.max_bytes < 0:
            raise InvalidRequestError("negative bounds")
        self._check_partitions(request)
        deadline_ms = self._clock.monotonic_ms() + min(request.max_wait_ms, self._config.fetch_wait_max)
        admission = ADMISSION.get() or Admission(Budget("fetch", self._config.max_message_bytes))
        poll: LongPoll | None = None
        try:
            while True:
                found = self._collect(request, admission)
                left_ms = deadline_ms - self._clock.monotonic_ms()
                if found.lacks and not found.size and not found.urgent:
                    await admission.wait(found.lacks, left_ms)
                    continue
                enough = found.urgent or found.has_more or found.size >= max(request.min_bytes, 1)
                if enough or found.lacks or left_ms <= 0:
                    self._count(request, found.reply)
                    return found.reply, found.payload()
                admission.keep(0)
                del found  # a waiting request holds no data
                poll = poll or self._listen(request)
                await self._wait(poll, request, deadline_ms)
        finally:
            if poll is not None:
                poll.close()

    def _check_partitions(self, request: pb.FetchRequest) -> None:
        """Refuses too many partitions and repeated ones: the length of an answer follows from its request."""
        limit = self._config.fetch_partitions_max
        if len(request.partitions) > limit:
            raise InvalidRequestError(
                "too many partitions in one fetch", partitions=len(request.partitions), limit=limit
            )
        if len(request.partitions) > 1:
            named = {(item.topic_id, item.partition) for item in request.partitions}
            if len(named) != len(request.partitions):
                raise InvalidRequestError("a partition stands twice in one request: fetch each once")

    def _count(self, request: pb.FetchRequest, reply: pb.FetchReply) -> None:
        for asked, answer in zip(request.partitions, reply.partitions, strict=True):
            partition = self._replicas.partitions.get(PartitionId(answer.topic_id, answer.partition))
            if answer.length and partition is not None:
                records, by_follower = answer.next_offset - asked.fetch_offset, partition.leadership is None
                self._observer.fetched(partition.topic, records, answer.length, by_follower=by_follower)

    def _listen(self, request: pb.FetchRequest) -> LongPoll:
        found = self._replicas.partitions
        return LongPoll([found.get(PartitionId(item.topic_id, item.partition)) for item in request.partitions])

    async def _wait(self, poll: LongPoll, request: pb.FetchRequest, deadline_ms: int) -> None:
        """Waits until one of the request's partitions has data for it, or its time has passed.

        A request for many partitions that waits for `min_bytes` looks at all of them less often.
        """
        pause_ms = len(request.partitions) // _PARTITIONS_PER_MS
        if pause_ms and request.min_bytes > 1:
            await asyncio.sleep(min(pause_ms, max(deadline_ms - self._clock.monotonic_ms(), 0)) / 1000)
        while True:
            moved = await poll.wait(deadline_ms - self._clock.monotonic_ms())
            if not moved or any(self._is_news(request, request.partitions[number]) for number in moved):
                return

    def _is_news(self, request: pb.FetchRequest, item: pb.FetchPartition) -> bool:
        """Returns True when the answer for this partition would not be empty."""
        try:
            partition = self._replicas.find(PartitionId(item.topic_id, item.partition))
            readable = self._readable(partition, request, item)
            _check_position(readable, item)
        except OncelogError:
            return True
        committed_only = request.isolation_level == types_pb2.ISOLATION_LEVEL_READ_COMMITTED
        return item.fetch_offset < readable.end(committed_only=committed_only)

    def _readable(self, partition: LocalPartition, request: pb.FetchRequest, item: pb.FetchPartition) -> Readable:
        """Returns what this replica lets read. Raises why it lets nothing read."""
        if request.follower_may_answer and partition.leadership is None:
            return self._replicas.follower_reads.require(partition, item.leader_epoch)
        return Readable.at_leader(partition.require_leadership(item.leader_epoch))

    def _collect(self, request: pb.FetchRequest, admission: Admission) -> _Found:
        """Reads the data that exists now and has room, and reserves its memory. Without an await the room cannot change."""
        found = _Found(pb.FetchReply())
        most = self._config.fetch_reply_bytes
        left = min(request.max_bytes or most, most, admission.answer_bytes_max or most)
        room = admission.held_bytes + admission.available_bytes
        for item in request.partitions:
            answer = found.reply.partitions.add(topic_id=item.topic_id, partition=item.partition)
            try:
                data = self._read(request, item, answer, 0 if found.lacks else left - found.size, room - found.size)
            except NoRoomError as error:
                found.lacks = found.lacks or error.bytes
                answer.next_offset = item.fetch_offset
                continue
            except OncelogError as error:
                answer.error.CopyFrom(to_detail(error))
                found.urgent = True
                continue
            if len(data):
                answer.length = len(data)
                found.add(data)
                found.has_more = found.has_more or answer.next_offset < _limit(request, answer)
        if found.size > admission.held_bytes:
            admission.take(found.size - admission.held_bytes)
        admission.keep(found.size)
        return found

    def _read(
        self, request: pb.FetchRequest, item: pb.FetchPartition, answer: pb.FetchedPartition, left: int, room: int
    ) -> Buffer:
        """Reads up to `left` bytes, or one batch if it has `room`. Raises `NoRoomError` and the partition's errors."""
        partition = self._replicas.find(PartitionId(item.topic_id, item.partition))
        require_access(partition.topic, TopicOperation.READ)
        readable = self._readable(partition, request, item)
        answer.leader_epoch = readable.epoch
        answer.high_watermark = readable.high_watermark
        answer.last_stable_offset = readable.end(committed_only=True)
        answer.log_start_offset = readable.log_start_offset
        answer.next_offset = item.fetch_offset
        _check_position(readable, item)
        committed_only = request.isolation_level == types_pb2.ISOLATION_LEVEL_READ_COMMITTED
        limit = _limit(request, answer)
        if left <= 0 or item.fetch_offset >= limit:
            return b""
        max_bytes = min(left, room, item.max_bytes) if item.max_bytes > 0 else min(left, room)
        data = self._read_log(partition, item.fetch_offset, max_bytes, limit, room)
        if not len(data):
            return b""
        answer.next_offset = span_of(data)[1]
        if committed_only:
            aborted = readable.log.aborted_between(item.fetch_offset, answer.next_offset)
            lost = next((entry for entry in aborted if entry.lost), None)
            if lost is not None and not request.skip_lost_transactions:
                return self._before_loss(partition, item.fetch_offset, max_bytes, lost, answer, room)
            answer.aborted.extend(map(_to_proto, aborted))
        return data

    def _before_loss(
        self,
        partition: LocalPartition,
        offset: int,
        max_bytes: int,
        lost: AbortedEntry,
        answer: pb.FetchedPartition,
        room: int,
    ) -> Buffer:
        """Reads the data before a transaction that lost records; at the loss itself it raises the error."""
        before = lost.first_offset > offset
        data = self._read_log(partition, offset, max_bytes, lost.first_offset, room) if before else b""
        if not len(data):
            raise TransactionDataLossError(
                txn_producer_id=lost.txn_producer_id,
                txn_no=lost.txn_no,
                first_offset=lost.first_offset,
                marker_offset=lost.marker_offset,
            )
        answer.next_offset = span_of(data)[1]
        aborted = partition.log.aborted_between(offset, answer.next_offset)
        answer.aborted.extend(_to_proto(entry) for entry in aborted if not entry.lost)
        return data

    def _read_log(self, partition: LocalPartition, offset: int, max_bytes: int, limit: int, room: int) -> Buffer:
        try:
            return partition.log.read(offset, max_bytes, limit, room)
        except StorageError as error:
            if partition.log.failed is not None:
                partition.fail(error)
            raise

    # ------------------------------------------------------------ offsets

    async def list_offsets(
        self, request: pb.ListOffsetsRequest, _payload: Buffer = b""
    ) -> tuple[pb.ListOffsetsReply, Buffer]:
        """Looks offsets up. Raises `InvalidRequestError`; a partition's own error is in its item."""
        _check_isolation(request.isolation_level)
        refusals = await self._confirm(request)
        reply = pb.ListOffsetsReply()
        for item in request.partitions:
            answer = reply.partitions.add(topic_id=item.topic_id, partition=item.partition, offset=-1, timestamp_ms=-1)
            try:
                self._list_one(request, item, answer, refusals)
            except OncelogError as error:
                answer.error.CopyFrom(to_detail(error))
        return reply, b""

    async def _confirm(self, request: pb.ListOffsetsRequest) -> dict[Leadership, OncelogError]:
        """Confirms these leaderships; returns the errors of those that may be deposed, which do not know the end of the log.

        All are confirmed at the same time, each once however often it is named, so that several take no longer than one.
        """
        asked = dict.fromkeys(filter(None, (self._leading(item) for item in request.partitions)))
        refusals = await asyncio.gather(*(_refusal_of(leadership) for leadership in asked))
        return {led: refusal for led, refusal in zip(asked, refusals, strict=True) if refusal is not None}

    def _leading(self, item: pb.ListOffsetsPartition) -> Leadership | None:
        """Returns the leadership whose end the caller asks for and may see; None for others, which are refused later."""
        if item.timestamp_ms == _EARLIEST:
            return None
        try:
            partition = self._replicas.find(PartitionId(item.topic_id, item.partition))
            require_access(partition.topic, TopicOperation.DESCRIBE)
            return partition.require_leadership()
        except OncelogError:
            return None

    def _list_one(
        self,
        request: pb.ListOffsetsRequest,
        item: pb.ListOffsetsPartition,
        answer: pb.ListedOffset,
        refusals: dict[Leadership, OncelogError],
    ) -> None:
        partition = self._replicas.find(PartitionId(item.topic_id, item.partition))
        require_access(partition.topic, TopicOperation.DESCRIBE)
        leadership = partition.require_leadership()
        log = leadership.log
        answer.leader_epoch = leadership.epoch
        if item.timestamp_ms == _EARLIEST:
            answer.offset = log.log_start_offset
            return
        if leadership in refusals:
            raise refusals[leadership]
        if not leadership.replicas.watermark_is_known:
            raise OffsetNotAvailableError(high_watermark=leadership.high_watermark)
        committed_only = request.isolation_level == types_pb2.ISOLATION_LEVEL_READ_COMMITTED
        high_watermark = leadership.high_watermark
        bound = log.last_stable_offset(high_watermark) if committed_only else high_watermark
        if item.timestamp_ms == _LATEST:
            answer.offset = bound
            answer.data_end_offset = log.producers.data_end_offset
            return
        if item.timestamp_ms < _MAX_TIMESTAMP:
            raise InvalidRequestError("unknown kind of offset", timestamp_ms=item.timestamp_ms)
        found = (
            log.max_timestamp() if item.timestamp_ms == _MAX_TIMESTAMP else log.offset_for_timestamp(item.timestamp_ms)
        )
        if found is not None and found[0] < bound:
            answer.offset, answer.timestamp_ms = found
            answer.leader_epoch = log.epochs.epoch_of(found[0])

    async def offset_for_leader_epoch(
        self, request: pb.OffsetForLeaderEpochRequest, _payload: Buffer = b""
    ) -> tuple[pb.OffsetForLeaderEpochReply, Buffer]:
        """Answers with the end offset of an epoch. Raises `UnknownLeaderEpochError` for one that is not known here yet."""
        partition = self._replicas.find(PartitionId(request.topic_id, request.partition))
        require_access(partition.topic, TopicOperation.DESCRIBE)
        leadership = partition.require_leadership()
        if request.leader_epoch > leadership.epoch:
            raise UnknownLeaderEpochError(leader_epoch=request.leader_epoch, known_epoch=leadership.epoch)
        log = leadership.log
        if request.leader_epoch == leadership.epoch:
            epoch, end = leadership.epoch, log.log_end_offset
        else:
            epoch, end = log.epochs.end_offset_for(request.leader_epoch)
        return pb.OffsetForLeaderEpochReply(leader_epoch=epoch, end_offset=end), b""


class _Found:
    """The result of one look at all partitions of a request."""

    __slots__ = ("_bulks", "has_more", "lacks", "reply", "size", "urgent")

    def __init__(self, reply: pb.FetchReply) -> None:
        self.reply = reply
        self.size = 0
        self.urgent = False  # a partition has an error
        self.has_more = False  # a partition has data that did not fit: to wait for more of it would be in vain
        self.lacks = 0  # bytes of a batch for which there was no room; 0 = there was room for everything
        self._bulks: list[Buffer] = []

    def add(self, data: Buffer) -> None:
        """Adds the bytes of the next partition."""
        self._bulks.append(data)
        self.size += len(data)

    def payload(self) -> Buffer:
        """Returns all bytes, in the order of the partitions."""
        return self._bulks[0] if len(self._bulks) == 1 else b"".join(self._bulks)


def _limit(request: pb.FetchRequest, answer: pb.FetchedPartition) -> int:
    """Returns the offset at which the request's isolation level ends."""
    committed_only = request.isolation_level == types_pb2.ISOLATION_LEVEL_READ_COMMITTED
    return answer.last_stable_offset if committed_only else answer.high_watermark


def _check_position(readable: Readable, item: pb.FetchPartition) -> None:
    if item.HasField("read_epoch") and item.read_epoch >= 0:
        readable.check_read(item.fetch_offset, item.read_epoch)
    readable.check_offset(item.fetch_offset)


def _check_isolation(isolation: int) -> None:
    if isolation not in (types_pb2.ISOLATION_LEVEL_READ_COMMITTED, types_pb2.ISOLATION_LEVEL_READ_UNCOMMITTED):
        raise InvalidRequestError(
            "name the isolation level: ISOLATION_LEVEL_READ_COMMITTED or ISOLATION_LEVEL_READ_UNCOMMITTED"
        )


def _to_proto(entry: AbortedEntry) -> types_pb2.AbortedTransaction:
    return types_pb2.AbortedTransaction(
        txn_producer_id=entry.txn_producer_id,
        txn_no=entry.txn_no,
        first_offset=entry.first_offset,
        marker_offset=entry.marker_offset,
        all=entry.all,
        winners=entry.winners,
        data_loss=entry.lost,
    )


async def _refusal_of(leadership: Leadership) -> OncelogError | None:
    try:
        await leadership.confirm()
    except OncelogError as error:
        return error
    return None
