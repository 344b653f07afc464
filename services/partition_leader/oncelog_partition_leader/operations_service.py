"""Remote methods for operators: draining this broker, and (on the controller) moving replicas. Form is checked here only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog import methods
from oncelog.errors import InvalidRequestError, StaleBrokerEpochError
from oncelog.types import BrokerRef, Buffer
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog_partition_leader.controller import Controller
from oncelog_partition_leader.core.draining import out_of_sync
from oncelog_partition_leader.drainer import Drainer
from oncelog_partition_leader.metadata import to_ref
from oncelog_partition_leader.service import handler_of
from oncelog_runtime.cluster_view import ClusterView
from oncelog_runtime.ports import RpcServer


class OperationsService:
    """See the module."""

    def __init__(
        self, view: ClusterView, drainer: Drainer, controller: Controller, me: Callable[[], BrokerRef]
    ) -> None:
        self._view = view
        self._drainer = drainer
        self._controller = controller
        self._me = me

    def register(self, server: RpcServer) -> None:
        """Hands every method to the server."""
        server.register(methods.DRAIN_BROKER.name, handler_of(methods.DRAIN_BROKER, self.drain_broker))

    async def drain_broker(
        self, request: pb.DrainBrokerRequest, _payload: Buffer
    ) -> tuple[pb.DrainBrokerReply, Buffer]:
        """Starts, cancels or looks. Raises `DrainingElsewhereError`, `StaleBrokerEpochError` when another one is meant."""
        me = self._me()
        if request.HasField("broker_id") and request.broker_id != me.broker_id:
            raise StaleBrokerEpochError("another broker was meant", broker=me.broker_id, meant=request.broker_id)
        if request.action == types_pb2.DRAIN_START:
            await self._drainer.start()
        elif request.action == types_pb2.DRAIN_CANCEL:
            await self._drainer.cancel()
        elif request.action != types_pb2.DRAIN_STATUS:
            raise InvalidRequestError("a drain is started, cancelled or looked at", action=request.action)
        return self._status(request.action == types_pb2.DRAIN_START), b""

    def _status(self, asked_to_start: bool) -> pb.DrainBrokerReply:
        me, left = self._me(), self._drainer.remaining()
        partitions = {p: entry.value for p, entry in self._view.partitions.items()}
        state, reason = self._state(left.done, asked_to_start)
        return pb.DrainBrokerReply(
            broker=to_ref(me),
            state=state,
            leaderships=left.leaderships,
            needed=left.needed,
            reason=reason or ("" if left.done else str(left)),
            in_sync=me.incarnation > 0 and out_of_sync(me, partitions) == 0,
            controller=self._controller.is_controller,
        )

    def _state(self, done: bool, asked_to_start: bool) -> tuple[Any, str]:
        if self._drainer.active:
            return (types_pb2.DRAINED, "") if done else (types_pb2.DRAINING, "")
        if asked_to_start and (reason := self._drainer.why_skipped()):
            return types_pb2.DRAIN_SKIPPED, reason
        return types_pb2.NOT_DRAINING, ""
