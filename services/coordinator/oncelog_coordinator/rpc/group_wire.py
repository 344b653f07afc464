"""Converts the messages about members of groups to the values of the core and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from oncelog.errors import InvalidRequestError
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog_coordinator.core.groups.group_commands import Heartbeat, Join, Membership
from oncelog_coordinator.core.groups.group_records import Identity, MemberRecord, Subscription
from oncelog_coordinator.core.groups.membership import AWAY, LEAVE


def heartbeat(request: co.GroupHeartbeatRequest) -> Heartbeat:
    """Returns the command that a heartbeat is. Raises `InvalidRequestError` for an operator that does anything but remove
    the member: the rights of the two differ.
    """
    if request.by_operator and request.member_epoch != LEAVE:
        raise InvalidRequestError("by_operator removes a member, with epoch -1", member_epoch=request.member_epoch)
    return Heartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.assignment_received,
        request.assignment_applied,
        _join(request.subscription) if request.HasField("subscription") else None,
    )


def _join(wants: co.GroupSubscription) -> Join:
    topics = tuple(sorted(set(wants.topics)))
    return Join(
        Subscription(wants.version, topics, wants.pattern, wants.assignor, wants.rebalance_timeout_ms),
        Identity(wants.instance_id, wants.rack, wants.client_id),
    )


def assigned_topics(partitions: Iterable[PartitionId], names: Mapping[str, str]) -> Iterator[co.AssignedTopic]:
    """Yields the partitions by topic, in order. `names`: topic id -> name, for topics that exist."""
    for topic_id, of_topic in groupby(sorted(partitions), key=lambda partition: partition.topic_id):
        numbers = [partition.partition for partition in of_topic]
        yield co.AssignedTopic(topic_id=topic_id, topic=names.get(topic_id, ""), partitions=numbers)


def describe(reply: co.DescribeGroupReply, membership: Membership, names: Mapping[str, str]) -> None:
    """Adds the members to the description of a group."""
    reply.group_epoch = membership.record.epoch
    reply.assignment_epoch = membership.record.assignment_epoch
    reply.assignor = membership.record.assignor
    reply.expires_ms = membership.expires_ms
    reply.members.extend(_member_info(member, names) for member in membership.members)


def _member_info(member: MemberRecord, names: Mapping[str, str]) -> co.GroupMemberInfo:
    return co.GroupMemberInfo(
        member_id=member.member_id,
        instance_id=member.identity.instance_id,
        client_id=member.identity.client_id,
        rack=member.identity.rack,
        member_epoch=AWAY if member.is_away else member.epoch,
        state=member.state.value,
        topics=member.subscription.topics,
        pattern=member.subscription.pattern,
        assigned=assigned_topics(member.assigned, names),
        revoking=assigned_topics(member.revoking, names),
        target=assigned_topics(member.target, names),
    )
