"""Computes the assignment of a group, for the epoch that its members and topics have come to.

Rule: it changes targets only. Who owns what changes with the heartbeats of the members (`reconcile`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oncelog.types import PartitionId
from oncelog_coordinator.core.groups.assigning.assignors import assign, preferred
from oncelog_coordinator.core.groups.assigning.sticky import Subscriber, Where
from oncelog_coordinator.core.groups.group import Draft, Group
from oncelog_coordinator.core.groups.subscriptions import Meanings


def notice_topics(draft: Draft, meanings: Meanings) -> None:
    """Raises the epoch when the topics that the members mean have changed since the last assignment."""
    if draft.group.seen == meanings.number or draft.record.epoch > draft.record.assignment_epoch:
        return  # nothing new, or the assignment that is due takes the new topics anyway
    if meanings.partitions_of(draft.members()) != draft.record.topics:
        draft.raise_epoch()


def came(group: Group, topics: Mapping[str, int], meanings: Meanings) -> list[PartitionId]:
    """Returns the partitions of these topics that are new in the cluster since the group was assigned before, as far as is
    known: nothing is known of new topics when this process has not assigned it before, and none is new to a group without
    members.
    """
    if not group.members:
        return []
    known = {
        topic_id: group.record.topics.get(topic_id, 0 if 0 < group.seen < meanings.since[topic_id] else count)
        for topic_id, count in topics.items()
    }
    return [
        PartitionId(topic_id, number) for topic_id, count in topics.items() for number in range(known[topic_id], count)
    ]


def is_due(draft: Draft, now_ms: int, interval_ms: int) -> bool:
    """True when the assignment is of an older epoch, and the last one was computed long enough ago."""
    record = draft.record
    if record.epoch == record.assignment_epoch:
        return False
    return record.assignment_epoch == 0 or now_ms - draft.group.assigned_ms >= interval_ms


def compute(draft: Draft, meanings: Meanings) -> None:
    """Gives every member its target."""
    members = list(draft.members())
    topics = meanings.partitions_of(members)
    assignor = preferred(member.subscription.assignor for member in members)
    subscribers = [
        Subscriber(
            member.member_id,
            member.order,
            meanings.topics_of(member.subscription),
            member.identity.rack,
            member.target,
        )
        for member in members
    ]
    targets = assign(assignor, subscribers, Where(topics, meanings.topology.racks))
    for member in members:
        draft.put(replace(member, target=targets[member.member_id]))
    draft.record = replace(
        draft.record,
        assignment_epoch=draft.record.epoch,
        assignor=assignor,
        topics=topics,
        metadata=meanings.topology.metadata,
    )
