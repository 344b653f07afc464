"""The remote method of group members: one heartbeat joins, goes on and leaves.

Rule: an answer that says nothing new may wait for news, as long as the caller allows and a heartbeat interval at most. The
      member counts as heard of when its heartbeat came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oncelog.core.names import check_group_id
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from oncelog_coordinator.core.groups.group_commands import Heartbeat, HeartbeatReply
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.effects.heartbeat_waits import HeartbeatWaits
from oncelog_coordinator.rpc import group_wire
from oncelog_coordinator.rpc.shard_registry import NodeShards
from oncelog_coordinator.rpc.transaction_service import register
from oncelog_coordinator.shard.shard import Shard
from oncelog_runtime.ports import RpcServer


class GroupService:
    """Handles the calls of group members."""

    def __init__(self, shards: NodeShards, waits: HeartbeatWaits, limits: Limits) -> None:
        self._shards = shards
        self._waits = waits
        self._limits = limits

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.GROUP_HEARTBEAT, self.group_heartbeat)

    async def group_heartbeat(self, request: co.GroupHeartbeatRequest) -> co.GroupHeartbeatReply:
        """Answers a member with its epoch, and with its assignment when that has changed."""
        check_group_id(request.group_id)
        command = group_wire.heartbeat(request)
        shard = self._shards.group_shard(request.group_id)
        if request.max_wait_ms <= 0:
            return self._reply(await shard.ask(command))
        wait_ms = min(request.max_wait_ms, self._limits.group_heartbeat_interval_ms)
        return self._reply(await self._ask_and_wait(shard, command, wait_ms))

    async def _ask_and_wait(self, shard: Shard, command: Heartbeat, wait_ms: int) -> HeartbeatReply:
        wait = self._waits.begin(shard.number, command.group_id, command.member_id)
        try:
            reply = await shard.ask(command)
            if not reply.is_settled or not await wait.wait(wait_ms):
                return reply
        finally:
            self._waits.end(wait)
        return await shard.ask(replace(command, join=None))

    def _reply(self, reply: HeartbeatReply) -> co.GroupHeartbeatReply:
        found = co.GroupHeartbeatReply(
            member_epoch=reply.epoch,
            heartbeat_interval_ms=self._limits.group_heartbeat_interval_ms,
            session_timeout_ms=self._limits.group_session_timeout_ms,
        )
        if reply.assigned is not None:
            topics = group_wire.assigned_topics(reply.assigned, self._names())
            found.assignment.CopyFrom(co.GroupAssignment(number=reply.number, topics=topics))
        return found

    def _names(self) -> Mapping[str, str]:
        return self._shards.topic_names
