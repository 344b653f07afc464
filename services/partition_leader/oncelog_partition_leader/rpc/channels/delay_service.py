"""The remote methods about delayed records: cancelling one, and what waits."""

from __future__ import annotations

from oncelog.errors import InvalidRequestError, OncelogError
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.partition.delays.delay_host import DelayHost
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_runtime.metadata.waiting_topics import is_waiting
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register

_PARTITIONS_MAX = 10_000


class DelayService:
    """The handlers of these methods."""

    def __init__(self, replicas: ReplicaManager, delays: DelayHost) -> None:
        self._replicas = replicas
        self._delays = delays

    def register(self, server: RpcServer) -> None:
        """Registers both methods with the server."""
        register(server, methods.CANCEL_DELAYED, self.cancel_delayed)
        register(server, methods.DESCRIBE_DELAYED, self.describe_delayed)

    async def cancel_delayed(
        self, request: pb.CancelDelayedRequest, _payload: Buffer
    ) -> tuple[pb.CancelDelayedReply, Buffer]:
        """Answers when the cancellation is committed. Raises `NotScheduledError`, `InvalidRequestError`, `NotLeaderError`."""
        partition = self._find(request.topic_id, request.partition)
        if request.offset < 0:
            raise InvalidRequestError("an offset is 0 or above", offset=request.offset)
        partition.require_leadership()
        await self._delays.cancel(partition.id, request.offset)
        return pb.CancelDelayedReply(), b""

    async def describe_delayed(
        self, request: pb.DescribeDelayedRequest, _payload: Buffer
    ) -> tuple[pb.DescribeDelayedReply, Buffer]:
        """Describes partitions; each one's own error is in its item."""
        if len(request.partitions) > _PARTITIONS_MAX:
            raise InvalidRequestError("too many partitions in one request", limit=_PARTITIONS_MAX)
        reply = pb.DescribeDelayedReply()
        for number in request.partitions:
            answer = reply.partitions.add(partition=number, next_due_ms=-1)
            try:
                partition = self._find(request.topic_id, number)
                partition.require_leadership()
                found = self._delays.summary(partition.id)
            except OncelogError as error:
                answer.error.CopyFrom(to_detail(error))
                continue
            answer.waiting, answer.next_due_ms = found.waiting, found.next_due_ms
            answer.moved, answer.cancelled = found.moved, found.cancelled
        return reply, b""

    def _find(self, topic_id: str, number: int) -> LocalPartition:
        partition = self._replicas.find(PartitionId(topic_id, number))
        if not is_waiting(partition.topic):
            raise InvalidRequestError("this is no waiting topic", topic_id=topic_id)
        return partition
