"""The log of a shard: an internal partition, written by the idempotent producer of the shard in the shard's epoch.

Rule 1: the producer epoch is the shard's epoch, so the partition's leader fences a deposed owner; nothing else has to.
Rule 2: a batch keeps its sequence.  After an error that leaves the outcome open the same bytes are sent again, in the
        order of their sequences, until the deadline; the leader answers a second copy like the first.
Rule 3: after the deadline, or an error that a retry cannot cure, the log is lost: the shard restarts with a higher
        epoch, so that an append that is still in flight can never land behind the replay (hole 1). The same happens
        when the leader already has an older copy of the epoch record: etcd was restored and gave an epoch twice.
Rule 4: replay reads up to this epoch's own epoch record, and no further; a leader that has it has everything before it.
Rule 5: records are deleted only below an offset that a committed epoch record announces to be free (`core.log_bound`). So it
        does not matter when that happens, how often, or that its owner has been deposed meanwhile: the next owner reads the
        same state with these records or without. The leader refuses a deposed owner all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final

from oncelog.core.batch.batch import encode_batch
from oncelog.core.batch.header import read_header
from oncelog.core.causes import told_of
from oncelog.errors import ErrorCode, LeaderNotAvailableError, NotLeaderError, OncelogError, UnknownTopicError
from oncelog.ports import Transport
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_coordinator.config import ShardConfig
from oncelog_coordinator.shard.log_port import LogBatch, LogItem, LogLostError
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.replayed_log import ReplayedLog
from oncelog_runtime.metadata.cluster_keys import KIND_TXN, OFFSETS_TOPIC, TRANSACTION_TOPIC, shard_writer_id
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)

_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
_REPEATABLE: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,  # a batch before this one is still under way
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # the broker has not yet seen the topic
)
_SEQUENCE_RING: Final = 1 << 31


def log_topic(kind: str) -> str:
    """Returns the internal topic for a kind of shard."""
    return TRANSACTION_TOPIC if kind == KIND_TXN else OFFSETS_TOPIC


class ShardLog:
    """Implements `LogPort` over the transport.

    Its fields are the place and the writer of the log, the append under way, and the deletion under way.
    """

    def __init__(
        self,
        transport: Transport,
        view: ClusterView,
        kind: str,
        shard: int,
        epoch: int,
        config: ShardConfig,
        clock: SteadyClock,
    ) -> None:
        self._transport = transport
        self._view = view
        self._topic = log_topic(kind)
        self._shard = shard
        self._epoch = epoch
        self._writer_id = shard_writer_id(kind, shard)
        self._config = config
        self._clock = clock
        self._replayed = ReplayedLog(self._writer_id, epoch)
        self._next_sequence = 0
        self._last: asyncio.Future[int] | None = None
        self._lost: LogLostError | None = None
        self._tasks = TaskOwner(self._failed)
        self.trouble = ""
        self._to_delete = 0
        self._deleted = 0
        self._deleter: asyncio.Task[None] | None = None

    @property
    def free_below(self) -> int:
        """See `LogPort.free_below`."""
        return self._replayed.free_below

    # ------------------------------------------------------------ appending

    def append(self, items: Sequence[LogItem]) -> asyncio.Future[int]:
        """See `LogPort.append`."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._lost is not None:
            done.set_exception(self._lost)
            done.exception()  # retrieved, so that asyncio does not warn when no caller awaits it
            return done
        assert items, "an append has records: an empty batch would repeat the sequence of the next one"
        sequence = self._next_sequence
        self._next_sequence = (sequence + len(items)) % _SEQUENCE_RING
        previous, self._last = self._last, done
        self._tasks.spawn(self._run(list(items), sequence, previous, done), f"append {self._topic}-{self._shard}")
        return done

    async def _run(
        self, items: list[LogItem], sequence: int, previous: asyncio.Future[int] | None, done: asyncio.Future[int]
    ) -> None:
        try:
            offset = await self._send_until_committed(items, sequence, previous)
        except LogLostError as error:
            self._end(done, error)
        except Exception as error:
            self._end(done, LogLostError(f"append failed by a bug: {error!r}"))
            raise
        else:
            if not done.done():
                done.set_result(offset)

    def _end(self, done: asyncio.Future[int], error: LogLostError) -> None:
        self._lose(error)
        if not done.done():
            done.set_exception(error)
            done.exception()  # retrieved: the caller may await a later batch only

    async def _send_until_committed(
        self, items: list[LogItem], sequence: int, previous: asyncio.Future[int] | None
    ) -> int:
        """Returns the offset, as `_produce` does."""
        deadline_ms = self._clock.now_ms() + self._config.append_deadline_ms
        backoff_ms = self._config.retry_backoff_ms
        batch: bytes | None = None
        while True:
            try:
                if batch is None:
                    batch = self._encode(items, sequence)
                offset = await self._produce(batch)
                if offset < 0 and sequence == 0:
                    raise self._fenced(self._epoch, "another life had this epoch")
                self.trouble = ""
                return offset
            except OncelogError as error:
                self._judge(error, deadline_ms)
            if previous is not None:
                # Retries go in the order of the sequences; when an earlier batch is lost, so is this one.
                await asyncio.wait([previous])
                if self._lost is not None:
                    raise self._lost
                previous = None
            else:
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms = min(2 * backoff_ms, self._config.retry_backoff_max_ms)

    def _judge(self, error: OncelogError, deadline_ms: int) -> None:
        """Returns when the same batch may be sent again; otherwise raises `LogLostError`."""
        if error.code in _FENCED:
            newest = error.context.get("newest", "")
            raise self._fenced(int(newest) if newest.isdecimal() else 0, str(error))
        if self._lost is not None:
            raise self._lost
        if not error.retriable and error.code not in _REPEATABLE:
            raise LogLostError(f"{self._topic}-{self._shard} refuses the append: {error}")
        self.trouble = told_of(error, self._topic, self._shard)
        if self._clock.now_ms() >= deadline_ms:
            raise LogLostError(f"no append in time: {self.trouble}")

    def _fenced(self, newest_epoch: int, why: str) -> LogLostError:
        message = f"a newer owner writes {self._topic}-{self._shard}: {why}"
        return LogLostError(message, fenced=True, newest_epoch=newest_epoch)

    def _encode(self, items: list[LogItem], sequence: int) -> bytes:
        partition = self._partition()
        now_ms = self._clock.now_ms()
        batch = encode_batch(
            [key.encode() for key, _ in items],
            [value for _, value in items],
            timestamps_ms=[now_ms] * len(items),
            producer_id=self._writer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            topic_id=partition.topic_id,
            partition=partition.partition,
        )
        header = read_header(batch)
        named = (header.producer_id, header.producer_epoch, header.base_sequence)
        assert named == (self._writer_id, self._epoch, sequence), "a batch names its writer, its epoch and its sequence"
        assert header.record_count == len(items), "and the next sequence is the one behind its last record"
        return batch

    async def _produce(self, batch: bytes) -> int:
        """Sends the batch and returns its base offset; -1: the leader knows it as a duplicate, too old to know its offset."""
        partition = self._partition()
        timeout_ms = self._config.append_timeout_ms
        request = pa.ProduceRequest(
            acks=-1,
            timeout_ms=timeout_ms,
            partitions=[
                pa.ProducePartition(topic_id=partition.topic_id, partition=partition.partition, length=len(batch))
            ],
        )
        reply, _ = await methods.PRODUCE.call(self._transport, self._leader(partition), request, timeout_ms, batch)
        (answer,) = reply.partitions
        if answer.HasField("error"):
            raise from_detail(answer.error)
        return int(answer.base_offset)

    # ------------------------------------------------------------ deleting

    def delete_before(self, offset: int) -> None:
        """See `LogPort.delete_before`. One request is under way at a time."""
        self._to_delete = max(self._to_delete, offset)
        if self._lost is None and (self._deleter is None or self._deleter.done()):
            self._deleter = self._tasks.spawn(self._delete(), f"delete records of {self._topic}-{self._shard}")

    async def _delete(self) -> None:
        backoff_ms = self._config.retry_backoff_ms
        while self._deleted < self._to_delete:
            offset = self._to_delete
            try:
                await self._delete_records(offset)
                self._deleted, backoff_ms = offset, self._config.retry_backoff_ms
            except OncelogError as error:
                if not error.retriable and error.code not in _REPEATABLE:
                    _log.info("%s-%d keeps its records for now: %s", self._topic, self._shard, error)
                    self._deleted = offset  # the next announcement asks again: brokers may be newer by then
                    return
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms = min(2 * backoff_ms, self._config.retry_backoff_max_ms)

    async def _delete_records(self, offset: int) -> None:
        partition = self._partition()
        request = pa.DeleteRecordsRequest(
            topic_id=partition.topic_id,
            partition=partition.partition,
            before_offset=offset,
            writer_id=self._writer_id,
            writer_epoch=self._epoch,
        )
        await methods.DELETE_RECORDS.call(
            self._transport, self._leader(partition), request, self._config.append_timeout_ms
        )

    # ------------------------------------------------------------ replay

    async def replay(self) -> AsyncIterator[list[LogBatch]]:
        """See `LogPort.replay`."""
        self._replayed = ReplayedLog(self._writer_id, self._epoch, is_compacted=self._is_compacted())
        offset = 0
        deadline_ms = self._clock.now_ms() + self._config.load_stall_ms
        backoff_ms = self._config.retry_backoff_ms
        while True:
            try:
                offset, batches, complete = await self._fetch(offset)
            except OncelogError as error:
                self.trouble = told_of(error, self._topic, self._shard)
                if self._clock.now_ms() >= deadline_ms:
                    raise LogLostError(f"{self._topic}-{self._shard} cannot be read: {error}") from error
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms = min(2 * backoff_ms, self._config.retry_backoff_max_ms)
                continue
            self.trouble = ""
            if batches:
                deadline_ms = self._clock.now_ms() + self._config.load_stall_ms
                yield batches
            elif self._clock.now_ms() >= deadline_ms:
                raise LogLostError(f"{self._topic}-{self._shard} does not show its own epoch record")
            if complete:
                return

    async def _fetch(self, offset: int) -> tuple[int, list[LogBatch], bool]:
        """Returns the next offset, the batches, and whether this epoch's epoch record was among them."""
        partition = self._partition()
        request = pa.FetchRequest(
            isolation_level=types_pb2.ISOLATION_LEVEL_READ_UNCOMMITTED,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=self._config.load_bytes,
            partitions=[
                pa.FetchPartition(
                    topic_id=partition.topic_id,
                    partition=partition.partition,
                    fetch_offset=offset,
                    max_bytes=self._config.load_bytes,
                    leader_epoch=-1,
                )
            ],
        )
        reply, payload = await methods.FETCH.call(
            self._transport, self._leader(partition), request, self._config.append_timeout_ms
        )
        (answer,) = reply.partitions
        if answer.HasField("error"):
            if answer.error.code == int(ErrorCode.OFFSET_OUT_OF_RANGE) and answer.log_start_offset > offset:
                self._replayed.log_begins_at(answer.log_start_offset)
                return answer.log_start_offset, [], False
            raise from_detail(answer.error)
        batches, complete = self._replayed.take(payload, offset, partition)
        return max(offset, answer.next_offset), batches, complete

    # ------------------------------------------------------------ routing

    def _is_compacted(self) -> bool:
        """True while brokers may remove superseded records from the log: its topic has the policy of an older version."""
        topic = self._view.topics.get(self._topic)
        return topic is not None and "compact" in topic.value.config.get("cleanup_policy", "")

    def _partition(self) -> PartitionId:
        topic = self._view.topics.get(self._topic)
        if topic is None:
            raise UnknownTopicError("the internal topic does not exist yet", topic=self._topic)
        return PartitionId(topic.value.topic_id, self._shard)

    def _leader(self, partition: PartitionId) -> str:
        try:
            leader = self._view.require_leader(partition)
        except UnknownTopicError as error:
            raise NotLeaderError("the internal topic is not seen yet", topic=self._topic) from error
        address = self._view.address_of(leader.broker_id)
        if address is None:
            raise LeaderNotAvailableError(topic=self._topic, partition=partition.partition)
        return address

    # ------------------------------------------------------------ end

    def _lose(self, error: LogLostError) -> None:
        if self._lost is None:
            self._lost = error

    def _failed(self, error: BaseException) -> None:
        _log.error("append to %s-%d failed by a bug", self._topic, self._shard, exc_info=error)

    async def close(self) -> None:
        """See `LogPort.close`."""
        self._lose(LogLostError("this life of the shard has ended"))
        await self._tasks.stop()
