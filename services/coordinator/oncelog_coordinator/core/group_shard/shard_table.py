"""The core of a group shard: the members of its groups, their committed offsets, and what is remembered of channels, with one
log and one clock.

Rule 1: while a group has members, only its members commit, each for the partitions that it owns. Without members the group
        is a simple one, and the last commit counts.
Rule 2: offsets are not deleted under members that read them.
Rule 3: a group that had members and has none is removed with its offsets after `group_retention_ms`, unless an offset was
        committed since or an open transaction holds one. Old offsets of topics that are gone go as well (`GoneTopics`).
Rule 4: a marker settles the offsets and the acknowledgements of its group in one decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oncelog.errors import GroupSubscribedToTopicError, NonEmptyGroupError
from oncelog.types import PartitionId
from oncelog_coordinator.core.channels.channel_commands import (
    ChannelsSeen,
    LookedAtChannels,
    OpenChannelPartition,
    SeeChannels,
    SendChannelAcks,
    WriteChannelState,
)
from oncelog_coordinator.core.channels.channel_records import (
    ChannelHead,
    ChannelLogRecord,
    PendingAcks,
    RetriedBlock,
    SettledBlock,
)
from oncelog_coordinator.core.channels.channel_table import ChannelTable
from oncelog_coordinator.core.decision import Command, Decision, Effect, LogRecord, Note
from oncelog_coordinator.core.group_shard.group_views import DescribeGroup, ListGroups, described, listed
from oncelog_coordinator.core.group_shard.member_fences import MemberFences
from oncelog_coordinator.core.groups.group_commands import (
    Assigned,
    Compared,
    Confirmed,
    Heard,
    Heartbeat,
    LookedAtGroups,
)
from oncelog_coordinator.core.groups.group_records import GroupRecord, MemberRecord, MembershipRecord
from oncelog_coordinator.core.groups.group_table import GroupTable
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_commands import DeleteOffsets, GroupMarker
from oncelog_coordinator.core.offsets.offset_records import GroupLogRecord
from oncelog_coordinator.core.offsets.offset_table import OffsetTable
from oncelog_coordinator.core.topology import SeeTopics, TopicsSeen
from oncelog_coordinator.core.transactions.commands import Tick
from oncelog_coordinator.core.transactions.records import Tombstone

_MEMBERSHIP = (GroupRecord, MemberRecord, TopicsSeen, Heard, Assigned, Compared, Confirmed, LookedAtGroups)
_CHANNELS = (ChannelHead, SettledBlock, RetriedBlock, PendingAcks, ChannelsSeen, LookedAtChannels)


class GroupShardTable:
    """Holds all groups of one shard."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.groups = GroupTable(self.limits, self._expire, self._used, self._begin)
        self.offsets = OffsetTable(self.limits, MemberFences(self.groups.groups))
        self.channels = ChannelTable(self.limits, self.offsets)

    # ------------------------------------------------------------ reading

    def decide(self, command: Command[object], now_ms: int) -> Decision:
        """Decides about a command. Raises `OncelogError` to refuse it."""
        if isinstance(command, Heartbeat | SeeTopics):
            return self.groups.decide(command, now_ms)
        if isinstance(command, OpenChannelPartition | WriteChannelState | SendChannelAcks | SeeChannels):
            return self.channels.decide(command, now_ms)
        if isinstance(command, GroupMarker):
            return self._marker(command, now_ms)
        if isinstance(command, Tick):
            return self._tick(command, now_ms)
        if isinstance(command, ListGroups):
            return Decision(reply=listed(self.groups, self.offsets))
        if isinstance(command, DescribeGroup):
            view = described(command.group_id, self.groups, self.offsets, self.limits)
            return Decision(reply=view, confirm=True)
        if isinstance(command, DeleteOffsets):
            self._require_deletable(command)
        return self.offsets.decide(command, now_ms)

    def pending(self, now_ms: int) -> tuple[Effect, ...]:
        """Returns the effects to resume after a replay."""
        return (*self.offsets.pending(now_ms), *self.groups.pending(now_ms))

    def next_deadline_ms(self) -> int | None:
        """Returns the earliest time at which a `Tick` may find something to do; None = never."""
        due = (self.offsets.next_deadline_ms(), self.groups.next_deadline_ms(), self.channels.next_deadline_ms())
        return min((one for one in due if one is not None), default=None)

    def _tick(self, command: Tick, now_ms: int) -> Decision:
        parts = [core.decide(command, now_ms) for core in (self.offsets, self.groups, self.channels)]
        return Decision(
            records=tuple(record for part in parts for record in part.records),
            notes=tuple(note for part in parts for note in part.notes),
            effects=tuple(effect for part in parts for effect in part.effects),
        )

    def _marker(self, command: GroupMarker, now_ms: int) -> Decision:
        decision = self.offsets.decide(command, now_ms)  # refuses a deposed owner of the transaction shard
        return replace(decision, records=(*self.channels.marked(command), *decision.records))

    def _require_deletable(self, command: DeleteOffsets) -> None:
        if not self.groups.has_members(command.group_id):
            return
        if command.partitions is None:
            raise NonEmptyGroupError(
                "the group has members that read on from these offsets: stop them first", group=command.group_id
            )
        for partition in command.partitions:
            if self.groups.reads_topic(command.group_id, partition.topic_id):
                raise GroupSubscribedToTopicError(
                    "members of the group read this topic: stop them first, or have them subscribe to others",
                    group=command.group_id,
                    topic_id=partition.topic_id,
                )

    def _expire(self, group_id: str, before_ms: int) -> tuple[LogRecord, ...] | None:
        return self.offsets.expiry_of(group_id, before_ms)

    def _used(self, group_id: str) -> int | None:
        return self.offsets.used_ms(group_id)

    def _begin(self, group_id: str, partitions: Mapping[PartitionId, str], now_ms: int) -> tuple[LogRecord, ...]:
        return self.offsets.begun(group_id, partitions, now_ms)

    # ------------------------------------------------------------ writing

    def decode(self, key: str, value: bytes | None) -> GroupLogRecord | MembershipRecord | ChannelLogRecord:
        """Decodes a record of the log, for `apply`."""
        if self.channels.knows_key(key):
            return self.channels.decode(key, value)
        return self.groups.decode(key, value) if self.groups.knows_key(key) else self.offsets.decode(key, value)

    def loaded(self, now_ms: int) -> None:
        """Sets the deadlines when the replay is complete."""
        self.channels.loaded()
        self.offsets.loaded(now_ms)
        self.groups.loaded(now_ms)

    def apply(self, record: LogRecord | Note) -> None:
        """Applies a record, from `decide` or from the log, or a note."""
        if isinstance(record, _CHANNELS) or (isinstance(record, Tombstone) and self.channels.knows_key(record.key)):
            self.channels.apply(record)
            return
        of_groups = isinstance(record, _MEMBERSHIP) or (
            isinstance(record, Tombstone) and self.groups.knows_key(record.key)
        )
        if of_groups:
            self.groups.apply(record)
        if not of_groups or isinstance(record, TopicsSeen):
            self.offsets.apply(record)

    def check(self) -> None:
        """Asserts every invariant."""
        self.offsets.check()
        self.groups.check()
        self.channels.check()
