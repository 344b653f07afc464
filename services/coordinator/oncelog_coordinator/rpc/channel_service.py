"""The remote methods for what is remembered of channels; only the leaders of partitions call them.

Rule: as for offsets, the transaction's own shard has enrolled the channel's group before acknowledgements are taken
(`Enrolling`).
"""

from __future__ import annotations

from oncelog.core.names import channel_group_id, check_transactional_id
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from oncelog_coordinator.core.channels import channel_commands as cmd
from oncelog_coordinator.rpc import channel_wire, wire
from oncelog_coordinator.rpc.enrolling import Enrolling
from oncelog_coordinator.rpc.shard_registry import NodeShards
from oncelog_coordinator.rpc.transaction_service import register
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.serving.session_tokens import SessionTokens


class ChannelService:
    """Handles the calls of partition leaders about their channels."""

    def __init__(self, shards: NodeShards, enrolling: Enrolling, tokens: SessionTokens) -> None:
        self._shards = shards
        self._enrolling = enrolling
        self._tokens = tokens

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.OPEN_CHANNEL_PARTITION, self.open_channel_partition)
        register(server, methods.WRITE_CHANNEL_STATE, self.write_channel_state)
        register(server, methods.SEND_CHANNEL_ACKS, self.send_channel_acks)

    async def open_channel_partition(self, request: co.OpenChannelPartitionRequest) -> co.OpenChannelPartitionReply:
        """Returns what is remembered, and refuses leaders of older epochs from then on."""
        leader = channel_wire.leader(request)
        life = self._shards.group_shard(leader.id.group_id).life
        view = await life.submit(cmd.OpenChannelPartition(leader, tuple(request.blocks)))
        return channel_wire.view(view, life.epoch)

    async def write_channel_state(self, request: co.WriteChannelStateRequest) -> co.WriteChannelStateReply:
        """Adds settled and retried records; answers when they are durable."""
        leader = channel_wire.leader(request)
        life = self._shards.group_shard(leader.id.group_id).life
        command = cmd.WriteChannelState(
            leader=leader,
            write_no=request.write_no,
            settled_before=request.settled_before,
            settled=channel_wire.ranges(request.settled),
            retried=channel_wire.retries(request.retried),
            seek=request.seek,
            forget_from=request.forget_from if request.HasField("forget_from") else None,
        )
        await life.submit(command)
        return co.WriteChannelStateReply(coordinator_epoch=life.epoch)

    async def send_channel_acks(self, request: co.SendChannelAcksRequest) -> co.SendChannelAcksReply:
        """Adds acknowledgements that count when a transaction commits."""
        leader, name = channel_wire.leader(request), wire.txn_name(request.name)
        check_transactional_id(name.transactional_id)
        self._tokens.require_session(
            request.name.transactional_id, name.txn_producer_id, name.producer_epoch, request.name.session_token
        )
        acknowledged = channel_wire.ranges(request.acknowledged)
        group_id = channel_group_id(leader.id.channel_id)
        life = self._shards.group_shard(
            group_id
        ).life  # no other one may take them: it may have forgotten what came between
        txn_shard = self._shards.transaction_shard_number(name.transactional_id)
        enrolled = await self._enrolling.enrol(
            request.name,
            txn_shard,
            group_id,
            self._shards.offsets_of(life).forgotten,
            is_enrolled=self._shards.channels_of(life).is_enrolled(group_id, name.txn_producer_id, name.txn_no),
        )
        await life.submit(cmd.SendChannelAcks(name, txn_shard, leader, request.seeks, acknowledged, enrolled))
        return co.SendChannelAcksReply(coordinator_epoch=life.epoch)
