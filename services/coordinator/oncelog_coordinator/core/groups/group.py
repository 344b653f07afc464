"""One group in memory: its records, who owns which partition, and what is known of time.

Rule 1: only `apply` and the notes change a group. A decision works on a `Draft`, which reads through to the group and
        keeps its own changes, so a refused command leaves no trace.
Rule 2: `owners` follows from the records of the members; `check` compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import LogRecord
from oncelog_coordinator.core.groups.group_records import GroupRecord, MemberRecord
from oncelog_coordinator.core.groups.states import GroupState, MemberState, is_legal
from oncelog_coordinator.core.transactions.records import Tombstone


@dataclass(slots=True)
class Group:
    """`members` are the memberships that go on, `left` those that have ended; the rest after `owners` is volatile."""

    record: GroupRecord
    members: dict[str, MemberRecord] = field(default_factory=dict)
    left: dict[str, MemberRecord] = field(default_factory=dict)
    by_slot: dict[int, str] = field(default_factory=dict)
    owners: dict[PartitionId, str] = field(default_factory=dict)
    heard_ms: dict[str, int] = field(default_factory=dict)
    revoking_since_ms: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Member -> (number of the assignment that takes partitions from it, since when it has to let them go)."""
    assigned_ms: int = 0
    seen: int = 0
    """The number of the topics (`Meanings.number`) that `record.topics` was last compared with; 0 = of none."""

    @property
    def is_gone(self) -> bool:
        """True when nothing of the group is left."""
        return not self.members and not self.left and self.record.slots == 0

    def state(self) -> GroupState:
        """Returns the state that operators see."""
        if not self.members:
            return GroupState.EMPTY
        if self.record.epoch > self.record.assignment_epoch:
            return GroupState.ASSIGNING
        settled = all(
            member.is_away or (member.state is MemberState.STABLE and member.epoch == self.record.assignment_epoch)
            for member in self.members.values()
        )
        return GroupState.STABLE if settled else GroupState.RECONCILING

    # ------------------------------------------------------------ the only writers

    def put(self, member: MemberRecord) -> None:
        """Applies the record of a membership."""
        self.by_slot[member.slot] = member.member_id
        self._disown(self.members.get(member.member_id))
        if member.state is MemberState.LEFT:
            self.members.pop(member.member_id, None)
            self.left[member.member_id] = member
            self._forget_times(member.member_id)
            return
        self.members[member.member_id] = member
        if member.state is not MemberState.UNREVOKED:
            self.revoking_since_ms.pop(member.member_id, None)
        for partition in member.owned():
            self.owners[partition] = member.member_id

    def drop(self, slot: int) -> None:
        """Applies the tombstone of a slot; slot 0 is the group's own record."""
        if slot == 0:
            self.record = GroupRecord(self.record.group_id)
            return
        member_id = self.by_slot.pop(slot, "")
        self._disown(self.members.pop(member_id, None))
        self.left.pop(member_id, None)
        self._forget_times(member_id)

    def _disown(self, member: MemberRecord | None) -> None:
        if member is not None:
            for partition in member.owned():
                if self.owners.get(partition) == member.member_id:
                    del self.owners[partition]

    def _forget_times(self, member_id: str) -> None:
        self.heard_ms.pop(member_id, None)
        self.revoking_since_ms.pop(member_id, None)

    def heard(self, member_id: str, now_ms: int) -> None:
        """Notes a sign of life, and since when the member has to let partitions go."""
        member = self.members.get(member_id)
        if member is None:
            return
        self.heard_ms[member_id] = now_ms
        if member.state is MemberState.UNREVOKED:
            number, since_ms = self.revoking_since_ms.get(member_id, (0, now_ms))
            self.revoking_since_ms[member_id] = (member.number, since_ms if number == member.number else now_ms)

    # ------------------------------------------------------------ checking

    def check(self) -> None:
        """Asserts every invariant."""
        assert self.record.epoch >= self.record.assignment_epoch, "an assignment is of an epoch that there was"
        owners: dict[PartitionId, str] = {}
        for member_id, member in self.members.items():
            assert member.member_id == member_id
            assert 0 < member.slot <= self.record.slots
            assert member.epoch <= self.record.assignment_epoch, "no member is ahead of the assignment"
            assert bool(member.revoking) == (member.state is MemberState.UNREVOKED)
            for partition in member.owned():
                assert partition not in owners, f"{partition} has two owners"
                owners[partition] = member_id
                epoch = member.assigned.get(partition, member.revoking.get(partition, 0))
                assert epoch <= member.epoch, "a partition was given in an epoch that the member has reached"
            if member.state is MemberState.STABLE and member.epoch == self.record.assignment_epoch:
                assert member.assigned.keys() == member.target, "a member that is stable owns its target"
        assert owners == self.owners, "the owners are those of the records"
        assert not self.members.keys() & self.left.keys()
        self._check_targets()

    def _check_targets(self) -> None:
        seen: set[PartitionId] = set()
        for member in self.members.values():
            assert not seen & member.target, "a partition is the target of one member"
            seen |= member.target
        if self.members and self.record.epoch == self.record.assignment_epoch:
            wanted = sum(self.record.topics.values())
            assert len(seen) == wanted, "every partition of a subscribed topic is the target of a member"


class Draft:
    """The changes of one decision about a group."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.record = group.record
        self._changed: dict[str, MemberRecord] = {}
        self._forgotten: list[MemberRecord] = []
        self._begun: tuple[LogRecord, ...] = ()

    # ------------------------------------------------------------ reading

    def find(self, member_id: str) -> MemberRecord | None:
        """Returns a membership that goes on."""
        member = self._changed.get(member_id) or self.group.members.get(member_id)
        return member if member is not None and member.state is not MemberState.LEFT else None

    def members(self) -> Iterator[MemberRecord]:
        """Yields every membership that goes on, in the order of the slots."""
        ids = {**self.group.members, **self._changed}
        found = [member for member_id in ids if (member := self.find(member_id)) is not None]
        yield from sorted(found, key=lambda member: member.slot)

    def has_members(self) -> bool:
        """True when at least one membership goes on."""
        return bool(self.group.members) if not self._changed else any(self.members())

    def owner(self, partition: PartitionId) -> str:
        """Returns the member that has the partition, assigned or still to be let go; empty = it is free."""
        for member in self._changed.values():
            if member.state is not MemberState.LEFT and (partition in member.assigned or partition in member.revoking):
                return member.member_id
        owner = self.group.owners.get(partition, "")
        return "" if owner in self._changed else owner

    # ------------------------------------------------------------ writing

    def put(self, member: MemberRecord) -> None:
        """Changes a membership, or begins one. Asserts that the step is legal."""
        before = self.find(member.member_id)
        if member == before:
            return
        assert before is None or is_legal(before.state, member.state), f"{before} -> {member.state}"
        self._changed[member.member_id] = member

    def end(self, member: MemberRecord, now_ms: int) -> None:
        """Ends a membership: its id is kept, its partitions are free."""
        ended = MemberRecord(member.group_id, member.member_id, member.slot, member.identity)
        self.put(replace(ended, state=MemberState.LEFT, left_ms=max(now_ms, 1)))

    def forget(self, member: MemberRecord) -> None:
        """Removes the id of a membership that ended long ago."""
        self._forgotten.append(member)

    def begin(self, offsets: tuple[LogRecord, ...]) -> None:
        """Has these records about offsets logged together with the group's."""
        self._begun = offsets

    def raise_epoch(self) -> None:
        """The members, or what they want to read, are others now. Once per decision is enough."""
        if self.record.epoch == self.group.record.epoch:
            self.record = replace(self.record, epoch=self.record.epoch + 1)

    # ------------------------------------------------------------ the decision

    def changed(self) -> Iterable[MemberRecord]:
        """Returns the memberships that are others than before."""
        return self._changed.values()

    def freed(self) -> set[PartitionId]:
        """Returns the partitions that had an owner, and have none now."""
        gone: set[PartitionId] = set()
        for member_id, member in self._changed.items():
            before = self.group.members.get(member_id)
            if before is not None:
                gone |= set(before.owned()) - (set() if member.state is MemberState.LEFT else set(member.owned()))
        return {partition for partition in gone if not self.owner(partition)}

    def records(self) -> tuple[LogRecord, ...]:
        """Returns what has to be logged."""
        found: list[LogRecord] = [] if self.record == self.group.record else [self.record]
        found += self._changed.values()
        found += [Tombstone(member.key) for member in self._forgotten]
        return (*found, *self._begun)
