"""Committed offsets of groups: sequences, transactions, markers, healing (holes 13, 14; cases H167, H168, H170)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import PartitionId
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_commands import (
    AskOutcome,
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    GroupMarker,
    Member,
    SendOffsets,
)
from oncelog_coordinator.core.offsets.offset_records import OffsetValue, offset_bytes
from oncelog_coordinator.core.offsets.offset_table import AnyMember, OffsetTable
from oncelog_coordinator.core.transactions.commands import Tick, TxnName
from tests.unit.coordinator.compacted import last_of_each_key

TOPIC = "b" * 32
SIMPLE = Member("g")


class Offsets:
    """Decide, apply, keep the log; a refusal leaves no trace."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits(group_resolve_after_ms=1_000)
        self.table = OffsetTable(self.limits)
        self.table.loaded(0)
        self.now_ms = 5_000
        self.log: list[tuple[str, bytes | None]] = []
        self.effects: list[Any] = []

    def do(self, command: Any) -> Any:
        before = self.state()
        try:
            decision = self.table.decide(command, self.now_ms)
        except errors.OncelogError:
            assert self.state() == before
            raise
        assert self.state() == before
        for record in decision.records:
            self.log.append((record.key, record.encode()))
            self.table.apply(record)
        for note in decision.notes:
            self.table.apply(note)
        self.effects += decision.effects
        self.table.check()
        self.last = decision
        return decision.reply

    def state(self) -> Any:
        groups = self.table.groups
        return {g: (dict(s.offsets), dict(s.pending), dict(s.ended)) for g, s in groups.items()}

    def replayed(self, *, compacted: bool) -> OffsetTable:
        table = OffsetTable(self.limits)
        for key, value in last_of_each_key(self.log) if compacted else self.log:
            table.apply(table.decode(key, value))
        table.loaded(self.now_ms)
        table.check()
        return table

    def commit(
        self, offset: int, sequence: int = 0, member: Member = SIMPLE, partition: int = 0, metadata: str = ""
    ) -> Any:
        return self.do(CommitOffsets(member, sequence, (value(partition, offset, metadata),)))

    def send(self, offset: int, sequence: int, n: int = 1, pid: int = 9, epoch: int = 0, partition: int = 0) -> None:
        name = TxnName("t", pid, n, epoch)
        self.do(SendOffsets(name, 3, SIMPLE, sequence, (value(partition, offset),)))

    def marker(self, committed: bool, n: int = 1, pid: int = 9, epoch: int = 1) -> None:
        self.do(GroupMarker("g", pid, n, committed, 3, epoch))

    def fetch(self, stable: bool = False, partitions: tuple[PartitionId, ...] | None = None) -> dict[int, int]:
        found = self.do(FetchOffsets("g", partitions, stable))
        return {item.partition: item.offset for item in found}


def value(partition: int, offset: int, metadata: str = "") -> OffsetValue:
    return OffsetValue(TOPIC, "topic", partition, offset, 4, metadata)


@pytest.fixture
def offsets() -> Iterator[Offsets]:
    one = Offsets()
    yield one
    one.table.check()
    for compacted in (False, True):
        replayed = one.replayed(compacted=compacted)
        for name, group in one.table.groups.items():
            assert (group.offsets, group.pending, group.ended) == (
                replayed.groups[name].offsets,
                replayed.groups[name].pending,
                replayed.groups[name].ended,
            )


# ---------------------------------------------------------------- plain commits


def test_commit_and_fetch(offsets: Offsets) -> None:
    assert offsets.fetch() == {}
    offsets.commit(5)
    offsets.commit(7, partition=1)
    assert offsets.fetch() == {0: 5, 1: 7}
    assert offsets.fetch(partitions=(PartitionId(TOPIC, 1), PartitionId(TOPIC, 2))) == {1: 7}
    assert offsets.last.confirm, "a deposed owner must not answer with old offsets"


def test_the_last_commit_of_a_simple_group_wins(offsets: Offsets) -> None:
    offsets.commit(5, sequence=9)
    offsets.commit(3, sequence=1)
    assert offsets.fetch() == {0: 3}, "another process begins with its own sequence"


@pytest.mark.case("hole 13")
def test_a_late_copy_of_an_older_commit_is_refused(offsets: Offsets) -> None:
    member = Member("g", "m", 1)
    offsets.commit(5, 1, member)
    offsets.commit(9, 2, member)
    records = len(offsets.log)
    with pytest.raises(errors.OffsetCommitStaleError):
        offsets.commit(5, 1, member)
    with pytest.raises(errors.OffsetCommitStaleError):
        offsets.commit(6, 2, member)
    assert offsets.commit(9, 2, member) == (), "the same commit again is a success"
    assert len(offsets.log) == records
    offsets.commit(1, 1, Member("g", "m", 2))
    with pytest.raises(errors.FencedMemberEpochError):
        offsets.commit(9, 3, member)
    assert offsets.fetch() == {0: 1}


def test_a_stale_part_refuses_the_whole_commit(offsets: Offsets) -> None:
    member = Member("g", "m", 1)
    offsets.commit(9, 2, member)
    with pytest.raises(errors.OffsetCommitStaleError):
        offsets.do(CommitOffsets(member, 1, (value(1, 1), value(0, 5))))
    assert offsets.fetch() == {0: 9}


def test_bad_values_are_refused_one_by_one(offsets: Offsets) -> None:
    failed = offsets.do(
        CommitOffsets(SIMPLE, 1, (value(0, 1), value(1, 1, "x" * 4097), value(2, -1), value(3, 1, "é" * 2048)))
    )
    assert [(item.value.partition, type(item.error)) for item in failed] == [
        (1, errors.OffsetMetadataTooLargeError),
        (2, errors.InvalidRequestError),
    ]
    assert offsets.fetch() == {0: 1, 3: 1}


@pytest.mark.parametrize(
    "command",
    [
        CommitOffsets(SIMPLE, 1, (value(0, 1), value(0, 2))),
        CommitOffsets(Member("g", "m", -1), 1, (value(0, 1),)),
        CommitOffsets(Member("g", "", 3), 1, (value(0, 1),)),
        SendOffsets(TxnName("t", 9, 1, 0), 3, SIMPLE, 0, (value(0, 1),)),
        SendOffsets(TxnName("t", 9, 0, 0), 3, SIMPLE, 1, (value(0, 1),)),
        SendOffsets(TxnName("t", 9, 1, 0), 3, SIMPLE, 1, (value(0, 1), value(1, -2))),
    ],
)
def test_malformed_commits(offsets: Offsets, command: Any) -> None:
    with pytest.raises(errors.InvalidRequestError):
        offsets.do(command)


def test_too_many_offsets_at_once() -> None:
    offsets = Offsets(Limits(max_offsets_per_commit=1))
    with pytest.raises(errors.InvalidRequestError):
        offsets.do(CommitOffsets(SIMPLE, 1, (value(0, 1), value(1, 2))))


def test_groups_ask_somebody_who_is_a_member() -> None:
    class Nobody(AnyMember):
        def require_member(self, member: Member) -> None:
            raise errors.UnknownMemberError(member_id=member.member_id)

    table = OffsetTable(members=Nobody())
    with pytest.raises(errors.UnknownMemberError):
        table.decide(CommitOffsets(Member("g", "m", 1), 1, (value(0, 1),)), 0)


# ---------------------------------------------------------------- transactions


def test_offsets_of_a_transaction_are_pending_until_its_marker(offsets: Offsets) -> None:
    offsets.commit(5)
    offsets.send(9, 1)
    assert offsets.table.is_enrolled("g", 9, 1)
    assert offsets.fetch() == {0: 5}
    with pytest.raises(errors.UnstableOffsetCommitError) as info:
        offsets.fetch(stable=True)
    assert info.value.retriable
    assert offsets.fetch(stable=True, partitions=(PartitionId(TOPIC, 1),)) == {}
    offsets.marker(committed=True)
    assert offsets.fetch(stable=True) == {0: 9}
    offsets.send(12, 1, n=2)
    offsets.marker(committed=False, n=2)
    assert offsets.fetch(stable=True) == {0: 9}


@pytest.mark.case("hole 13")
def test_a_late_copy_inside_a_transaction_is_refused(offsets: Offsets) -> None:
    offsets.send(100, 1)
    offsets.send(200, 2)
    with pytest.raises(errors.OffsetCommitStaleError):
        offsets.send(100, 1)
    records = len(offsets.log)
    offsets.send(200, 2)
    assert len(offsets.log) == records
    offsets.send(50, 3, partition=1)
    offsets.marker(committed=True)
    assert offsets.fetch() == {0: 200, 1: 50}


def test_the_newest_record_wins_not_the_last_marker(offsets: Offsets) -> None:
    offsets.send(10, 1)
    offsets.commit(11)
    offsets.marker(committed=True)
    assert offsets.fetch() == {0: 11}


def test_markers_of_pipelined_transactions_may_come_in_any_order(offsets: Offsets) -> None:
    offsets.send(10, 1, n=1)
    offsets.send(20, 1, n=2)
    offsets.marker(committed=True, n=2)
    assert offsets.fetch() == {0: 20}
    with pytest.raises(errors.UnstableOffsetCommitError):
        offsets.fetch(stable=True)
    with pytest.raises(errors.TxnEndedError):
        offsets.send(11, 2, n=1)
    offsets.marker(committed=True, n=1)
    assert offsets.fetch(stable=True) == {0: 20}


@pytest.mark.case("hole 12")
def test_after_its_marker_a_transaction_takes_nothing_for_ever(offsets: Offsets) -> None:
    offsets.marker(committed=False, n=4)
    for n in (1, 4):
        with pytest.raises(errors.TxnEndedError):
            offsets.send(1, 1, n=n)
    offsets.send(1, 1, n=5)
    offsets.marker(committed=True, n=4)
    assert offsets.log[-1][0].startswith("ended:"), "a marker always writes"


@pytest.mark.case("hole 6")
def test_a_marker_of_an_older_coordinator_is_refused(offsets: Offsets) -> None:
    offsets.marker(committed=True, n=1, epoch=5)
    with pytest.raises(errors.CoordinatorFencedError):
        offsets.marker(committed=True, n=2, epoch=4)
    with pytest.raises(errors.CoordinatorFencedError):
        offsets.replayed(compacted=True).decide(GroupMarker("g", 9, 2, True, 3, 4), 0)


def test_another_session_is_fenced(offsets: Offsets) -> None:
    offsets.send(1, 1, epoch=3)
    with pytest.raises(errors.ProducerFencedError):
        offsets.send(2, 2, epoch=2)


def test_a_late_plain_commit_is_still_known_after_a_transaction(offsets: Offsets) -> None:
    member = Member("g", "m", 1)
    offsets.commit(5, 4, member)
    offsets.send(9, 1)
    offsets.marker(committed=True)
    with pytest.raises(errors.OffsetCommitStaleError):
        offsets.commit(3, 3, member)
    assert offsets.fetch() == {0: 9}


# ---------------------------------------------------------------- healing


@pytest.mark.case("hole 14")
def test_what_waits_too_long_is_asked_about_again_and_again(offsets: Offsets) -> None:
    offsets.marker(committed=True, n=1, pid=1, epoch=6)
    offsets.send(9, 1)
    assert offsets.table.next_deadline_ms() == offsets.now_ms + 1_000
    for _ in range(2):
        offsets.now_ms += 1_000
        offsets.do(Tick())
        assert offsets.effects.pop() == AskOutcome("g", 9, 1, 3, 6)
    offsets.marker(committed=True, epoch=6)
    offsets.now_ms += 5_000
    offsets.do(Tick())
    assert not offsets.effects
    assert offsets.table.next_deadline_ms() == 5_000 + offsets.limits.ended_retention_ms, "nothing waits any more"


def test_waiting_offsets_are_asked_about_after_fail_over(offsets: Offsets) -> None:
    offsets.send(9, 1)
    offsets.now_ms += 700
    assert offsets.replayed(compacted=True).next_deadline_ms() == offsets.now_ms + 300


# ---------------------------------------------------------------- operators


@pytest.mark.parametrize("compacted", [True, False])
def test_deleted_offsets_are_gone_also_after_a_replay(compacted: bool) -> None:
    offsets = Offsets()
    offsets.commit(5)
    offsets.commit(6, partition=1)
    assert offsets.do(DeleteOffsets("g", (PartitionId(TOPIC, 0), PartitionId(TOPIC, 9)))) == 1
    for table in (offsets.table, offsets.replayed(compacted=compacted)):
        assert [value.partition for value in table.decide(FetchOffsets("g"), 0).reply] == [1]
    assert offsets.do(DeleteOffsets("g")) == 1
    for table in (offsets.table, offsets.replayed(compacted=compacted)):
        assert table.used() == []
        assert table.groups == {}


def test_an_offset_that_an_open_transaction_holds_is_not_deleted() -> None:
    offsets = Offsets()
    offsets.commit(5)
    offsets.send(7, 1, partition=1)
    for chosen in (None, (PartitionId(TOPIC, 1),)):
        with pytest.raises(errors.UnstableOffsetCommitError):
            offsets.do(DeleteOffsets("g", chosen))
    assert offsets.do(DeleteOffsets("g", (PartitionId(TOPIC, 0),))) == 1
    assert (offsets.table.used(), offsets.table.committed_of("g"), len(offsets.table.pending_of("g"))) == (["g"], (), 1)
    offsets.marker(True)
    assert offsets.do(DeleteOffsets("g")) == 1


def test_a_deleted_group_still_knows_which_transactions_have_ended() -> None:
    offsets = Offsets()
    offsets.send(7, 1)
    offsets.marker(True)
    offsets.do(DeleteOffsets("g"))
    assert offsets.table.used() == []
    with pytest.raises(errors.TxnEndedError):
        offsets.send(8, 2)


def test_a_group_that_nobody_used_has_no_offsets() -> None:
    table = Offsets().table
    assert (table.committed_of("nobody"), table.pending_of("nobody")) == ((), ())


def test_a_group_begins_with_as_many_partitions_as_one_append_takes() -> None:
    partitions = {PartitionId(TOPIC, number): "orders" for number in range(10)}
    size = offset_bytes("g", OffsetValue(TOPIC, "orders", 0, 0))
    for limits in (Limits(max_offsets_bytes=3 * size + 1), Limits(max_offsets_per_commit=3)):
        assert len(OffsetTable(limits).begun("g", partitions, 0)) == 3
