"""The members of a shard's groups: epochs, fences of commits, news, and a fail-over that nobody notices."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog import errors
from oncelog.types import PartitionId
from oncelog_coordinator.core.groups.group_commands import GroupNews, Heartbeat, Join
from oncelog_coordinator.core.groups.group_records import Subscription
from oncelog_coordinator.core.groups.states import GroupState
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_commands import CommitOffsets, Member
from tests.unit.coordinator.group_driver import GROUP, Groups, Reader, commit, committed, pair, part, settle, value

ALL = {part("t", number) for number in range(4)}


# ---------------------------------------------------------------- news and proofs of ownership


def test_the_answer_to_an_idle_heartbeat_costs_an_append_now_and_then() -> None:
    groups = Groups()
    a, _ = pair(groups)
    confirms = 0
    for _ in range(20):
        groups.wait(500)
        a.beat()
        assert not groups.last.records
        confirms += groups.last.confirm
    assert 4 <= confirms <= 6


def test_members_that_wait_are_told_of_an_assignment_and_of_what_was_let_go() -> None:
    groups = Groups()
    a, b = Reader(groups, "a", holds=True), Reader(groups, "b")
    a.join()
    groups.wait(1_000)
    groups.effects.clear()
    b.join()
    assert groups.effects == [GroupNews(GROUP)]
    a.beat()
    a.let_go()
    groups.effects.clear()
    a.beat()
    assert groups.effects == [GroupNews(GROUP, ("b",))]
    settle(groups, a, b)
    groups.effects.clear()
    assert b.beat().is_settled
    assert not groups.effects


def test_a_shard_has_a_bound_of_groups() -> None:
    groups = Groups(Limits(max_groups=1))
    Reader(groups, "a").join()
    with pytest.raises(errors.ResourceExhaustedError):
        Reader(groups, "a", group_id="other").join()


def test_a_group_without_members_counts_for_the_bound_until_their_ids_are_forgotten() -> None:
    groups = Groups(Limits(max_groups=1))
    groups.do(CommitOffsets(Member("simple"), 0, (value(part("t", 0), 1),)))
    a, other = Reader(groups, "a"), Reader(groups, "a", group_id="other")
    a.join()
    commit(a, part("t", 0), 1)
    a.leave()
    with pytest.raises(errors.ResourceExhaustedError):
        other.join()
    groups.wait(groups.limits.group_forget_member_ms + 1_000)
    assert committed(groups, part("t", 0)) == 1, "the group is there, with nothing but what was committed"
    groups.fail_over()
    other.join()
    with pytest.raises(errors.ResourceExhaustedError):
        Reader(groups, "b").join()
    Reader(groups, "b", group_id="other").join()


def test_a_group_that_fails_over_goes_on_in_every_state() -> None:
    groups = Groups()
    a, b = Reader(groups, "a", holds=True), Reader(groups, "b")
    a.join()
    groups.wait(1_000)
    groups.fail_over()
    b.join()
    groups.fail_over()
    a.beat()
    groups.fail_over()
    assert b.reading == set()
    a.let_go()
    groups.fail_over()
    a.beat()
    groups.fail_over()
    b.beat()
    assert a.reading | b.reading == ALL
    assert not a.reading & b.reading


# ---------------------------------------------------------------- whatever happens


class World:
    """Members that come, freeze and go, in any order, with a shard that fails over."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.groups = Groups(t=self.random.randint(1, 6), u=self.random.randint(1, 4))
        self.readers: dict[str, Reader] = {}
        self.made = 0
        self.offsets: dict[PartitionId, int] = {}
        self.epochs: dict[tuple[PartitionId, int], str] = {}

    def step(self) -> None:
        """One event, and what must hold after it."""
        choices = [
            self.join,
            self.beat,
            self.beat,
            self.beat,
            self.commit,
            self.leave,
            self.wait,
            self.fail_over,
            self.change,
        ]
        self.random.choice(choices)()
        for member_id, member in self.groups.table.groups.groups[GROUP].members.items() if self.made else ():
            for partition, epoch in member.assigned.items():
                assert self.epochs.setdefault((partition, epoch), member_id) == member_id or member.identity.instance_id
        readers = [reader for reader in self.readers.values() if reader.member_id in self.alive()]
        read = [partition for reader in readers for partition in reader.reading]
        assert len(read) == len(set(read)), "a partition is read twice"

    def alive(self) -> set[str]:
        groups = self.groups.table.groups.groups
        return set(groups[GROUP].members) if GROUP in groups else set()

    def some(self) -> Reader | None:
        return self.random.choice(list(self.readers.values())) if self.readers else None

    def join(self) -> None:
        if len(self.readers) < 5:
            self.made += 1
            name = f"m{self.made}"
            topics = self.random.choice([("t",), ("u",), ("t", "u")])
            reader = Reader(self.groups, name, topics, holds=self.random.random() < 0.5)
            self.readers[name] = reader
            reader.join(rebalance_timeout_ms=self.random.choice([0, 10_000]))

    def beat(self) -> None:
        reader = self.some()
        if reader is None:
            return
        try:
            if reader.holds and self.random.random() < 0.5 and reader.received != reader.applied:
                reader.let_go()
            reader.beat()
        except (errors.FencedMemberEpochError, errors.UnknownMemberError):
            del self.readers[reader.member_id]

    def commit(self) -> None:
        reader = self.some()
        if reader is None or not reader.reading:
            return
        partition = self.random.choice(sorted(reader.reading))
        offset = self.offsets.get(partition, 0) + 1
        try:
            commit(reader, partition, offset)
        except errors.OncelogError:
            assert reader.member_id not in self.alive() or partition not in reader.reading
        else:
            self.offsets[partition] = offset

    def leave(self) -> None:
        reader = self.some()
        if reader is not None and self.random.random() < 0.3 and reader.member_id in self.alive():
            reader.leave()
            del self.readers[reader.member_id]

    def wait(self) -> None:
        self.groups.wait(self.random.choice([100, 1_000, 5_000, 30_000]))

    def fail_over(self) -> None:
        self.groups.fail_over(sees_topics=self.random.random() < 0.8)
        self.groups.see(**self.groups.topics)

    def change(self) -> None:
        if self.random.random() < 0.3:
            self.groups.see(t=self.random.randint(1, 6), u=self.random.randint(1, 4))
        elif self.readers:
            reader = self.some()
            assert reader is not None
            if reader.member_id in self.alive() and reader.epoch > 0:
                reader.version += 1
                topics = self.random.choice([("t",), ("u",), ("t", "u")])
                try:
                    reader.beat(Join(Subscription(reader.version, topics)))
                except errors.FencedMemberEpochError:
                    del self.readers[reader.member_id]

    def calm(self) -> None:
        """Who is there goes on; after a while everything that is subscribed to has a reader."""
        for reader in self.readers.values():
            reader.holds = False
        for _ in range(60):
            self.groups.wait(1_000)
            for reader in list(self.readers.values()):
                try:
                    reader.beat()
                    if reader.received != reader.applied:
                        reader.let_go()
                except (errors.FencedMemberEpochError, errors.UnknownMemberError):
                    del self.readers[reader.member_id]
        view = self.groups.table.groups.view(GROUP)
        assert view.state in (GroupState.STABLE, GroupState.EMPTY)
        read = {partition for reader in self.readers.values() for partition in reader.reading}
        wanted = {part(t, n) for t in ("t", "u") for n in range(self.groups.topics[t])}
        assert read == {
            p for p in wanted if any(part(t, 0)[0] == p.topic_id for r in view.members for t in r.subscription.topics)
        }


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9))
def test_whatever_happens_nothing_is_owned_twice_and_nobody_starves(seed: int) -> None:
    world = World(seed)
    for _ in range(80):
        world.step()
    world.calm()


def test_a_late_copy_of_an_idle_heartbeat_changes_nothing() -> None:
    groups = Groups()
    a, _ = pair(groups)
    before = groups.durable()
    groups.do(Heartbeat(GROUP, "a", a.epoch, a.received, a.applied))
    groups.do(Heartbeat(GROUP, "a", groups.member("a").previous_epoch or a.epoch, 0, 0))
    assert groups.durable() == before
