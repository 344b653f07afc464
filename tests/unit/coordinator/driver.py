"""Drives a core as the shell does: decide, apply, keep the log. Every step checks that a refusal leaves no trace."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from oncelog.errors import OncelogError
from oncelog.types import PartitionId
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.records import TransactionRecord, parse
from oncelog_coordinator.core.transactions.transaction_state import with_what_leaders_heard
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from tests.unit.coordinator.compacted import last_of_each_key

TOPIC = "a" * 32
P0 = PartitionId(TOPIC, 0)
P1 = PartitionId(TOPIC, 1)
P2 = PartitionId(TOPIC, 2)


def _without_visible(record: TransactionRecord) -> TransactionRecord:
    return replace(record, decided=tuple(replace(item, was_visible=False) for item in record.decided))


class Driver:
    """One table, its log, and the effects that the shell would run."""

    def __init__(self, limits: Limits | None = None, now_ms: int = 1_000_000) -> None:
        self.limits = limits or Limits()
        self.table = TransactionTable(self.limits)
        self.table.loaded(now_ms)
        self.now_ms = now_ms
        self.log: list[tuple[str, bytes | None]] = []
        self.effects: list[Any] = []
        self.notices: list[Any] = []
        self.next_producer_id = 1000
        self.lazy_tail = 0
        """So many records at the end of the log may be lost."""

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
        if decision.records:
            self.lazy_tail = self.lazy_tail + len(decision.records) if decision.lazy else 0
        for note in decision.notes:
            self.table.apply(note)
        self.effects += decision.effects
        self.notices += decision.notices
        self.table.check()
        self.last = decision
        return decision.reply

    def state(self) -> Any:
        """Everything that a command could change."""
        entries = self.table.index.entries
        volatile = {
            name: (e.opened_here, sorted(e.participants), e.touched_ms, copy.deepcopy(e.markers_in))
            for name, e in entries.items()
        }
        return self.durable(), volatile, self.table.next_deadline_ms()

    def durable(self) -> dict[str, bytes]:
        """All records as bytes, by key, but for what was visible: a life hears that and logs it with the next record."""
        found = {e.record.key: _without_visible(e.record).encode() for e in self.table.index.entries.values()}
        found.update({o.key: o.encode() for o in self.table.index.orphans.values()})
        removed = self.table.index.removed
        return {**found, removed.key: removed.encode()} if removed.txn_no else found

    def as_a_later_life_sees_it(self) -> dict[str, bytes]:
        """`durable`, with the doubt of a life that does not know what this one has answered."""
        seen = self.durable()
        for key in [key for key in seen if key.startswith("txn:")]:
            seen[key] = with_what_leaders_heard(TransactionRecord.decode(parse(seen[key]))).encode()
        return seen

    def replayed(self, *, compacted: bool = False, lost: int = 0) -> Driver:
        """Another life: a new table from the log, whole or with the newest record of each key only.

        `lost`: so many lazy records at its end were never logged.
        """
        other = Driver(self.limits, self.now_ms)
        other.table = TransactionTable(self.limits)
        other.log = self.log[: len(self.log) - lost]
        other.next_producer_id = self.next_producer_id
        log = last_of_each_key(other.log) if compacted else other.log
        for key, value in log:
            record = other.table.decode(key, value)
            if record is not None:
                other.table.apply(record)
        other.table.loaded(self.now_ms)
        other.table.check()
        return other

    # ------------------------------------------------------------ short forms

    def fresh(self) -> int:
        """A producer id."""
        self.next_producer_id += 1
        return self.next_producer_id

    def init(self, tid: str = "t", nonce: str = "", timeout_ms: int = 60_000, **more: int) -> cmd.SessionReply:
        """A new session."""
        reply: cmd.SessionReply = self.do(cmd.InitProducerId(tid, timeout_ms, nonce, self.fresh(), **more))
        return reply

    def enrol(self, session: cmd.SessionReply, n: int, *partitions: PartitionId, groups: tuple[str, ...] = ()) -> None:
        """Enrols partitions in n."""
        self.do(cmd.Enrol(name(session, n), partitions, groups))

    def end(self, session: cmd.SessionReply, n: int, commit: bool = True, **counts: Any) -> cmd.EndReply:
        """Ends n."""
        reply: cmd.EndReply = self.do(cmd.End(name(session, n), commit, **counts))
        return reply

    def mark(self, n: int, *partitions: PartitionId, tid: str = "t", groups: tuple[str, ...] = ()) -> None:
        """Markers of n are in."""
        self.do(cmd.MarkersDone(tid, n, partitions, groups))

    def join(
        self, run: str = "r1", batch: int = 0, attempt: str = "1", tid: str = "t", app: str = "app", **more: int
    ) -> cmd.JoinReply:
        """A task joins."""
        command = cmd.Join(
            tid, run, cmd.BatchName(app, batch, attempt), self.fresh(), fresh_producer_id=self.fresh(), **more
        )
        reply: cmd.JoinReply = self.do(command)
        return reply

    def commit(
        self, n: int, *winners: cmd.Winner, run: str = "r1", batch: int = 0, attempt: str = "1", app: str = "app"
    ) -> cmd.CommitReply:
        """The driver commits."""
        reply: cmd.CommitReply = self.do(
            cmd.Commit("t", run, n, cmd.BatchName(app, batch, attempt), winners, self.fresh())
        )
        return reply

    def outcome(self, n: int) -> cmd.OutcomeReply:
        """What became of n."""
        reply: cmd.OutcomeReply = self.do(cmd.GetOutcome("t", n))
        return reply

    def tick(self, after_ms: int) -> None:
        """Time passes."""
        self.now_ms += after_ms
        self.do(cmd.Tick())


def name(session: cmd.SessionReply, n: int, tid: str = "t") -> cmd.TxnName:
    """The name of transaction n of a session."""
    return cmd.TxnName(tid, session.producer_id, n, session.producer_epoch)


def participant(joined: cmd.JoinReply) -> cmd.TxnName:
    """The name under which a participant's leader enrols partitions."""
    return cmd.TxnName("t", joined.txn_producer_id, joined.txn_no, joined.producer_epoch)
