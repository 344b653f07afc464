"""The methods about transactions and producers on a partition: markers, batches in doubt, and lists for operators.

Rule: as in `produce_service`, a handler checks the form, submits, and waits; it may be cancelled at any await.
"""

from __future__ import annotations

import asyncio

from oncelog.core.batch.control import Marker
from oncelog.core.batch.header import NO_SHARD
from oncelog.errors import InvalidRequestError, InvalidTopicError, OncelogError
from oncelog.ports import WallClock
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.appends.commands import AppendMarkerCommand, SettleCommand, Written
from oncelog_partition_leader.core.log.batch_check import check_question
from oncelog_partition_leader.core.producers.transactions import TxnName
from oncelog_partition_leader.partition.coordinator_client import Coordinators
from oncelog_partition_leader.partition.disk_confirmation import DiskConfirmation
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_partition_leader.rpc.describe import producers_reply
from oncelog_partition_leader.rpc.produce.produce_service import Outcome, cancel_all
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register
from oncelog_runtime.serving.topic_access import TopicOperation, require_access


class TransactionService:
    """The handlers of these methods."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: WallClock,
        replicas: ReplicaManager,
        coordinators: Coordinators,
        disks: DiskConfirmation,
    ) -> None:
        self._timeout_ms = config.coordinator_timeout_ms
        self._clock = clock
        self._replicas = replicas
        self._coordinators = coordinators
        self._disks = disks

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.WRITE_TXN_MARKERS, self.write_txn_markers)
        register(server, methods.GET_PRODUCER_STATE, self.get_producer_state)
        register(server, methods.DESCRIBE_PRODUCERS, self.describe_producers)

    async def write_txn_markers(
        self, request: pb.WriteTxnMarkersRequest, _payload: Buffer
    ) -> tuple[pb.WriteTxnMarkersReply, Buffer]:
        """Appends markers; each is answered when it is committed, or when it is on disk at every in-sync replica."""
        self._coordinators.heard(request.txn_shard, request.coordinator_epoch)
        # Less than the coordinator waits: a marker whose partition stands still must not keep back the answer about others.
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms // 3
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
            cancel_all(pending)
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
            self._coordinators.tokens.require_producer(request.producer_id, request.session_token)
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        command = SettleCommand(
            done,
            self._clock.monotonic_ms() + self._timeout_ms,
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
