"""Members of a group in a whole cluster: they join late, freeze, leave and come back while coordinators die.

Each member does what docs/internals/groups.md says of a client. It reads nothing; it counts on from the committed offset of
each partition that it owns, and commits.

Rule 1: two members never read one partition at once, unless one of them was frozen for longer than its session.
Rule 2: a committed offset never goes back: a commit that was answered is what the next owner finds, or something newer.
Rule 3: nobody starves: some time after the last fault every partition has a reader, and the members are stable.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from tests.simulation.cluster import SimCluster

GROUP: Final = "members"
SESSION_MS: Final = 6_000
_INTERVAL_MS: Final = 500
_CALL_MS: Final = 2_000
_CALM_MS: Final = 25_000
_FROZEN_S: Final = (0.5, 9.0, 15.0)
_FREEZES: Final = 0.06
_LEAVES: Final = 0.04
"""Shares of all rounds of a member."""
OPTIONS: Final = {"group_session_timeout_ms": SESSION_MS, "group_heartbeat_interval_ms": _INTERVAL_MS}
_FENCED: Final = (errors.FencedMemberEpochError, errors.UnknownMemberError)
Partition = tuple[str, int]


@dataclass
class Shared:
    """What all members see of each other, and what went wrong. `problems` grows."""

    cluster: SimCluster
    topics: tuple[str, ...]
    partitions: set[Partition] = field(default_factory=set)
    readers: dict[Partition, SimMember] = field(default_factory=dict)
    answered: dict[Partition, int] = field(default_factory=dict)
    """Partition -> the highest offset whose commit was answered."""
    problems: list[str] = field(default_factory=list)
    joins: int = 0
    moves: int = 0
    commits: int = 0
    fenced: int = 0
    calm: bool = False
    farewell: bool = False
    """One member leaves for good."""

    def now_ms(self) -> int:
        """Virtual milliseconds."""
        return int(self.cluster.world.loop.time() * 1000)

    def begin(self, partition: Partition, member: SimMember) -> None:
        """A member begins to read (rule 1)."""
        other = self.readers.get(partition)
        if other is not None and other is not member and self.now_ms() < other.sent_ms + SESSION_MS:
            self.problems.append(f"read-twice: {partition} by {other.member_id} and {member.member_id}")
        self.readers[partition] = member
        self.moves += 1

    def end(self, partition: Partition, member: SimMember) -> None:
        """A member stops reading."""
        if self.readers.get(partition) is member:
            del self.readers[partition]

    def found(self, partition: Partition, offset: int) -> None:
        """A new owner found this committed offset (rule 2)."""
        if offset < self.answered.get(partition, 0):
            self.problems.append(f"offset-went-back: {partition} to {offset}, {self.answered[partition]} was answered")

    def committed(self, partition: Partition, offset: int) -> None:
        """A commit was answered (rule 2)."""
        self.commits += 1
        if offset < self.answered.get(partition, 0):
            self.problems.append(f"late-commit: {partition} at {offset}, {self.answered[partition]} was answered")
        self.answered[partition] = max(offset, self.answered.get(partition, 0))


class SimMember:
    """One client, with one membership after the other."""

    def __init__(self, shared: Shared, client: Client, name: str, random: Random) -> None:
        self._shared = shared
        self._client = client
        self._name = name
        self._retires = name == "m0"
        self._random = random
        self.member_id = ""
        self.sent_ms = 0
        """When the last heartbeat that was answered was sent: the session counts from then at the latest."""
        self._epoch = self._received = self._applied = 0
        self._topics: dict[Partition, str] = {}
        self._wanted: dict[Partition, str] = {}
        self._position: dict[Partition, int] = {}
        self._sequence = 0

    async def main(self) -> None:
        """Joins, works for a while, leaves or is frozen, and so on; on and on when all is calm."""
        await asyncio.sleep(self._random.random() * 3)
        while not self._has_to_go():
            try:
                await self._live()
            except _FENCED:
                self._shared.fenced += 1
                self._lose()
                await self._leave()
            except errors.OncelogError:
                self._expire()
                await asyncio.sleep(0.1)

    async def _live(self) -> None:
        """One membership."""
        await self._join()
        while True:
            await self._beat()
            chance = self._chance()
            if chance < _FREEZES:
                await asyncio.sleep(self._random.choice(_FROZEN_S))  # frozen; it goes on as if nothing had been
            await self._commit()
            if chance > 1 - _LEAVES:
                self._lose()
                await self._leave()
                await asyncio.sleep(self._random.random() * 4)
                return

    def _chance(self) -> float:
        """When all is calm nothing happens any more, but that one member leaves for good."""
        if not self._shared.calm:
            return self._random.random()
        return 1.0 if self._has_to_go() else 0.5

    def _has_to_go(self) -> bool:
        return self._retires and self._shared.farewell

    # ------------------------------------------------------------ heartbeats

    async def _join(self) -> None:
        self._shared.joins += 1
        self.member_id = f"{self._name}-{self._random.getrandbits(32):08x}"
        self._epoch = self._received = self._applied = self._sequence = 0
        await self._retried()

    async def _beat(self) -> None:
        await self._retried()
        self._apply()
        await self._fetch()

    async def _retried(self) -> None:
        """One heartbeat until it is answered. Raises what fences the member; gives up what it reads with its session."""
        while True:
            sent_ms = self._shared.now_ms()
            try:
                reply: Any = await self._call(methods.GROUP_HEARTBEAT, self._heartbeat())
            except errors.OncelogError as error:
                if not error.retriable:
                    raise
                self._expire()
                await asyncio.sleep(0.05)
                continue
            self.sent_ms = sent_ms
            self._epoch = reply.member_epoch
            if reply.HasField("assignment"):
                self._received = reply.assignment.number
                self._wanted = {(t.topic, n): t.topic_id for t in reply.assignment.topics for n in t.partitions}
            return

    def _heartbeat(self) -> co.GroupHeartbeatRequest:
        request = co.GroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self._epoch,
            assignment_received=self._received,
            assignment_applied=self._applied,
            max_wait_ms=_INTERVAL_MS,
        )
        if self._epoch == 0:
            request.subscription.CopyFrom(co.GroupSubscription(version=1, topics=self._shared.topics))
        return request

    async def _call(self, spec: Any, request: Any) -> Any:
        return await self._client._caller.to_group_coordinator(GROUP, spec, request, _CALL_MS)

    async def _leave(self) -> None:
        request = co.GroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=-1)
        try:
            await self._call(methods.GROUP_HEARTBEAT, request)
        except errors.OncelogError:
            return  # its session ends by itself

    # ------------------------------------------------------------ partitions

    def _apply(self) -> None:
        """Lets go of what is not assigned any more, and says so with the next heartbeat."""
        for partition in [one for one in self._position if one not in self._wanted]:
            self._stop(partition)
        self._applied = self._received

    async def _fetch(self) -> None:
        """Begins to read what is new, from its committed offset."""
        new = [partition for partition in sorted(self._wanted) if partition not in self._position]
        if not new:
            return
        try:
            reply = await self._call(methods.FETCH_OFFSETS, co.FetchOffsetsRequest(group_id=GROUP))
        except errors.OncelogError:
            return  # with the next heartbeat
        found = {(item.topic, item.partition): int(item.offset) for item in reply.offsets}
        if self._shared.now_ms() >= self.sent_ms + SESSION_MS:
            return
        for partition in new:
            offset = found.get(partition, 0)
            self._shared.found(partition, offset)
            self._shared.begin(partition, self)
            self._position[partition] = offset

    async def _commit(self) -> None:
        if not self._position:
            return
        ahead = {partition: offset + 1 for partition, offset in self._position.items()}
        self._sequence += 1
        request = co.CommitOffsetsRequest(
            member=co.GroupMember(group_id=GROUP, member_id=self.member_id, member_epoch=self._epoch),
            commit_sequence=self._sequence,
            offsets=[
                co.OffsetEntry(topic_id=self._wanted[p], topic=p[0], partition=p[1], offset=offset, leader_epoch=-1)
                for p, offset in ahead.items()
            ],
        )
        self._position.update(ahead)
        try:
            reply = await self._call(methods.COMMIT_OFFSETS, request)
        except errors.OncelogError as error:
            if isinstance(error, _FENCED):
                raise
            return
        failed = {(item.partition.topic, item.partition.partition) for item in reply.errors}
        for partition, offset in ahead.items():
            if partition not in failed:
                self._shared.committed(partition, offset)

    def _stop(self, partition: Partition) -> None:
        del self._position[partition]
        self._shared.end(partition, self)

    def _lose(self) -> None:
        self._wanted = {}
        for partition in list(self._position):
            self._stop(partition)

    def _expire(self) -> None:
        if self._shared.now_ms() >= self.sent_ms + SESSION_MS:
            for partition in list(self._position):
                self._stop(partition)


class MembershipWork:
    """A group of members over some topics. `shared` says what was seen."""

    def __init__(self, cluster: SimCluster, topics: dict[str, int]) -> None:
        self.shared = Shared(cluster, tuple(sorted(topics)))
        self.shared.partitions = {(topic, number) for topic, count in topics.items() for number in range(count)}
        self._cluster = cluster

    async def run(self, members: int, work_s: float, disturb: Any) -> None:
        """Lets members work while `disturb()` goes on, then waits until all is calm (rule 3)."""
        async with self._cluster.client("members") as client:
            running = [
                self._cluster.world.spawn(
                    SimMember(self.shared, client, f"m{at}", self._cluster.world.random(f"member-{at}")).main()
                )
                for at in range(members)
            ]
            disturbing = self._cluster.world.spawn(disturb())
            await asyncio.sleep(work_s)
            disturbing.cancel()
            await asyncio.gather(disturbing, return_exceptions=True)
            self.shared.calm = True
            await self._cluster.healthy()
            await asyncio.sleep(max(_FROZEN_S))
            await self._judge()
            self.shared.farewell = True
            await asyncio.sleep(2 * _INTERVAL_MS / 1000)
            await self._judge()
            for task in running:
                task.cancel()
            ended = await asyncio.gather(*running, return_exceptions=True)
            self.shared.problems += [repr(one) for one in ended if isinstance(one, Exception)]

    async def _judge(self) -> None:
        missing: set[Partition] = set()
        for _ in range(_CALM_MS // 500):
            missing = self.shared.partitions - set(self.shared.readers)
            if not missing:
                return
            await asyncio.sleep(0.5)
        self.shared.problems.append(f"starved: nobody reads {sorted(missing)}")
