"""The broker's remote methods: they translate messages to calls of the domain and back. No decision is made here.

Rule: a handler checks the request's form, submits, and waits on futures. It may be cancelled at any await.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from oncelog.core.batch.control import Marker
from oncelog.core.batch.header import NO_SHARD, BatchHeader
from oncelog.errors import (
    InvalidPidMappingError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    LeaderNotAvailableError,
    NotControllerError,
    OffsetOutOfRangeError,
    OncelogError,
    RequestTimedOutError,
    ShuttingDownError,
    StaleBrokerEpochError,
)
from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import BrokerRef, Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.methods import MethodSpec
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.cluster.controller import Controller
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.appends.commands import (
    ACKS_ALL,
    AppendBatch,
    AppendMarkerCommand,
    SettleCommand,
    Written,
)
from oncelog_partition_leader.core.log.batch_check import BatchLimits, check_question, read_client_batch
from oncelog_partition_leader.core.log.payload_check import check_payload
from oncelog_partition_leader.core.producers.transactions import TxnName
from oncelog_partition_leader.partition.coordinator_client import Coordinators
from oncelog_partition_leader.partition.disk_confirmation import DiskConfirmation, sync_replica
from oncelog_partition_leader.replication.follower import Follower
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_partition_leader.rpc.describe import producers_reply
from oncelog_partition_leader.rpc.fetch import Reader
from oncelog_partition_leader.rpc.get_metadata import metadata_reply, to_ref
from oncelog_partition_leader.rpc.topic_readiness import wait_until_usable
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, SHARD_WRITER_BASE, producer_id_ceiling
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import Serve, handler_of
from oncelog_runtime.serving.call_context import asked_on
from oncelog_runtime.serving.topic_access import TopicOperation, require_access

_HOLD_MAX_MS = 10_000
_SAME_CALL_MS = 600_000
Outcome = asyncio.Future[Written] | OncelogError


class BrokerService:
    """The methods of `PartitionLeader` that no other service here has: produce, fetch, replicate, markers, metadata."""

    def __init__(
        self,
        config: BrokerConfig,
        ports: NodePorts,
        cluster: ClusterContext,
        replicas: ReplicaManager,
        follower: Follower,
        controller: Controller,
        coordinators: Coordinators,
        disks: DiskConfirmation,
    ) -> None:
        self._disks = disks
        self._tokens = coordinators.tokens
        self._config = config
        self._clock = ports.clock
        self._view = cluster.view
        self._replicas = replicas
        self._reader = Reader(config, ports.clock, replicas)
        self._follower = follower
        self._controller = controller
        self._coordinators = coordinators
        self._me = cluster.me
        self._opinion = cluster.contacts.opinion
        self._transport = ports.transport
        self._tracer = ports.tracer
        self.draining = False
        self._ends_asked: dict[PartitionId, tuple[int, int]] = {}

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        table: list[tuple[MethodSpec[Any, Any], Serve]] = [
            (methods.PRODUCE, self.produce),
            (methods.FETCH, self.fetch),
            (methods.REPLICATE, self.replicate),
            (methods.WRITE_TXN_MARKERS, self.write_txn_markers),
            (methods.SYNC_REPLICA, self.sync_replica),
            (methods.LIST_OFFSETS, self.list_offsets),
            (methods.OFFSET_FOR_LEADER_EPOCH, self.offset_for_leader_epoch),
            (methods.GET_PRODUCER_STATE, self.get_producer_state),
            (methods.DESCRIBE_PRODUCERS, self.describe_producers),
            (methods.DELETE_RECORDS, self.delete_records),
            (methods.GET_METADATA, self.get_metadata),
            (methods.CREATE_TOPIC, self.create_topic),
            (methods.DELETE_TOPIC, self.delete_topic),
            (methods.REPORT_BROKER, self.report_broker),
            (methods.PING, self.ping),
            (methods.REPLICA_STATUS, self.replica_status),
        ]
        for spec, serve in table:
            server.register(spec.name, handler_of(spec, serve))

    # ------------------------------------------------------------ writing

    async def produce(self, request: pb.ProduceRequest, payload: Buffer) -> tuple[pb.ProduceReply, Buffer]:
        """Appends at most one batch per partition; each has its own outcome. With acks=0 only immediate refusals are answered:
        a caller without any answer would keep sending to a broker that is not the leader any more.
        """
        self._check_produce(request, payload)
        pending = self._submit_all(request, payload)
        reply = pb.ProduceReply()
        if request.acks == 0:
            for item, outcome in zip(request.partitions, pending, strict=True):
                if isinstance(outcome, asyncio.Future):
                    outcome.add_done_callback(_forget)
                else:
                    await _add_outcome(reply.partitions.add(topic_id=item.topic_id, partition=item.partition), outcome)
            return reply, b""
        try:
            for item, outcome in zip(request.partitions, pending, strict=True):
                await _add_outcome(reply.partitions.add(topic_id=item.topic_id, partition=item.partition), outcome)
        except asyncio.CancelledError:
            _cancel_all(pending)
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
        named = Counter((item.topic_id, item.partition) for item in request.partitions)
        if len(named) != len(request.partitions):
            (topic_id, partition), _ = named.most_common(1)[0]
            raise InvalidRequestError(
                "a partition stands twice in one request: send one batch for each",
                topic_id=topic_id,
                partition=partition,
            )

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
                pending.append(error)
        return pending

    def submit_batch(
        self, item: pb.ProducePartition, data: Buffer, acks: int, deadline_ms: int, now_ms: int
    ) -> asyncio.Future[Written]:
        """Checks a batch and queues it. Raises its refusal."""
        partition_id = PartitionId(item.topic_id, item.partition)
        partition = self._replicas.find(partition_id)
        require_access(partition.topic, TopicOperation.WRITE)
        leadership = partition.require_leadership()
        config = partition.topic_config.log
        limits = BatchLimits(
            now_ms=now_ms, max_message_bytes=config.max_message_bytes, segment_bytes=config.segment_bytes
        )
        try:
            header = read_client_batch(data, limits, item.topic_id, item.partition)
            _check_writer(partition.topic, header)
            check_payload(header, data, limits.max_uncompressed_bytes)
        except OncelogError:
            raise
        except Exception as error:  # nothing is queued yet: this batch is refused, the others of the request are not
            raise self._replicas.bugs.met("request", error, methods.PRODUCE.name) from error
        if header.producer_id >= 0 and partition.topic not in INTERNAL_TOPICS:
            self._check_identity(header, item, now_ms)
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        command = AppendBatch(done, deadline_ms, acks, header=header, data=data, transactional_id=item.transactional_id)
        leadership.submit(command, len(data))
        return done

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

    async def write_txn_markers(
        self, request: pb.WriteTxnMarkersRequest, _payload: Buffer
    ) -> tuple[pb.WriteTxnMarkersReply, Buffer]:
        """Appends markers; each is answered when it is committed, or when it is on disk at every in-sync replica."""
        self._coordinators.heard(request.txn_shard, request.coordinator_epoch)
        deadline_ms = self._clock.monotonic_ms() + self._config.coordinator_timeout_ms
        reply = pb.WriteTxnMarkersReply()
        pending: list[Outcome] = []
        for marker in request.markers:
            try:
                pending.append(self._submit_marker(request, marker, deadline_ms))
            except OncelogError as error:
                pending.append(error)
        try:
            for marker, outcome in zip(request.markers, pending, strict=True):
                await _add_marker_outcome(reply, marker, outcome)
            if request.on_disk:
                await self._confirm(reply)
        except asyncio.CancelledError:
            _cancel_all(pending)
            raise
        return reply, b""

    async def _confirm(self, reply: pb.WriteTxnMarkersReply) -> None:
        """Waits until the markers are on disk; an unconfirmed one gets an error, and the coordinator sends it again."""
        ends: dict[PartitionId, int] = {}
        for marker in reply.markers:
            if not marker.HasField("error"):
                place = PartitionId(marker.topic_id, marker.partition)
                ends[place] = max(ends.get(place, 0), marker.marker_offset + 1)
        outcomes = await asyncio.gather(*(self._confirm_one(place, end) for place, end in ends.items()))
        failed = {place: error for place, error in zip(ends, outcomes, strict=True) if error is not None}
        for marker in reply.markers:
            error = failed.get(PartitionId(marker.topic_id, marker.partition))
            if error is not None and not marker.HasField("error"):
                marker.error.CopyFrom(to_detail(error))

    async def _confirm_one(self, place: PartitionId, end: int) -> OncelogError | None:
        try:
            await self._disks.confirm(self._replicas.find(place), end)
        except OncelogError as error:
            return error
        return None

    async def sync_replica(
        self, request: pb.SyncReplicaRequest, _payload: Buffer
    ) -> tuple[pb.SyncReplicaReply, Buffer]:
        """See `disk_confirmation`."""
        return await sync_replica(self._replicas.partitions, self._me(), request), b""

    def _submit_marker(
        self, request: pb.WriteTxnMarkersRequest, item: pb.TxnMarker, deadline_ms: int
    ) -> asyncio.Future[Written]:
        _check_marker(request, item)
        partition = self._replicas.find(PartitionId(item.topic_id, item.partition))
        committed = item.outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED
        marker = Marker(
            committed=committed,
            coordinator_epoch=request.coordinator_epoch,
            session_epoch=item.session_epoch,
            winners=tuple(item.winners) if committed and item.has_winners else None,
            expected_records=item.expected_records if committed else -1,
        )
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        command = AppendMarkerCommand(
            done,
            deadline_ms,
            name=TxnName(item.txn_producer_id, item.txn_no),
            txn_shard=request.txn_shard,
            marker=marker,
        )
        partition.require_leadership().submit(command)
        return done

    async def replicate(self, request: pb.ReplicateRequest, payload: Buffer) -> tuple[pb.ReplicateReply, Buffer]:
        """See `Follower`."""
        if self._tracer is None or not len(payload) or not tracing.is_sampled(TRACEPARENT.get()):
            return await self._follower.replicate(request, payload), b""
        named = {span_names.APPEND_BYTES: len(payload), span_names.APPEND_BATCHES: len(request.partitions)}
        span = self._tracer.start(span_names.LOG_APPEND, tracing.Kind.INTERNAL, TRACEPARENT.get(), named)
        try:
            reply = await self._follower.replicate(request, payload)
        except BaseException as error:
            tracing.end_with(span, error)
            raise
        span.end()
        return reply, b""

    # ------------------------------------------------------------ reading

    async def fetch(self, request: pb.FetchRequest, _payload: Buffer) -> tuple[pb.FetchReply, Buffer]:
        """See `Reader.fetch`."""
        return await self._reader.fetch(request)

    async def list_offsets(
        self, request: pb.ListOffsetsRequest, _payload: Buffer
    ) -> tuple[pb.ListOffsetsReply, Buffer]:
        """See `Reader.list_offsets`."""
        return await self._reader.list_offsets(request), b""

    async def offset_for_leader_epoch(
        self, request: pb.OffsetForLeaderEpochRequest, _payload: Buffer
    ) -> tuple[pb.OffsetForLeaderEpochReply, Buffer]:
        """See `Reader.offset_for_leader_epoch`."""
        return self._reader.offset_for_leader_epoch(request), b""

    async def get_producer_state(
        self, request: pb.GetProducerStateRequest, _payload: Buffer
    ) -> tuple[pb.GetProducerStateReply, Buffer]:
        """Answers whether a batch in doubt was written; `settle` makes a "no" final by a fence (hole 22)."""
        check_question(request.producer_id, request.producer_epoch, request.base_sequence, request.last_sequence)
        partition = self._replicas.find(PartitionId(request.topic_id, request.partition))
        require_access(partition.topic, TopicOperation.WRITE)
        if partition.topic in INTERNAL_TOPICS:  # shard epochs fence their writers
            raise InvalidTopicError("nobody's batch is in doubt in the cluster's own topics", topic=partition.topic)
        if request.settle:  # it ends the producer here
            self._tokens.require_producer(request.producer_id, request.session_token)
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        command = SettleCommand(
            done,
            self._clock.monotonic_ms() + self._config.coordinator_timeout_ms,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            base_sequence=request.base_sequence,
            last_sequence=request.last_sequence,
            settle=request.settle,
        )
        partition.require_leadership().submit(command)
        await done
        settled = command.settled
        assert settled is not None, "an answer was decided before it was committed"
        reply = pb.GetProducerStateReply(
            known=settled.known,
            written=settled.written,
            base_offset=settled.base_offset,
            producer_epoch=settled.producer_epoch,
            last_sequence=settled.last_sequence,
        )
        return reply, b""

    async def describe_producers(
        self, request: pb.DescribeProducersRequest, _payload: Buffer
    ) -> tuple[pb.DescribeProducersReply, Buffer]:
        """Lists active producers and open transactions."""
        partition = self._replicas.find(PartitionId(request.topic_id, request.partition))
        require_access(partition.topic, TopicOperation.READ)
        return producers_reply(partition.require_leadership().log.producers), b""

    async def delete_records(
        self, request: pb.DeleteRecordsRequest, _payload: Buffer
    ) -> tuple[pb.DeleteRecordsReply, Buffer]:
        """Raises the log start. Raises `OffsetOutOfRangeError` above the high watermark."""
        partition = self._replicas.find(PartitionId(request.topic_id, request.partition))
        require_access(partition.topic, TopicOperation.DELETE)
        if partition.topic in INTERNAL_TOPICS:
            raise InvalidTopicError("the cluster's own topics keep their records", topic=partition.topic)
        leadership = partition.require_leadership()
        before = request.before_offset
        if before == -1:
            before = self._end_as_first_asked(partition.id, leadership.high_watermark)
        if not 0 <= before <= leadership.high_watermark:
            raise OffsetOutOfRangeError(before_offset=before, high_watermark=leadership.high_watermark)
        return pb.DeleteRecordsReply(log_start_offset=await partition.delete_before(before)), b""

    def _end_as_first_asked(self, partition: PartitionId, high_watermark: int) -> int:
        """Resolves -1, the high watermark. Callers other than the SDK may repeat the request: the first answer stays."""
        now_ms = self._clock.monotonic_ms()
        known = self._ends_asked.get(partition)
        if known is None or now_ms - known[1] >= _SAME_CALL_MS:
            known = self._ends_asked[partition] = (high_watermark, now_ms)
        return min(known[0], high_watermark)

    # ------------------------------------------------------------ cluster

    async def get_metadata(
        self, request: pb.GetMetadataRequest, _payload: Buffer
    ) -> tuple[pb.GetMetadataReply, Buffer]:
        """Answers with the cluster as this broker last saw it. Raises `LeaderNotAvailableError` before its first listing."""
        if self._view.revision == 0:
            raise LeaderNotAvailableError("this broker has not read the cluster's metadata yet")
        listener = asked_on(client_listener=self._config.has_client_listener)
        return metadata_reply(self._view, request, listener), b""

    async def create_topic(
        self, request: pb.CreateTopicRequest, _payload: Buffer
    ) -> tuple[pb.CreateTopicReply, Buffer]:
        """Creates a topic, on the controller. Answers when every partition has a leader."""
        require_access(request.topic, TopicOperation.CREATE)
        require_controller(self._controller, self._view)
        options: dict[str, str] = {}
        for entry in request.config:
            if entry.name in options:
                raise InvalidRequestError("an option is given twice", name=ascii(entry.name[:64]))
            options[entry.name] = entry.value
        topic, created = await self._controller.topics.create(
            request.topic,
            request.partitions,
            request.replication_factor,
            options,
            if_not_exists=request.if_not_exists,
            nonce=request.nonce,
        )
        timeout_ms = min(max(request.timeout_ms, 1), self._config.request_timeout_max_ms)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._controller.topics.complete(topic)
        except TimeoutError:
            raise RequestTimedOutError("the topic was created, but has not all its leaders yet") from None
        await wait_until_usable(self._view, self._transport, topic)
        return pb.CreateTopicReply(topic_id=topic.topic_id, created=created), b""

    async def delete_topic(
        self, request: pb.DeleteTopicRequest, _payload: Buffer
    ) -> tuple[pb.DeleteTopicReply, Buffer]:
        """Deletes a topic, on the controller."""
        require_access(request.topic, TopicOperation.DELETE)
        require_controller(self._controller, self._view)
        return pb.DeleteTopicReply(topic_id=await self._controller.topics.delete(request.topic, request.topic_id)), b""

    async def report_broker(
        self, request: pb.ReportBrokerRequest, _payload: Buffer
    ) -> tuple[pb.ReportBrokerReply, Buffer]:
        """Takes a broker's report that it could not reach another one."""
        require_controller(self._controller, self._view)
        self._controller.suspect(BrokerRef(request.suspect.broker_id, request.suspect.incarnation))
        return pb.ReportBrokerReply(), b""

    async def ping(self, request: pb.PingRequest, _payload: Buffer) -> tuple[pb.PingReply, Buffer]:
        """Answers with this broker's identity, after `hold_ms`, and whether it hears the suspect that the request names."""
        if request.hold_ms > 0:
            await asyncio.sleep(min(request.hold_ms, _HOLD_MAX_MS) / 1000)
        reply = pb.PingReply(broker=to_ref(self._me()), now_ms=self._clock.now_ms())
        if request.HasField("suspect"):
            hears = self._opinion(BrokerRef(request.suspect.broker_id, request.suspect.incarnation))
            if hears is not None:
                reply.hears_suspect = hears
        return reply, b""

    async def replica_status(
        self, request: pb.ReplicaStatusRequest, _payload: Buffer
    ) -> tuple[pb.ReplicaStatusReply, Buffer]:
        """Answers with the ends and claims of logs, for elections after restarts."""
        me = self._me()
        if (request.broker.broker_id, request.broker.incarnation) != me:
            raise StaleBrokerEpochError("another incarnation was asked", incarnation=me.incarnation)
        reply = pb.ReplicaStatusReply()
        for item in request.partitions:
            answer = reply.partitions.add(topic_id=item.topic_id, partition=item.partition)
            try:
                state = self._replicas.status(PartitionId(item.topic_id, item.partition))
                answer.last_epoch, answer.log_end_offset = state.log
                answer.intact_since, answer.known_since = state.intact_since, state.known_since
                answer.high_watermark, answer.known_epoch = state.high_watermark, state.known_epoch
                if state.seal is not None:
                    answer.seal.CopyFrom(pb.LogSeal(**state.seal._asdict()))
            except OncelogError as error:
                answer.error.CopyFrom(to_detail(error))
        return reply, b""


def require_controller(controller: Controller, view: ClusterView) -> None:
    """Raises `NotControllerError`, with the controller's address, on every other broker."""
    if not controller.is_controller:
        entry = view.controller
        known = entry.value.broker_id if entry is not None else -1
        address = controller.signpost.controller()
        raise NotControllerError("this broker is not the controller", controller=known, go_to=address)


def _check_marker(request: pb.WriteTxnMarkersRequest, item: pb.TxnMarker) -> None:
    """Raises `InvalidRequestError` for a marker that no transaction can have."""
    if item.outcome not in (types_pb2.TRANSACTION_OUTCOME_COMMITTED, types_pb2.TRANSACTION_OUTCOME_ABORTED):
        raise InvalidRequestError("a marker commits or aborts", outcome=item.outcome)
    if item.txn_producer_id < 0 or item.txn_no < 1 or not 0 <= request.txn_shard < NO_SHARD:
        raise InvalidRequestError(
            "a marker names a transaction and its shard",
            txn_producer_id=item.txn_producer_id,
            txn_no=item.txn_no,
            txn_shard=request.txn_shard,
        )


def _check_writer(topic: str, header: BatchHeader) -> None:
    """Lets only shard owners write internal topics, by their producer ids, which are never given to clients."""
    if (topic in INTERNAL_TOPICS) != (header.producer_id >= SHARD_WRITER_BASE):
        raise InvalidTopicError("the cluster's own topics are written by coordinators alone", topic=topic)


def _forget(future: asyncio.Future[Written]) -> None:
    if not future.cancelled():
        future.exception()


def _cancel_all(pending: list[Outcome]) -> None:
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


async def _add_marker_outcome(reply: pb.WriteTxnMarkersReply, marker: pb.TxnMarker, outcome: Outcome) -> None:
    answer = reply.markers.add(
        topic_id=marker.topic_id,
        partition=marker.partition,
        txn_producer_id=marker.txn_producer_id,
        txn_no=marker.txn_no,
    )
    if isinstance(outcome, OncelogError):
        answer.error.CopyFrom(to_detail(outcome))
        return
    try:
        answer.marker_offset = (await outcome).base_offset
    except OncelogError as error:
        answer.error.CopyFrom(to_detail(error))
