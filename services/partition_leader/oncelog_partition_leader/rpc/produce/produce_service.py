"""The method `Produce`: checks the form of batches and who may write them, queues them, and waits for their outcomes.

Rule: a handler checks the request's form, submits, and waits on futures. It may be cancelled at any await.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final

from oncelog.core.batch.header import BatchHeader
from oncelog.errors import (
    InvalidPidMappingError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    OncelogError,
    ShuttingDownError,
)
from oncelog.ports import WallClock
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.appends.commands import ACKS_ALL, AppendBatch, Written
from oncelog_partition_leader.core.log.batch_check import BatchLimits, read_client_batch
from oncelog_partition_leader.core.log.payload_check import check_payload
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_partition_leader.rpc.produce.payload_checks import Checking, PayloadChecks
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, SHARD_WRITER_BASE, producer_id_ceiling
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.metadata.waiting_topics import DELAY_MAX_MS, is_waiting, topic_of
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register
from oncelog_runtime.serving.session_tokens import SessionTokens
from oncelog_runtime.serving.topic_access import TopicOperation, require_access

Outcome = asyncio.Future[Written] | OncelogError
_QUEUED: Final = Written(base_offset=-1, append_timestamp_ms=-1, log_start_offset=-1, duplicate=False)


class ProduceService:
    """The handler of `Produce`. `draining`: this process is about to end, and takes no batches any more."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: WallClock,
        view: ClusterView,
        replicas: ReplicaManager,
        tokens: SessionTokens,
        checks: PayloadChecks,
    ) -> None:
        self._config = config
        self._clock = clock
        self._view = view
        self._replicas = replicas
        self._tokens = tokens
        self._checks = checks
        self.draining = False

    def register(self, server: RpcServer) -> None:
        """Registers the method with the server."""
        register(server, methods.PRODUCE, self.produce)

    async def produce(self, request: pb.ProduceRequest, payload: Buffer) -> tuple[pb.ProduceReply, Buffer]:
        """Appends at most one batch per partition; each has its own outcome. With acks=0 only those are answered that are
        refused before they are queued: a caller without any answer would keep sending to a broker that is not the leader any
        more.
        """
        self._check_produce(request, payload)
        pending = self._submit_all(request, payload)
        reply = pb.ProduceReply()
        try:
            for item, outcome in zip(request.partitions, pending, strict=True):
                answer = reply.partitions.add(topic_id=item.topic_id, partition=item.partition)
                await _add_outcome(answer, outcome)
                if request.acks == 0 and not answer.HasField("error"):
                    del reply.partitions[-1]
        except asyncio.CancelledError:
            cancel_all(pending)
            raise
        return reply, b""

    def _check_produce(self, request: pb.ProduceRequest, payload: Buffer) -> None:
        if request.acks not in (ACKS_ALL, 0, 1):
            raise InvalidRequiredAcksError(acks=request.acks)
        if self.draining:
            raise ShuttingDownError()
        lengths = [item.length for item in request.partitions]
        if sum(lengths) != len(payload) or min(lengths, default=0) < 0:
            raise InvalidRequestError("the lengths do not add up to the payload")
        if len({(item.topic_id, item.partition) for item in request.partitions}) != len(lengths):
            raise _named_twice(request)

    def _submit_all(self, request: pb.ProduceRequest, payload: Buffer) -> list[Outcome]:
        """Queues all batches; returns one future, or one refusal, per partition."""
        timeout_ms = min(max(request.timeout_ms, 1), self._config.request_timeout_max_ms)
        now_ms = self._clock.now_ms()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        view = memoryview(payload)
        position = 0
        pending: list[Outcome] = []
        for item in request.partitions:
            data = view[position : position + item.length]
            position += item.length
            try:
                pending.append(self.submit_batch(item, data, request.acks, deadline_ms, now_ms))
            except OncelogError as error:
                pending.append(error.with_traceback(None))  # its frames would keep the request's bytes
        return pending

    def submit_batch(
        self, item: pb.ProducePartition, data: Buffer, acks: int, deadline_ms: int, now_ms: int
    ) -> asyncio.Future[Written]:
        """Checks a batch and queues it, at once or when its payload has been unpacked (`PayloadChecks`). Raises its refusal.

        With acks=0 the outcome is known when the batch is queued, for until then its bytes count for its caller: what happens
        to it later is not told, since it may have been written.
        """
        place = PartitionId(item.topic_id, item.partition)
        partition = self._replicas.find(place)
        require_access(partition.topic, TopicOperation.WRITE)
        partition.require_leadership()
        limits, is_compacted = self._limits(partition, now_ms)

        def check() -> None:
            check_payload(header, data, limits.max_uncompressed_bytes, is_compacted=is_compacted)

        try:
            header = read_client_batch(data, limits, item.topic_id, item.partition)
            _check_writer(partition.topic, header)
            must_wait = self._checks.must_wait(place, header)
            if not must_wait:
                check()
        except OncelogError:
            raise
        except Exception as error:  # nothing is queued yet: this batch is refused, the others of the request are not
            raise self._replicas.bugs.met("request", error, methods.PRODUCE.name) from error
        if header.producer_id >= 0 and partition.topic not in INTERNAL_TOPICS:
            self._check_identity(header, item, now_ms)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Written] = loop.create_future()
        outcome = done if acks else loop.create_future()
        if not acks:
            done.add_done_callback(_forget)
        command = AppendBatch(done, deadline_ms, acks, header=header, data=data, transactional_id=item.transactional_id)
        submit = partial(_submit, partition, command, len(data), outcome)
        if must_wait:
            self._checks.enter(place, header, Checking(check, submit, outcome))
        else:
            submit()
        return outcome

    def _limits(self, partition: LocalPartition, now_ms: int) -> tuple[BatchLimits, bool]:
        """Returns the limits of a batch for this partition, and whether each record needs a key."""
        config = partition.topic_config.log
        limits = BatchLimits(
            now_ms=now_ms, max_message_bytes=config.max_message_bytes, segment_bytes=config.segment_bytes
        )
        if not is_waiting(partition.topic):
            return limits, config.is_compacted
        limits = replace(limits, timestamp_after_max_ms=DELAY_MAX_MS, delays=True)
        return limits, self._is_compacted(topic_of(partition.topic))

    def _is_compacted(self, topic: str) -> bool:
        """Tells whether a topic takes no records without a key: then none may wait for it."""
        entry = self._view.topics.get(topic)
        policy = self._replicas.defaults.log.cleanup_policy
        return entry is not None and "compact" in entry.value.config.get("cleanup_policy", policy)

    def _check_identity(self, header: BatchHeader, item: pb.ProducePartition, now_ms: int) -> None:
        """Checks that the producer id can have been given out, and by the session token that the caller got it, under the
        transactional id that it names.
        """
        ceiling = producer_id_ceiling(now_ms, self._view.producer_ids_end)
        if max(header.producer_id, header.txn_producer_id) > ceiling:
            raise InvalidPidMappingError(
                "nobody was given this producer id: ask for one with InitProducerId", producer_id=header.producer_id
            )
        if header.is_transactional:
            self._tokens.require_session(
                item.transactional_id, header.txn_producer_id, header.producer_epoch, item.session_token
            )
        else:
            self._tokens.require_producer(header.producer_id, item.session_token)


def _submit(partition: LocalPartition, command: AppendBatch, size: int, outcome: asyncio.Future[Written]) -> None:
    """Queues a batch, whose check may have taken a while: another replica may lead by now. Raises its refusal."""
    partition.require_leadership().submit(command, size)
    if command.acks == 0:
        outcome.set_result(_QUEUED)


def _check_writer(topic: str, header: BatchHeader) -> None:
    """Lets only shard owners write internal topics, by their producer ids, which are never given to clients."""
    if (topic in INTERNAL_TOPICS) != (header.producer_id >= SHARD_WRITER_BASE):
        raise InvalidTopicError("the cluster's own topics are written by coordinators alone", topic=topic)


def _named_twice(request: pb.ProduceRequest) -> InvalidRequestError:
    named = Counter((item.topic_id, item.partition) for item in request.partitions)
    (topic_id, partition), _ = named.most_common(1)[0]
    message = "a partition stands twice in one request: send one batch for each"
    return InvalidRequestError(message, topic_id=topic_id, partition=partition)


def _forget(future: asyncio.Future[Written]) -> None:
    if not future.cancelled():
        future.exception()


def cancel_all(pending: list[Outcome]) -> None:
    """Gives up what is still queued or waited for, since the caller is gone."""
    for outcome in pending:
        if isinstance(outcome, asyncio.Future):
            outcome.cancel()


async def _add_outcome(answer: pb.ProducePartitionReply, outcome: Outcome) -> None:
    if isinstance(outcome, OncelogError):
        answer.error.CopyFrom(to_detail(outcome))
        return
    try:
        written = await outcome
    except OncelogError as error:
        answer.error.CopyFrom(to_detail(error))
        return
    answer.base_offset = written.base_offset
    answer.append_timestamp_ms = written.append_timestamp_ms
    answer.log_start_offset = written.log_start_offset
    answer.duplicate = written.duplicate
