"""The members of all groups of one shard: a pure core of the same shape as `transactions.transaction_table`.

Rule 1: group epoch >= assignment epoch >= member epoch. The group's epoch rises when members, subscriptions or topics
        change; the assignment is computed for it, at most once per `group_assignment_interval_ms`; each member comes to it
        on its own (`reconcile`).
Rule 2: when a member was last heard of is volatile. After a fail-over every session begins again, so a new owner ends no
        membership that its predecessor's clock would not have ended.
Rule 3: a heartbeat that changes nothing is answered without an append, but for one in `group_confirm_ms`: so a deposed owner,
        whose appends are refused, keeps no member for longer than that, which is less than a session.
Rule 4: an assignment is computed only from metadata as new as that of the one before: a new owner of the shard whose view of
        the cluster lags behind takes no topic from its readers.
Rule 5: a partition that comes while a group reads its topic, or with a topic that comes, begins for the group at its first
        record, whatever a client does where there is no offset: none of its records is passed over
        (docs/decisions/0033-topics-that-change.md). Of thousands that come at once only as many as one append takes.
Rule 6: a group is looked at when something of it may have changed with time, and not before: nothing here is asked again and
        again while it waits for something else (an offset that is used, newer topics).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from oncelog.errors import (
    CoordinatorLoadInProgressError,
    PolicyViolationError,
    ResourceExhaustedError,
)
from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Decision, Effect, LogRecord, Note
from oncelog_coordinator.core.groups import assignment, membership
from oncelog_coordinator.core.groups.group import Draft, Group
from oncelog_coordinator.core.groups.group_commands import (
    Assigned,
    Compared,
    Confirmed,
    GroupNews,
    Heard,
    Heartbeat,
    HeartbeatReply,
    LookedAtGroups,
    Membership,
)
from oncelog_coordinator.core.groups.group_records import (
    GroupRecord,
    MemberRecord,
    MembershipRecord,
    decode_membership_record,
    parse_membership_key,
)
from oncelog_coordinator.core.groups.reconcile import Shown, reconciled
from oncelog_coordinator.core.groups.states import MemberState
from oncelog_coordinator.core.groups.subscriptions import Meanings
from oncelog_coordinator.core.groups.timeouts import (
    ended_by_time,
    ends_ms,
    forgotten_by_time,
    looked_at_for_expiry_ms,
    next_due_ms,
)
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.topology import SeeTopics, TopicsSeen, Topology
from oncelog_coordinator.core.transactions.commands import Tick
from oncelog_coordinator.core.transactions.records import Tombstone
from oncelog_coordinator.core.transactions.timeouts import Deadlines

_TICK_BYTES: Final = 1 << 20
"""A `Tick` looks at no further groups once its records are about this large."""
Expire = Callable[[str, int], tuple[LogRecord, ...] | None]
"""`expire(group_id, before_ms)`: the records that remove the group's offsets; None while they have to stay."""
Used = Callable[[str], int | None]
"""`used(group_id)`: when the newest of the group's offsets was committed; None while a transaction holds one."""
Begin = Callable[[str, Mapping[PartitionId, str], int], tuple[LogRecord, ...]]
"""`begin(group_id, partitions, now_ms)`: the records that let the group begin at the first record of these partitions, each
with the name of its topic, where it has no offset."""


def _no_offsets(_group_id: str, _before_ms: int) -> tuple[LogRecord, ...]:
    return ()


def _never_used(_group_id: str) -> int:
    return 0


def _begin_nothing(_group_id: str, _partitions: Mapping[PartitionId, str], _now_ms: int) -> tuple[LogRecord, ...]:
    return ()


class GroupTable:
    """Holds the members of all groups of one shard.

    It has 30 methods: those of every core, one for each command and each kind of record, and questions about groups.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        expire: Expire = _no_offsets,
        used: Used = _never_used,
        begin: Begin = _begin_nothing,
    ) -> None:
        self.limits = limits or Limits()
        self.groups: dict[str, Group] = {}
        self._inhabited: set[str] = set()
        """Groups with members, or with ids of memberships that have ended: what `max_groups` counts."""
        self._expire = expire
        self._used = used
        self._begin = begin
        self._lagging: dict[str, None] = {}
        """Groups that wait until this process has seen topics as new as those of their assignment."""
        self._meanings: Meanings | None = None
        self._deadlines = Deadlines()
        self._confirmed_ms = 0
        self._believes_from_ms = 0

    # ------------------------------------------------------------ reading

    def decide(self, command: Heartbeat | SeeTopics | Tick, now_ms: int) -> Decision:
        """Decides about a command. Raises `OncelogError` to refuse it."""
        if isinstance(command, Heartbeat):
            return self._heartbeat(command, now_ms)
        if isinstance(command, SeeTopics):
            return Decision(notes=(TopicsSeen(command.topology),))
        return self._tick(now_ms)

    def pending(self, now_ms: int) -> tuple[Effect, ...]:
        """Returns no effects: members come by themselves, and a `Tick` ends the sessions of those that do not."""
        del now_ms
        return ()

    def next_deadline_ms(self) -> int | None:
        """Returns the earliest time at which a `Tick` may find something to do; None = never."""
        return self._deadlines.next_ms

    def has_members(self, group_id: str) -> bool:
        """True while the group has members, also static ones that are away."""
        group = self.groups.get(group_id)
        return group is not None and bool(group.members)

    def reads_topic(self, group_id: str, topic_id: str) -> bool:
        """True while a member of the group subscribes to the topic."""
        group = self.groups.get(group_id)
        return group is not None and bool(group.members) and topic_id in group.record.topics

    def view(self, group_id: str) -> Membership:
        """Returns the members as shown to operators."""
        group = self.groups.get(group_id)
        if group is None:
            return Membership()
        members = tuple(sorted(group.members.values(), key=lambda member: member.order))
        return Membership(group.state(), group.record, members)

    # ------------------------------------------------------------ heartbeats

    def _heartbeat(self, command: Heartbeat, now_ms: int) -> Decision:
        if self._meanings is None and (command.epoch == 0 or command.join is not None):
            raise CoordinatorLoadInProgressError("the shard does not know the topics yet", retry_after_ms=100)
        draft = Draft(self._group(command.group_id, command.epoch == 0))
        membership.take(draft, command, now_ms, self.limits)
        notes = self._assigned(draft, now_ms)
        member = draft.find(command.member_id)
        if member is None or member.is_away:
            draft.record = _emptied(draft, now_ms)
            return self._decided(draft, now_ms, HeartbeatReply(command.epoch), notes)
        if command.join is not None:
            self._require_room(draft)
        is_new = command.member_id not in draft.group.members
        shown = Shown(member.epoch if is_new else command.epoch, command.applied if command.epoch > 0 else 0)
        member = reconciled(member, draft.record.assignment_epoch, shown, self._is_free(draft, member))
        draft.put(member)
        notes += (Heard(command.group_id, command.member_id, now_ms),)
        return self._decided(draft, now_ms, self._reply(command, member), notes)

    def _group(self, group_id: str, is_join: bool) -> Group:
        group = self.groups.get(group_id)
        if is_join and group_id not in self._inhabited and len(self._inhabited) >= self.limits.max_groups:
            raise ResourceExhaustedError(
                "too many groups with members in this shard: use fewer group ids, or try again when others have ended",
                limit=self.limits.max_groups,
            )
        return group or Group(GroupRecord(group_id))

    @staticmethod
    def _is_free(draft: Draft, member: MemberRecord) -> Callable[[PartitionId], bool]:
        return lambda partition: draft.owner(partition) in ("", member.member_id)

    @staticmethod
    def _reply(command: Heartbeat, member: MemberRecord) -> HeartbeatReply:
        if command.epoch > 0 and command.received == member.number:
            return HeartbeatReply(member.epoch, member.number, None, is_settled=command.epoch == member.epoch)
        return HeartbeatReply(member.epoch, member.number, tuple(sorted(member.assigned)))

    def _assigned(self, draft: Draft, now_ms: int) -> tuple[Note, ...]:
        """Computes the assignment when it is due; the note says so."""
        if self._meanings is None or not draft.has_members() or self._lags(draft.record, now_ms):
            return ()
        assignment.notice_topics(draft, self._meanings)
        group_id = draft.record.group_id
        if not assignment.is_due(draft, now_ms, self.limits.group_assignment_interval_ms):
            new = draft.group.seen != self._meanings.number and draft.record.epoch == draft.record.assignment_epoch
            return (Compared(group_id),) if new else ()
        assignment.compute(draft, self._meanings)
        if came := assignment.came(draft.group, draft.record.topics, self._meanings):
            names = {topic_id: name for name, topic_id in self._meanings.topology.topic_ids.items()}
            draft.begin(self._begin(group_id, {partition: names[partition.topic_id] for partition in came}, now_ms))
        for member in draft.members():
            if member.is_away:
                draft.put(reconciled(member, draft.record.assignment_epoch, Shown(), lambda _: False))
        return (Assigned(group_id, now_ms),)

    def _lags(self, record: GroupRecord, now_ms: int) -> bool:
        """True while this process knows older topics than the last assignment was made from; not for long (rule 4)."""
        assert self._meanings is not None
        return now_ms < self._believes_from_ms and self._meanings.topology.is_older_than(record.metadata)

    def _require_room(self, draft: Draft) -> None:
        """Raises when the subscribed topics have more partitions than an assignment may have."""
        assert self._meanings is not None
        wanted = sum(self._meanings.partitions_of(draft.members()).values())
        if wanted > self.limits.group_max_partitions:
            raise PolicyViolationError(
                "the group would read too many partitions: subscribe to fewer topics",
                partitions=wanted,
                limit=self.limits.group_max_partitions,
            )

    def _decided(self, draft: Draft, now_ms: int, reply: HeartbeatReply, notes: tuple[Note, ...] = ()) -> Decision:
        records = draft.records()
        confirm = not records and now_ms - self._confirmed_ms >= self.limits.group_confirm_ms
        if confirm or records:
            notes += (Confirmed(now_ms),)
        return Decision(reply=reply, records=records, notes=notes, effects=tuple(_news(draft)), confirm=confirm)

    # ------------------------------------------------------------ time

    def _tick(self, now_ms: int) -> Decision:
        """Looks at the groups that are due; what one append cannot hold waits for the next `Tick`."""
        looked: list[str] = []
        records: list[LogRecord] = []
        notes: list[Note] = []
        effects: list[Effect] = []
        size = 0
        for group_id in self._deadlines.due(now_ms, self.limits.expire_per_tick):
            decision = self._look_at(group_id, now_ms)
            records += decision.records
            notes += decision.notes
            effects += decision.effects
            looked.append(group_id)
            size += sum(map(_bytes, decision.records))
            if size > _TICK_BYTES:
                break
        notes.append(LookedAtGroups(tuple(looked), now_ms))
        return Decision(records=tuple(records), notes=tuple(notes), effects=tuple(effects))

    def _look_at(self, group_id: str, now_ms: int) -> Decision:
        group = self.groups.get(group_id)
        if group is None:
            return Decision()
        draft = Draft(group)
        for member in ended_by_time(group, now_ms, self.limits):
            draft.end(member, now_ms)
            draft.raise_epoch()
        for member in forgotten_by_time(group, now_ms, self.limits):
            draft.forget(member)
        draft.record = _emptied(draft, now_ms)
        gone = self._expired(draft, now_ms)
        if gone is not None:
            return Decision(records=gone)
        notes = self._assigned(draft, now_ms)
        return Decision(records=draft.records(), notes=notes, effects=tuple(_news(draft)))

    def _expired(self, draft: Draft, now_ms: int) -> tuple[LogRecord, ...] | None:
        """Returns the records that remove the group, its ids and its offsets; None while it has to stay."""
        emptied_ms, retention_ms = draft.record.emptied_ms, self.limits.group_retention_ms
        if not emptied_ms or now_ms - emptied_ms < retention_ms:
            return None
        offsets = self._expire(draft.record.group_id, now_ms - retention_ms)
        if offsets is None:
            return None
        group = draft.group
        ids = [Tombstone(member.key) for member in (*group.members.values(), *group.left.values())]
        return (*offsets, *ids, Tombstone(group.record.key))

    # ------------------------------------------------------------ writing

    @staticmethod
    def knows_key(key: str) -> bool:
        """True for the key of a record of this core."""
        return parse_membership_key(key) is not None

    @staticmethod
    def decode(key: str, value: bytes | None) -> MembershipRecord:
        """Decodes a record of the log, for `apply`."""
        return decode_membership_record(key, value)

    def loaded(self, now_ms: int) -> None:
        """Begins every session again when the replay is complete."""
        self._believes_from_ms = now_ms + self.limits.metadata_lag_max_ms
        for group_id, group in self.groups.items():
            for member_id in group.members:
                group.heard(member_id, now_ms)
            self._watch(group_id)

    def apply(self, record: LogRecord | Note) -> None:
        """Applies a record, from `decide` or from the log, or a note."""
        if isinstance(record, GroupRecord):
            self._known(record.group_id).record = record
            self._watch_group(record)
        elif isinstance(record, MemberRecord):
            self._apply_member(record)
        elif isinstance(record, Tombstone):
            self._apply_tombstone(record.key)
        elif isinstance(record, TopicsSeen):
            self._see(record.topology)
        else:
            self._apply_note(record)

    def _apply_note(self, note: LogRecord | Note) -> None:
        if isinstance(note, Heard):
            group = self._known(note.group_id)
            group.heard(note.member_id, note.now_ms)
            if (member := group.members.get(note.member_id)) is not None:
                self._deadlines.watch(note.group_id, ends_ms(group, member, self.limits))
        elif isinstance(note, Assigned):
            assert self._meanings is not None, "an assignment needs topics"
            group = self._known(note.group_id)
            group.assigned_ms, group.seen = note.now_ms, self._meanings.number
        elif isinstance(note, Compared):
            assert self._meanings is not None, "topics were compared with"
            self._known(note.group_id).seen = self._meanings.number
        elif isinstance(note, Confirmed):
            self._confirmed_ms = note.now_ms
        else:
            assert isinstance(note, LookedAtGroups), f"unknown note {note!r}"
            self._deadlines.looked(note.group_ids, note.now_ms)
            for group_id in note.group_ids:
                self._watch(group_id, since_ms=note.now_ms)

    def _apply_member(self, record: MemberRecord) -> None:
        group = self._known(record.group_id)
        group.put(record)
        self._inhabited.add(record.group_id)
        if record.state is MemberState.LEFT:
            crowded = len(group.left) > self.limits.max_left_members
            due_ms = 0 if crowded else record.left_ms + self.limits.group_forget_member_ms
            self._deadlines.watch(record.group_id, due_ms)

    def _apply_tombstone(self, key: str) -> None:
        parsed = parse_membership_key(key)
        assert parsed is not None, f"{key} is another core's"
        slot, group_id = parsed
        group = self._known(group_id)
        group.drop(slot)
        if not group.members and not group.left:
            self._inhabited.discard(group_id)
        if group.is_gone:
            del self.groups[group_id]

    def _see(self, topology: Topology) -> None:
        """Has a `Tick` look at every group that has members, as its topics may have changed. The same topics as of a newer
        revision are news only to groups that wait for it.
        """
        if self._meanings is not None and self._meanings.topology.content == topology.content:
            self._meanings.topology = topology
            looked_at = list(self._lagging)
        else:
            self._meanings = Meanings(topology, self._meanings)
            looked_at = [group_id for group_id, group in self.groups.items() if group.members]
        self._lagging.clear()
        for group_id in looked_at:
            self._deadlines.watch(group_id, 0)

    def _known(self, group_id: str) -> Group:
        return self.groups.setdefault(group_id, Group(GroupRecord(group_id)))

    def _watch(self, group_id: str, since_ms: int = -1) -> None:
        """Notes when to look at the group; after a look at `since_ms` that is not at once."""
        group = self.groups.get(group_id)
        if group is None:
            return
        pause_ms = self.limits.group_assignment_interval_ms
        for due_ms in (
            next_due_ms(group, self.limits),
            self._assignable_ms(group, since_ms),
            looked_at_for_expiry_ms(group.record, self._used(group_id), since_ms, self.limits),
        ):
            if due_ms is not None:
                self._deadlines.watch(group_id, max(due_ms, since_ms + pause_ms) if since_ms >= 0 else due_ms)

    def _assignable_ms(self, group: Group, since_ms: int) -> int | None:
        """Returns when the group may be assigned again; None = when its members or the topics have changed."""
        if self._meanings is None or not group.members:
            return None
        if self._lags(group.record, since_ms):
            self._lagging[group.record.group_id] = None
            return self._believes_from_ms
        if group.record.epoch == group.record.assignment_epoch:
            return None
        return group.assigned_ms + self.limits.group_assignment_interval_ms

    def _watch_group(self, record: GroupRecord) -> None:
        if record.epoch > record.assignment_epoch:
            due_ms = self._known(record.group_id).assigned_ms + self.limits.group_assignment_interval_ms
            self._deadlines.watch(record.group_id, due_ms)
        if record.emptied_ms:
            self._deadlines.watch(record.group_id, record.emptied_ms + self.limits.group_retention_ms)

    # ------------------------------------------------------------ checking

    def check(self) -> None:
        """Asserts every invariant."""
        for group_id, group in self.groups.items():
            assert group.record.group_id == group_id
            group.check()
            assert (group_id in self._inhabited) == bool(group.members or group.left)
        assert self._inhabited <= self.groups.keys()
        if any(group.members for group in self.groups.values()):
            assert self._deadlines.next_ms is not None, "members are there, and no time-out is"


def _bytes(record: LogRecord) -> int:
    """Returns about how many bytes a record has."""
    if not isinstance(record, MemberRecord):
        return 200
    return record.size() + 40 * (len(record.assigned) + len(record.revoking) + len(record.target))


def _emptied(draft: Draft, now_ms: int) -> GroupRecord:
    """Returns the group's record with the time at which the last member left."""
    if draft.record.slots == 0 or any(draft.members()) or draft.record.emptied_ms:
        return draft.record
    return replace(draft.record, emptied_ms=max(now_ms, 1), assignment_epoch=draft.record.epoch, topics={})


def _news(draft: Draft) -> Iterator[GroupNews]:
    """Yields whom the decision concerns, besides the member whose heartbeat it was."""
    group_id = draft.record.group_id
    if draft.record.assignment_epoch != draft.group.record.assignment_epoch:
        yield GroupNews(group_id)
        return
    freed = draft.freed()
    if freed:
        waiting = tuple(m.member_id for m in draft.members() if freed & m.target)
        if waiting:
            yield GroupNews(group_id, waiting)
