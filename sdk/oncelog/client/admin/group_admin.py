"""Administration of groups, their members and committed offsets: a part of `client.admin`.

Rule 1: lists are complete or an error (`shard_listing`).
Rule 2: offsets are moved by ordinary commits. A consumer without a group membership (`assign`) overwrites them with its next
        commit: stop it first. While the group has members, the coordinator refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from oncelog.client.admin.admin_base import AdminBase
from oncelog.client.admin.descriptions import (
    GroupDescription,
    GroupListing,
    GroupMemberDescription,
    GroupOffset,
    PendingOffsets,
)
from oncelog.client.admin.shard_listing import ShardListing
from oncelog.client.consume.offsets import GroupMetadata, OffsetAndMetadata, offset_entries
from oncelog.client.routing.metadata import created_again
from oncelog.core.names import check_group_id
from oncelog.errors import FencedMemberEpochError, UnknownMemberError
from oncelog.types import PartitionId, TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail

_LEAVE: Final = -1
"""The epoch in the heartbeat of a member that leaves."""


class GroupAdmin(AdminBase):
    """See the module."""

    async def list_groups(self) -> list[GroupListing]:
        """Every group with members or with an offset, committed or pending, by name. Raises `CoordinatorNotAvailableError`."""
        found = await ShardListing(self._context, self._metadata).collect(
            "group",
            methods.LIST_GROUPS,
            lambda shards: co.ListGroupsRequest(shards=shards),
            lambda reply: ((item.group_shard, _listing(item)) for item in reply.groups),
        )
        return sorted(found, key=lambda g: g.group_id)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """A group's members, its offsets, and those that wait for open transactions. A group that was never used has none."""
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
            tuple(map(_member, reply.members)),
            reply.group_epoch,
            reply.assignment_epoch,
            reply.assignor,
            reply.expires_ms or None,
        )

    async def set_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | Mapping[tuple[str, int], OffsetAndMetadata | int],
    ) -> None:
        """Commits offsets, (topic, partition) -> offset, in the name of a group. Raises the first refusal.

        Raises `UnknownTopicError` for an offset with the id of a topic that was created again since: then none is committed.
        Raises `NonEmptyGroupError` while the group has members: stop them first.
        """
        member = GroupMetadata(check_group_id(group_id)).to_proto()
        entries, outdated = await offset_entries(self._metadata, offsets, self._context.deadline_ms())
        if outdated:
            raise created_again(*outdated[0], "look where the group should stand in the new one")
        request = co.CommitOffsetsRequest(member=member, offsets=entries)
        reply = await self._caller.to_group_coordinator(group_id, methods.COMMIT_OFFSETS, request, once=True)
        for failed in reply.errors:
            raise from_detail(failed.error)

    async def remove_group_members(
        self, group_id: str, members: Iterable[str] = (), *, instance_ids: Iterable[str] = ()
    ) -> list[str]:
        """Ends memberships in their members' name, at once; returns the ids of those that it ended, in the group's order.

        For members whose process is gone: their partitions do not wait for the end of the session. A process that still runs
        learns it with its next heartbeat, stops reading, and joins again with a new id, so stop it first. Members that are not
        there are left out, so a repeat does nothing. It takes DELETE and DESCRIBE on the group, and stands in the audit log.
        """
        wanted, instances = set(members), set(instance_ids)
        found = (await self.describe_group(group_id)).members
        gone = [m.member_id for m in found if m.member_id in wanted or (m.instance_id and m.instance_id in instances)]
        return [member_id for member_id in gone if await self._remove(group_id, member_id)]

    async def _remove(self, group_id: str, member_id: str) -> bool:
        """False when the member was not there any more."""
        request = co.GroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=_LEAVE, by_operator=True
        )
        try:
            await self._caller.to_group_coordinator(group_id, methods.GROUP_HEARTBEAT, request)
        except (UnknownMemberError, FencedMemberEpochError):
            return False
        return True

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[PartitionId] | None = None) -> int:
        """Forgets committed offsets, None = all of the group; returns how many there were.

        Raises `NonEmptyGroupError` for all of a group with members, and `GroupSubscribedToTopicError` for those that they
        read. Raises `UnstableOffsetCommitError` when an open transaction still holds one of them at the deadline.
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
        item.group_id,
        item.state,
        item.offsets,
        item.open_transactions,
        item.coordinator,
        item.group_shard,
        item.members,
    )


def _member(item: co.GroupMemberInfo) -> GroupMemberDescription:
    return GroupMemberDescription(
        item.member_id,
        item.instance_id,
        item.client_id,
        item.rack,
        item.member_epoch,
        item.state,
        tuple(item.topics),
        item.pattern,
        _partitions(item.assigned),
        _partitions(item.revoking),
        _partitions(item.target),
    )


def _partitions(topics: Iterable[co.AssignedTopic]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(item.topic or item.topic_id, number) for item in topics for number in item.partitions)


def _offset(item: co.GroupOffset) -> GroupOffset:
    entry = item.offset
    return GroupOffset(
        topic=entry.topic,
        topic_id=entry.topic_id,
        partition=entry.partition,
        offset=entry.offset,
        leader_epoch=entry.leader_epoch if entry.epoch_known else -1,
        metadata=entry.metadata,
        committed_ms=item.committed_ms,
        member_id=item.member_id,
    )
