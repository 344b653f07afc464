"""The methods that brokers call of each other: replication, elections after restarts, and questions whether a broker lives."""

from __future__ import annotations

import asyncio
from typing import Final

from oncelog.errors import LeaderNotAvailableError, OncelogError, StaleBrokerEpochError
from oncelog.ports import WallClock
from oncelog.types import BrokerRef, Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.cluster.controller import Controller, require_controller
from oncelog_partition_leader.partition.disk_confirmation import sync_replica
from oncelog_partition_leader.replication.follower import Follower
from oncelog_partition_leader.replication.observe.observer import BrokerObserver
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_partition_leader.rpc.get_metadata import to_ref
from oncelog_runtime.metadata.restore_guard import RestoreGuard
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register

_HOLD_MAX_MS: Final = 10_000


class ReplicaService:
    """The handlers of these methods."""

    def __init__(
        self,
        clock: WallClock,
        cluster: ClusterContext,
        replicas: ReplicaManager,
        follower: Follower,
        controller: Controller,
        observer: BrokerObserver,
        guard: RestoreGuard,
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._view = cluster.view
        self._me = cluster.me
        self._opinion = cluster.contacts.opinion
        self._replicas = replicas
        self._follower = follower
        self._controller = controller
        self._observer = observer

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.REPLICATE, self.replicate)
        register(server, methods.SYNC_REPLICA, self.sync_replica)
        register(server, methods.REPLICA_STATUS, self.replica_status)
        register(server, methods.REPORT_BROKER, self.report_broker)
        register(server, methods.PING, self.ping)

    async def replicate(self, request: pb.ReplicateRequest, payload: Buffer) -> tuple[pb.ReplicateReply, Buffer]:
        """See `Follower`."""
        with self._observer.follows(len(payload), len(request.partitions)):
            return await self._follower.replicate(request, payload), b""

    async def sync_replica(
        self, request: pb.SyncReplicaRequest, _payload: Buffer
    ) -> tuple[pb.SyncReplicaReply, Buffer]:
        """See `disk_confirmation`."""
        return await sync_replica(self._replicas.partitions, self._me(), request), b""

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

    def _require_same_restore(self, request: pb.ReplicaStatusRequest) -> None:
        """Refuses to tell of logs by a view from before a restore that the controller knows, and has the guard look at once.

        A broker whose lease the restored etcd does not have registers within a second; that etcd was restored it may learn
        seconds later. What it says until then counts by its old view: that etcd knows all of its replicas.
        """
        known = self._view.restored_at()
        if request.HasField("restored_at") and request.restored_at != known:
            self._view.on_doubt()
            raise LeaderNotAvailableError(
                "this broker and the controller know of different restores of etcd", restored_at=known
            )

    async def replica_status(
        self, request: pb.ReplicaStatusRequest, _payload: Buffer
    ) -> tuple[pb.ReplicaStatusReply, Buffer]:
        """Answers with the ends and claims of logs, for elections after restarts, and with the logs that etcd does not know."""
        me = self._me()
        if (request.broker.broker_id, request.broker.incarnation) != me:
            raise StaleBrokerEpochError("another incarnation was asked", incarnation=me.incarnation)
        self._require_same_restore(request)
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
        if request.kept_logs:
            kept = self._replicas.leftovers.kept(me.broker_id)
            partitions = [types_pb2.TopicPartition(topic_id=p.topic_id, partition=p.partition) for p in kept]
            reply.kept.CopyFrom(pb.KeptLogs(partitions=partitions, brokers_seen=sorted(self._guard.brokers_seen)))
        return reply, b""
