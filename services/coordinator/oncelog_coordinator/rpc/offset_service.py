"""The remote methods for committed offsets.

Rule: before a group shard accepts offsets of a transaction, the transaction's own shard has durably enrolled the group
(`Enrolling`).
"""

from __future__ import annotations

from oncelog.core.names import check_group_id, check_transactional_id
from oncelog.errors import InvalidRequestError, NotCoordinatorError
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_coordinator.core.group_shard.group_views import DescribeGroup, ListGroups
from oncelog_coordinator.core.offsets import offset_commands as cmd
from oncelog_coordinator.rpc import group_wire, wire
from oncelog_coordinator.rpc.enrolling import Enrolling
from oncelog_coordinator.rpc.shard_registry import NodeShards
from oncelog_coordinator.rpc.transaction_service import register
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.serving.once import Once
from oncelog_runtime.serving.session_tokens import SessionTokens


class OffsetService:
    """Handles the calls about committed offsets."""

    def __init__(self, shards: NodeShards, enrolling: Enrolling, tokens: SessionTokens) -> None:
        self._tokens = tokens
        self._shards = shards
        self._enrolling = enrolling
        self._once = Once(lambda: NotCoordinatorError("the call was meant for another epoch of the group's shard"))

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.COMMIT_OFFSETS, self.commit_offsets)
        register(server, methods.FETCH_OFFSETS, self.fetch_offsets)
        register(server, methods.SEND_OFFSETS, self.send_offsets)
        register(server, methods.WRITE_GROUP_MARKERS, self.write_group_markers)
        register(server, methods.LIST_GROUPS, self.list_groups)
        register(server, methods.DESCRIBE_GROUP, self.describe_group)
        register(server, methods.DELETE_OFFSETS, self.delete_offsets)

    async def commit_offsets(self, request: co.CommitOffsetsRequest) -> co.CommitOffsetsReply:
        """Commits offsets outside a transaction."""
        member = wire.member(request.member)
        offsets = tuple(wire.offset_value(item) for item in request.offsets)
        shard = self._shards.group_shard(member.group_id)
        # the answer to a named call is kept, so it must be small
        command = cmd.CommitOffsets(member, request.commit_sequence, offsets, all_or_nothing=bool(request.call.nonce))
        failed: tuple[cmd.OffsetError, ...] = await self._once.run(
            request.call, shard.life.epoch, lambda: shard.ask(command)
        )
        return co.CommitOffsetsReply(
            errors=[
                types_pb2.PartitionError(
                    partition=types_pb2.TopicPartition(
                        topic=item.value.topic, topic_id=item.value.topic_id, partition=item.value.partition
                    ),
                    error=to_detail(item.error),
                )
                for item in failed
            ]
        )

    async def fetch_offsets(self, request: co.FetchOffsetsRequest) -> co.FetchOffsetsReply:
        """Returns committed offsets."""
        check_group_id(request.group_id)
        shard = self._shards.group_shard(request.group_id)
        wanted = tuple(wire.partition_id(item.topic_id, item.partition) for item in request.partitions) or None
        found = await shard.ask(cmd.FetchOffsets(request.group_id, wanted, request.require_stable))
        return co.FetchOffsetsReply(offsets=[wire.offset_entry(value) for value in found])

    async def send_offsets(self, request: co.SendOffsetsRequest) -> co.SendOffsetsReply:
        """Adds offsets that commit with a transaction."""
        member = wire.member(request.member)
        name = wire.txn_name(request.name)
        check_transactional_id(name.transactional_id)
        self._tokens.require_session(
            request.name.transactional_id, name.txn_producer_id, name.producer_epoch, request.name.session_token
        )
        offsets = tuple(wire.offset_value(item) for item in request.offsets)
        if not offsets:
            raise InvalidRequestError("no offsets")
        shard = self._shards.group_shard(member.group_id)
        txn_shard = self._shards.transaction_shard_number(name.transactional_id)
        life = shard.life  # no other one may take the offsets: it may have forgotten what came between
        table = self._shards.offsets_of(life)
        is_enrolled = table.is_enrolled(member.group_id, name.txn_producer_id, name.txn_no)
        enrolled = await self._enrolling.enrol(
            request.name, txn_shard, member.group_id, table.forgotten, is_enrolled=is_enrolled
        )
        await life.submit(cmd.SendOffsets(name, txn_shard, member, request.commit_sequence, offsets, enrolled))
        return co.SendOffsetsReply()

    async def write_group_markers(self, request: co.WriteGroupMarkersRequest) -> co.WriteGroupMarkersReply:
        """Applies the outcome of a transaction; answers when it is applied and committed (KAFKA-17507)."""
        check_group_id(request.group_id)
        shard = self._shards.group_shard(request.group_id)
        command = cmd.GroupMarker(
            group_id=request.group_id,
            txn_producer_id=request.txn_producer_id,
            txn_no=request.txn_no,
            committed=wire.is_commit(request.outcome),
            txn_shard=request.txn_shard,
            coordinator_epoch=request.coordinator_epoch,
        )
        await shard.ask(command)
        return co.WriteGroupMarkersReply()

    # ------------------------------------------------------------ operators

    async def list_groups(self, request: co.ListGroupsRequest) -> co.ListGroupsReply:
        """Lists the groups of the requested shards that serve here; the reply names those shards."""
        reply = co.ListGroupsReply()
        async for shard, epoch, views in self._shards.ask_each(KIND_GROUP, request.shards, ListGroups()):
            reply.groups.extend(wire.group_listing(view, self._shards.address, shard) for view in views)
            reply.answered.add(shard=shard, epoch=epoch)
        return reply

    async def describe_group(self, request: co.DescribeGroupRequest) -> co.DescribeGroupReply:
        """Describes one group; the description of an unknown group is empty."""
        shard = self._shards.group_shard(check_group_id(request.group_id))
        view = await shard.ask(DescribeGroup(request.group_id))
        reply = co.DescribeGroupReply(
            group=wire.group_listing(view, self._shards.address, shard.number),
            offsets=map(wire.group_offset, view.offsets),
            pending=map(wire.pending_offsets, view.pending),
        )
        group_wire.describe(reply, view.membership, self._shards.topic_names)
        return reply

    async def delete_offsets(self, request: co.DeleteOffsetsRequest) -> co.DeleteOffsetsReply:
        """Removes offsets. Raises `UnstableOffsetCommitError` while an open transaction holds one of them."""
        if request.all == bool(request.partitions):
            raise InvalidRequestError("name partitions, or all of them")
        shard = self._shards.group_shard(check_group_id(request.group_id))
        partitions = tuple(wire.partition_id(item.topic_id, item.partition) for item in request.partitions)
        command = cmd.DeleteOffsets(request.group_id, None if request.all else partitions)
        deleted = await self._once.run(request.call, shard.life.epoch, lambda: shard.ask(command))
        return co.DeleteOffsetsReply(deleted=deleted)
