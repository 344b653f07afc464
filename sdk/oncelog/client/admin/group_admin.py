"""Administration of groups' committed offsets: a part of `client.admin`.

Rule: lists are complete or an error (`shard_listing`). Offsets are moved by ordinary commits, so a running consumer of the
group overwrites them with its next commit: stop it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.client.admin.admin_base import AdminBase
from oncelog.client.admin.descriptions import GroupDescription, GroupListing, GroupOffset, PendingOffsets
from oncelog.client.admin.shard_listing import ShardListing
from oncelog.client.consume.offsets import GroupMetadata, OffsetAndMetadata, offset_entries
from oncelog.client.routing.metadata import created_again
from oncelog.core.names import check_group_id
from oncelog.types import PartitionId, TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail


class GroupAdmin(AdminBase):
    """See the module."""

    async def list_groups(self) -> list[GroupListing]:
        """Every group with an offset, committed or pending, by name. Raises `CoordinatorNotAvailableError`."""
        found = await ShardListing(self._context, self._metadata).collect(
            "group",
            methods.LIST_GROUPS,
            lambda shards: co.ListGroupsRequest(shards=shards),
            lambda reply: ((item.group_shard, _listing(item)) for item in reply.groups),
        )
        return sorted(found, key=lambda g: g.group_id)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """A group's offsets, and those that wait for open transactions. A group that nobody used has none."""
        request = co.DescribeGroupRequest(group_id=check_group_id(group_id))
        reply = await self._caller.to_group_coordinator(group_id, methods.DESCRIBE_GROUP, request)
        return GroupDescription(
            _listing(reply.group),
            tuple(_offset(item) for item in reply.offsets),
            tuple(
                PendingOffsets(
                    item.txn_producer_id,
                    item.txn_no,
                    item.txn_shard,
                    item.since_ms,
                    tuple((e.topic or e.topic_id, e.partition, e.offset) for e in item.offsets),
                )
                for item in reply.pending
            ),
        )

    async def set_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | Mapping[tuple[str, int], OffsetAndMetadata | int],
    ) -> None:
        """Commits offsets, (topic, partition) -> offset, in the name of a group. Raises the first refusal.

        Raises `UnknownTopicError` for an offset with the id of a topic that was created again since: then none is committed.
        """
        member = GroupMetadata(check_group_id(group_id)).to_proto()
        entries, outdated = await offset_entries(self._metadata, offsets, self._context.deadline_ms())
        if outdated:
            raise created_again(*outdated[0], "look where the group should stand in the new one")
        request = co.CommitOffsetsRequest(member=member, offsets=entries)
        reply = await self._caller.to_group_coordinator(group_id, methods.COMMIT_OFFSETS, request, once=True)
        for failed in reply.errors:
            raise from_detail(failed.error)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[PartitionId] | None = None) -> int:
        """Forgets committed offsets, None = all of the group; returns how many there were.

        Raises `UnstableOffsetCommitError` when an open transaction still holds one of them at the deadline.
        """
        chosen = None if partitions is None else list(partitions)
        request = co.DeleteOffsetsRequest(
            group_id=check_group_id(group_id),
            partitions=[types_pb2.TopicPartition(topic_id=p.topic_id, partition=p.partition) for p in chosen or ()],
            all=chosen is None,
        )
        reply = await self._caller.to_group_coordinator(group_id, methods.DELETE_OFFSETS, request, once=True)
        return reply.deleted


def _listing(item: co.GroupListing) -> GroupListing:
    return GroupListing(
        item.group_id, item.state, item.offsets, item.open_transactions, item.coordinator, item.group_shard
    )


def _offset(item: co.GroupOffset) -> GroupOffset:
    entry = item.offset
    return GroupOffset(
        topic=entry.topic,
        topic_id=entry.topic_id,
        partition=entry.partition,
        offset=entry.offset,
        leader_epoch=entry.leader_epoch,
        metadata=entry.metadata,
        committed_ms=item.committed_ms,
        member_id=item.member_id,
    )
