"""Drives the members of groups as the shell does: decide, apply, keep the log. Every refusal is checked to leave no trace.

`Groups` is a shard; `Reader` is a client that does what docs/internals/groups.md says, one heartbeat at a time.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from oncelog.errors import OncelogError
from oncelog.types import PartitionId
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.groups.group_commands import Heartbeat, HeartbeatReply, Join
from oncelog_coordinator.core.groups.group_records import Identity, MemberRecord, Subscription
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_commands import CommitOffsets, FetchOffsets, Member
from oncelog_coordinator.core.offsets.offset_records import OffsetValue
from oncelog_coordinator.core.topology import SeeTopics, Topology
from oncelog_coordinator.core.transactions.commands import Tick

GROUP = "g"


def topic_id(name: str) -> str:
    """The id of a topic in these tests."""
    return name.encode().hex().rjust(32, "0")[-32:]


def part(name: str, number: int) -> PartitionId:
    return PartitionId(topic_id(name), number)


def topology(revision: int = 1, restored: int = 0, **topics: int) -> Topology:
    """Topics by name, with their partitions."""
    ids = {name: topic_id(name) for name in topics}
    return Topology((restored, revision), ids, {ids[name]: count for name, count in topics.items()})


class Groups:
    """One shard, its log, and its clock."""

    def __init__(self, limits: Limits | None = None, **topics: int) -> None:
        self.limits = limits or Limits()
        self.now_ms = 1_000_000
        self.log: list[tuple[str, bytes | None]] = []
        self.effects: list[Any] = []
        self.revision = 0
        self.table = self._fresh()
        self.topics = topics or {"t": 4}
        self.see(**self.topics)

    def _fresh(self) -> GroupShardTable:
        table = GroupShardTable(self.limits)
        table.loaded(self.now_ms)
        return table

    def see(self, **topics: int) -> None:
        """The shard sees these topics from now on."""
        self.revision += 1
        self.topics = topics
        self.do(SeeTopics(topology(self.revision, **topics)))

    def do(self, command: Any) -> Any:
        """Runs a command; raises what the table raises, after checking that nothing changed."""
        before = self.state()
        try:
            decision = self.table.decide(command, self.now_ms)
        except OncelogError:
            assert self.state() == before, "a refused command left a trace"
            raise
        assert self.state() == before, "decide wrote something"
        for record in decision.records:
            self.log.append((record.key, record.encode()))
            self.table.apply(record)
        for note in decision.notes:
            self.table.apply(note)
        self.effects += decision.effects
        self.last = decision
        self.table.check()
        return decision.reply

    def state(self) -> Any:
        """Everything that a command could change."""
        held = (self.table.groups.groups, self.table.offsets.groups, self.table.channels.channels)
        return copy.deepcopy(held), self.table.next_deadline_ms()

    def wait(self, ms: int) -> None:
        """Time passes, with a `Tick` whenever one is due."""
        end_ms = self.now_ms + ms
        for _ in range(10_000):
            due_ms = self.table.next_deadline_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.do(Tick())
        self.now_ms = end_ms

    def fail_over(self, *, sees_topics: bool = True) -> None:
        """Another process replays the log: the newest record of each key."""
        newest: dict[str, bytes | None] = {}
        for key, value in self.log:
            newest.pop(key, None)
            newest[key] = value
        durable = self.durable()
        self.table = GroupShardTable(self.limits)
        for key, value in newest.items():
            record = self.table.decode(key, value)
            if record is not None:
                self.table.apply(record)
        self.table.loaded(self.now_ms)
        self.table.check()
        assert self.durable() == durable, "a replay gives what was there"
        if sees_topics:
            self.do(SeeTopics(topology(self.revision, **self.topics)))

    def durable(self) -> dict[str, bytes]:
        """All records of groups with members, by key."""
        found = {}
        for group in self.table.groups.groups.values():
            for record in (group.record, *group.members.values(), *group.left.values()):
                found[record.key] = record.encode()
        return found

    def member(self, member_id: str, group: str = GROUP) -> MemberRecord:
        return self.table.groups.groups[group].members[member_id]

    def owned(self, group: str = GROUP) -> dict[str, set[PartitionId]]:
        """Member id -> what it may read."""
        members = self.table.groups.groups[group].members
        return {member_id: set(member.assigned) for member_id, member in members.items()}


@dataclass
class Reader:
    """A member. `reading` is what it reads now; it lets go at once, unless `holds`."""

    groups: Groups
    member_id: str
    topics: tuple[str, ...] = ("t",)
    pattern: str = ""
    assignor: str = ""
    instance_id: str = ""
    rack: str = ""
    group_id: str = GROUP
    holds: bool = False
    epoch: int = 0
    received: int = 0
    applied: int = 0
    version: int = 1
    reading: set[PartitionId] = field(default_factory=set)

    def join(self, **more: Any) -> HeartbeatReply:
        wants = Subscription(self.version, self.topics, self.pattern, self.assignor, **more)
        self.epoch = self.received = self.applied = 0
        return self.beat(Join(wants, Identity(self.instance_id, self.rack, self.member_id)))

    def beat(self, join: Join | None = None) -> HeartbeatReply:
        """One heartbeat, and what its answer says is done."""
        command = Heartbeat(self.group_id, self.member_id, self.epoch, self.received, self.applied, join)
        reply: HeartbeatReply = self.groups.do(command)
        self.take(reply)
        return reply

    def take(self, reply: HeartbeatReply) -> None:
        self.epoch = reply.epoch
        if reply.assigned is not None:
            self.received = reply.number
            self.wanted = set(reply.assigned)
        if self.received != self.applied and not self.holds:
            self.let_go()

    def let_go(self) -> None:
        self.reading = set(self.wanted)
        self.applied = self.received

    def leave(self, epoch: int = -1) -> None:
        self.groups.do(Heartbeat(self.group_id, self.member_id, epoch))
        self.reading = set()


def settle(groups: Groups, *readers: Reader, rounds: int = 10) -> None:
    """Heartbeats and time, until all members are stable."""
    for _ in range(rounds):
        groups.wait(groups.limits.group_assignment_interval_ms)
        for reader in readers:
            reader.beat()


def value(partition: PartitionId, offset: int) -> OffsetValue:
    return OffsetValue(partition.topic_id, "t", partition.partition, offset)


def commit(reader: Reader, partition: PartitionId, offset: int, epoch: int | None = None) -> None:
    """One offset, by a member in its epoch; raises what is refused."""
    member = Member(GROUP, reader.member_id, reader.epoch if epoch is None else epoch)
    for failed in reader.groups.do(CommitOffsets(member, 0, (value(partition, offset),))):
        raise failed.error


def committed(groups: Groups, partition: PartitionId) -> int:
    (found,) = groups.do(FetchOffsets(GROUP, (partition,)))
    return int(found.offset)


def pair(groups: Groups) -> tuple[Reader, Reader]:
    a, b = Reader(groups, "a"), Reader(groups, "b")
    a.join()
    b.join()
    settle(groups, a, b)
    return a, b
