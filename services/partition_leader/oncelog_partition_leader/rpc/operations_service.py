"""Remote methods for operators: draining this broker, and (on the controller) moving replicas. Only form is checked here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from oncelog.errors import InvalidRequestError, OncelogError, StaleBrokerEpochError
from oncelog.types import BrokerRef, Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import placement_pb2 as pl
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.cluster.controller import Controller, require_controller
from oncelog_partition_leader.core.cluster.draining import out_of_sync
from oncelog_partition_leader.core.cluster.election import holders
from oncelog_partition_leader.core.replication.replica_state import Standing
from oncelog_partition_leader.replication.drainer import Drainer
from oncelog_partition_leader.rpc.get_metadata import to_ref
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register
from oncelog_runtime.serving.once import Once

_STANDINGS: Final = {
    Standing.INTACT: pl.REPLICA_STANDING_INTACT,
    Standing.UNCLEAN: pl.REPLICA_STANDING_UNCLEAN,
    Standing.LOST: pl.REPLICA_STANDING_LOST,
}


class OperationsService:
    """The handlers of these methods."""

    def __init__(
        self,
        view: ClusterView,
        drainer: Drainer,
        controller: Controller,
        me: Callable[[], BrokerRef],
        once: Once,
    ) -> None:
        self._view = view
        self._drainer = drainer
        self._controller = controller
        self._me = me
        self._once = once
        self._once_here = Once(
            lambda: StaleBrokerEpochError("the call was meant for another incarnation of this broker")
        )

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.DRAIN_BROKER, self.drain_broker)
        register(server, methods.REASSIGN_PARTITIONS, self.reassign_partitions)
        register(server, methods.LIST_REASSIGNMENTS, self.list_reassignments)
        register(server, methods.TRANSFER_LEADERSHIP, self.transfer_leadership)
        register(server, methods.SURVEY_REPLICAS, self.survey_replicas)
        register(server, methods.ELECT_UNCLEAN, self.elect_unclean)
        register(server, methods.DECOMMISSION_BROKERS, self.decommission_brokers)

    async def drain_broker(
        self, request: pb.DrainBrokerRequest, _payload: Buffer
    ) -> tuple[pb.DrainBrokerReply, Buffer]:
        """Starts, cancels or shows the drain. Raises `DrainingElsewhereError`; `StaleBrokerEpochError` on the wrong broker."""
        me = self._me()
        if request.HasField("broker_id") and request.broker_id != me.broker_id:
            address = self._controller.signpost.broker(request.broker_id)
            raise StaleBrokerEpochError(
                "another broker was meant", broker=me.broker_id, meant=request.broker_id, go_to=address
            )
        if request.action == types_pb2.DRAIN_ACTION_START:
            await self._once_here.run(request.call, me.incarnation, self._drainer.start)
        elif request.action == types_pb2.DRAIN_ACTION_CANCEL:
            await self._once_here.run(request.call, me.incarnation, self._drainer.cancel)
        elif request.action != types_pb2.DRAIN_ACTION_STATUS:
            raise InvalidRequestError("a drain is started, cancelled or looked at", action=request.action)
        return self._status(request.action == types_pb2.DRAIN_ACTION_START), b""

    def _status(self, asked_to_start: bool) -> pb.DrainBrokerReply:
        me, left = self._me(), self._drainer.remaining()
        partitions = ((p, entry.value) for p, entry in self._view.partitions.items())
        state, reason = self._state(left.done, asked_to_start)
        return pb.DrainBrokerReply(
            broker=to_ref(me),
            state=state,
            leaderships=left.leaderships,
            needed=left.needed,
            reason=reason or ("" if left.done else str(left)),
            in_sync=me.incarnation > 0 and out_of_sync(me, partitions, self._view.adding) == 0,
            controller=self._controller.is_controller,
        )

    def _state(self, done: bool, asked_to_start: bool) -> tuple[types_pb2.DrainState, str]:
        if self._drainer.active:
            return (types_pb2.DRAIN_STATE_DRAINED, "") if done else (types_pb2.DRAIN_STATE_DRAINING, "")
        if asked_to_start and (reason := self._drainer.why_skipped()):
            return types_pb2.DRAIN_STATE_SKIPPED, reason
        return types_pb2.DRAIN_STATE_NOT_DRAINING, ""

    # ------------------------------------------------------------ on the controller

    async def reassign_partitions(
        self, request: pl.ReassignPartitionsRequest, _payload: Buffer
    ) -> tuple[pl.ReassignPartitionsReply, Buffer]:
        """Starts or cancels moves, each partition by itself; refusals are in the answer."""
        require_controller(self._controller, self._view)
        return await self._once.run(request.call, self._controller.term, lambda: self._reassign(request)), b""

    async def _reassign(self, request: pl.ReassignPartitionsRequest) -> pl.ReassignPartitionsReply:
        reply = pl.ReassignPartitionsReply()
        for item in request.partitions:
            try:
                await self._controller.mover.reassign(PartitionId(item.topic_id, item.partition), item.replicas)
            except OncelogError as error:
                refused = reply.errors.add(error=to_detail(error))
                refused.partition.topic_id, refused.partition.partition = item.topic_id, item.partition
        return reply

    async def list_reassignments(
        self, _request: pl.ListReassignmentsRequest, _payload: Buffer
    ) -> tuple[pl.ListReassignmentsReply, Buffer]:
        """Lists the moves, by topic and partition."""
        reply = pl.ListReassignmentsReply()
        for (topic_id, partition), move in sorted(self._view.reassignments.items()):
            entry = self._view.partitions.get(PartitionId(topic_id, partition))
            reply.moves.add(
                topic=self._view.topic_names.get(topic_id, ""),
                topic_id=topic_id,
                partition=partition,
                original=move.value.original,
                target=move.value.target,
                replicas=entry.value.replicas if entry is not None else (),
                isr=[ref.broker_id for ref in entry.value.isr] if entry is not None else (),
            )
        return reply, b""

    async def transfer_leadership(
        self, request: pl.TransferLeadershipRequest, _payload: Buffer
    ) -> tuple[pl.TransferLeadershipReply, Buffer]:
        """See `Elections.transfer`."""
        require_controller(self._controller, self._view)
        place = PartitionId(request.topic_id, request.partition)
        epoch = request.leader_epoch if request.HasField("leader_epoch") else None
        await self._controller.elections.transfer(place, request.broker_id, epoch)
        return pl.TransferLeadershipReply(), b""

    async def survey_replicas(
        self, request: pl.SurveyReplicasRequest, _payload: Buffer
    ) -> tuple[pl.SurveyReplicasReply, Buffer]:
        """See `Elections.survey`."""
        require_controller(self._controller, self._view)
        where = PartitionId(request.topic_id, request.partition)
        survey = await self._controller.elections.survey(where)
        reply = pl.SurveyReplicasReply(leader_epoch=survey.partition.leader_epoch, has_leader=survey.has_leader)
        named = {ref.broker_id: ref for ref in holders(survey.partition)}
        for broker_id in survey.partition.replicas:
            item = reply.replicas.add(broker_id=broker_id, holder=broker_id in named)
            if broker_id not in survey.answers:
                continue
            now, state = survey.answers[broker_id]
            item.answered, item.high_watermark = True, state.high_watermark
            item.last_epoch, item.log_end_offset = state.log
            if item.holder:
                standing = state.standing(named[broker_id], now, survey.partition.leader_epoch)
                item.standing = _STANDINGS[standing]
        return reply, b""

    async def elect_unclean(
        self, request: pl.ElectUncleanRequest, _payload: Buffer
    ) -> tuple[pl.ElectUncleanReply, Buffer]:
        """See `Elections.elect_unclean`."""
        require_controller(self._controller, self._view)
        where = PartitionId(request.topic_id, request.partition)
        await self._controller.elections.elect_unclean(where, request.broker_id, request.leader_epoch)
        return pl.ElectUncleanReply(), b""

    async def decommission_brokers(
        self, request: pl.DecommissionBrokersRequest, _payload: Buffer
    ) -> tuple[pl.DecommissionBrokersReply, Buffer]:
        """Starts, cancels or shows the decommission of brokers. Raises as `Balancer.decommission` does."""
        require_controller(self._controller, self._view)
        balancer, term = self._controller.balancer, self._controller.term
        if request.action == pl.DECOMMISSION_ACTION_START:
            await self._once.run(request.call, term, lambda: balancer.decommission(request.broker_ids))
        elif request.action == pl.DECOMMISSION_ACTION_CANCEL:
            await self._once.run(request.call, term, lambda: balancer.recommission(request.broker_ids))
        elif request.action != pl.DECOMMISSION_ACTION_STATUS:
            raise InvalidRequestError("brokers are taken out of use, put back, or looked at", action=request.action)
        reply = pl.DecommissionBrokersReply()
        for load in balancer.loads():
            reply.brokers.add(**dataclasses.asdict(load))
        return reply, b""
