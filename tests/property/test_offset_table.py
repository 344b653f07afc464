"""Committed offsets under random commits, transactions, markers in any order and fail-overs, against a naive log."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from oncelog.errors import OncelogError, UnstableOffsetCommitError
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_commands import (
    CommitOffsets,
    DeleteOffsets,
    Enrolled,
    FetchOffsets,
    GroupMarker,
    Member,
    SendOffsets,
)
from oncelog_coordinator.core.offsets.offset_records import OffsetValue
from oncelog_coordinator.core.offsets.offset_table import OffsetTable
from oncelog_coordinator.core.transactions.commands import Tick, TxnName
from tests.unit.coordinator.compacted import last_of_each_key

TOPIC = "c" * 32
GROUPS = st.sampled_from(["g1", "g2"])
PRODUCERS = st.sampled_from([1, 2])
PARTITIONS = st.integers(0, 2)
LIMITS = Limits(group_resolve_after_ms=100, ended_retention_ms=150)


def value(partition: int, offset: int) -> OffsetValue:
    return OffsetValue(TOPIC, "t", partition, offset)


class Offsets(RuleBasedStateMachine):
    """The model is a log of writes (group, partition, offset, transaction); a transaction's count when it committed."""

    def __init__(self) -> None:
        super().__init__()
        self.table = OffsetTable(LIMITS)
        self.table.loaded(0)
        self.log: list[tuple[str, bytes | None]] = []
        self.writes: list[tuple[str, int, int, tuple[int, int] | None]] = []
        self.committed: set[tuple[str, int, int]] = set()
        self.ended: set[tuple[str, int, int]] = set()
        self.sequence = 0
        self.now_ms = 0
        self.under_way: list[SendOffsets] = []
        """Requests whose group was enrolled, and which wait in this life of the shard."""

    def do(self, command: Any) -> Any:
        decision = self.table.decide(command, self.now_ms)
        for record in decision.records:
            self.log.append((record.key, record.encode()))
            self.table.apply(record)
        for note in decision.notes:
            self.table.apply(note)
        return decision.reply

    def is_decided(self, pid: int, n: int) -> bool:
        """The transaction shard knows that for as long as the id lives."""
        return any(p == pid and n <= m for _, p, m in self.ended)

    @rule(group=GROUPS, partition=PARTITIONS, offset=st.integers(0, 99))
    def commit(self, group: str, partition: int, offset: int) -> None:
        self.do(CommitOffsets(Member(group), 0, (value(partition, offset),)))
        self.writes.append((group, partition, offset, None))

    @rule(group=GROUPS, pid=PRODUCERS, n=st.integers(1, 4), partition=PARTITIONS, offset=st.integers(0, 99))
    def send(self, group: str, pid: int, n: int, partition: int, offset: int) -> None:
        if not self.is_decided(pid, n):
            self.deliver(self.enrolled(group, pid, n, value(partition, offset)))
            assert self.writes[-1] == (group, partition, offset, (pid, n)), "what was enrolled just now is taken"

    @rule(group=GROUPS, pid=PRODUCERS, n=st.integers(1, 4), partition=PARTITIONS, offset=st.integers(0, 99))
    def send_slowly(self, group: str, pid: int, n: int, partition: int, offset: int) -> None:
        if not self.is_decided(pid, n):
            self.under_way.append(self.enrolled(group, pid, n, value(partition, offset)))

    @rule(which=st.integers(0, 3))
    def arrive(self, which: int) -> None:
        if which < len(self.under_way):
            try:
                self.deliver(self.under_way.pop(which))
            except OncelogError:
                return  # a newer one came first, or the transaction has ended, or may have

    def enrolled(self, group: str, pid: int, n: int, offset: OffsetValue) -> SendOffsets:
        """A request, after the transaction shard has enrolled its group; that is refused when n is decided."""
        self.sequence += 1
        enrolled = Enrolled(None if self.table.is_enrolled(group, pid, n) else 1, self.table.forgotten)
        return SendOffsets(TxnName("t", pid, n, 0), 0, Member(group), self.sequence, (offset,), enrolled)

    def deliver(self, command: SendOffsets) -> None:
        group, name, (offset,) = command.member.group_id, command.name, command.offsets
        self.do(command)
        n = (name.txn_producer_id, name.txn_no)
        assert (group, *n) not in self.ended, "a transaction that has ended took offsets"
        self.writes.append((group, offset.partition, offset.offset, n))

    @precondition(lambda self: self.sequence > 1)
    @rule(group=GROUPS, pid=PRODUCERS, n=st.integers(1, 4), partition=PARTITIONS)
    def late_copy(self, group: str, pid: int, n: int, partition: int) -> None:
        if (group, pid, n) not in {(g, *t) for g, _, _, t in self.writes if t}:
            return
        if not self.table.is_enrolled(group, pid, n):
            return  # it has to be enrolled first, and its transaction is decided
        try:
            self.do(SendOffsets(TxnName("t", pid, n, 0), 0, Member(group), 1, (value(partition, 12345),)))
        except OncelogError:
            return
        raise AssertionError("a late copy was taken")

    @rule(group=GROUPS, pid=PRODUCERS, n=st.integers(1, 4), commit=st.booleans())
    def marker(self, group: str, pid: int, n: int, commit: bool) -> None:
        if (group, pid, n) in self.ended:
            commit = (group, pid, n) in self.committed
        self.do(GroupMarker(group, pid, n, commit, 0, 1))
        self.ended.add((group, pid, n))
        if commit:
            self.committed.add((group, pid, n))

    def open_partitions(self, group: str) -> set[int]:
        return {p for g, p, _, txn in self.writes if g == group and txn is not None and (g, *txn) not in self.ended}

    @rule(group=GROUPS, partition=st.none() | PARTITIONS)
    def delete(self, group: str, partition: int | None) -> None:
        gone = {0, 1, 2} if partition is None else {partition}
        chosen = None if partition is None else (value(partition, 0).id,)
        try:
            self.do(DeleteOffsets(group, chosen))
        except UnstableOffsetCommitError:
            assert gone & self.open_partitions(group)
            return
        assert not gone & self.open_partitions(group), "an open transaction would bring the offset back"
        self.writes = [w for w in self.writes if w[0] != group or w[1] not in gone]

    @rule(compacted=st.booleans())
    def fail_over(self, compacted: bool) -> None:
        self.table = OffsetTable(LIMITS)
        for key, data in last_of_each_key(self.log) if compacted else self.log:
            self.table.apply(self.table.decode(key, data))
        self.table.loaded(self.now_ms)
        self.under_way.clear()

    @rule()
    def tick(self) -> None:
        self.now_ms += 60
        self.do(Tick())

    @invariant()
    def reads_are_those_of_the_log(self) -> None:
        self.table.check()
        for group in ("g1", "g2"):
            expected = {
                partition: offset
                for g, partition, offset, txn in self.writes
                if g == group and (txn is None or (g, *txn) in self.committed)
            }
            found = {item.partition: item.offset for item in self.table.decide(FetchOffsets(group), 0).reply}
            assert found == expected
        assert set(self.table.used()) == {g for g in ("g1", "g2") if self.table.groups.get(g) and self.is_used(g)}

    def is_used(self, group: str) -> bool:
        return any(
            g == group and (txn is None or (g, *txn) in self.committed or (g, *txn) not in self.ended)
            for g, _, _, txn in self.writes
        )


def test_offsets_are_those_of_a_naive_log() -> None:
    run_state_machine_as_test(
        Offsets,
        settings=settings(
            max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
