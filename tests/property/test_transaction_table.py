"""The transaction table under random commands: replay, compaction, one outcome for ever, tokens that never go back.

The id expires and is removed now and then. A number is one transaction's all the same, whatever producer id it had.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from oncelog.errors import OncelogError
from oncelog.types import PartitionId
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from tests.unit.coordinator.driver import P0, P1, P2, Driver, name

LIMITS = Limits(
    kept_outcomes=4,
    kept_nonces=2,
    fenced_runs=2,
    ended_attempts=2,
    aborted_ahead=3,
    expire_per_tick=3,
    transactional_id_expiration_ms=20_000,
    transactional_id_retention_ms=30_000,
)
PARTITIONS = st.lists(st.sampled_from([P0, P1, P2]), max_size=3, unique=True).map(tuple)
RUNS = st.sampled_from(["r1", "r2", "r3", "r4"])
NUMBERS = st.sampled_from([0, 0, 0, 1, 1, 1, -1, -2, 2, 3])
"""Distance from the newest number: mostly the open one or the next."""


class Table(RuleBasedStateMachine):
    """Sessions and participants of one transactional id, in any order, with copies of old requests."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(LIMITS)
        self.sessions: list[cmd.SessionReply] = []
        self.joined: list[tuple[cmd.JoinReply, str, int, str]] = []
        self.sent: list[Any] = []
        self.outcomes: dict[int, bool] = {}
        self.visible: set[int] = set()
        self.owed: dict[int, set[Any]] = {}
        self.answered: dict[int, tuple[int, set[Any]]] = {}
        """Number -> the session under which leaders may have opened it, and where."""
        self.marked: set[int] = set()
        self.attempt = 0
        self.lasting: dict[str, int] = {}
        """App -> its committed batch, whose token must last."""

    def send(self, command: Any) -> Any:
        """Runs a command that may be refused."""
        self.sent.append(command)
        try:
            reply = self.driver.do(command)
        except OncelogError:
            return None
        record = self.driver.table.index.find("t")
        if isinstance(command, cmd.Resolve):
            if reply.committed is not None and record is not None and record.producer_id == command.txn_producer_id:
                self.told(command.txn_no, reply.committed)
        elif isinstance(command, cmd.End):
            self.told(command.name.txn_no, reply.committed)
        elif isinstance(command, cmd.Commit) and not reply.already_committed:
            self.told(reply.txn_no, True)
            if command.batch.app_id in self.lasting or not command.token_expires:
                self.lasting[command.batch.app_id] = command.batch.batch_id
        elif isinstance(command, cmd.Enrol):
            assert record is not None
            assert record.producer_id == command.name.txn_producer_id, "enrolled for a producer id that nobody has"
            self.may_open(command)
        return reply

    def may_open(self, command: cmd.Enrol) -> None:
        """Leaders and groups were told that they may open a number."""
        number, epoch = command.name.txn_no, command.name.producer_epoch
        session, where = self.answered.setdefault(number, (epoch, set()))
        assert session == epoch, "one number was opened under two sessions"
        where.update(command.partitions, command.groups)

    def told(self, number: int, committed: bool) -> None:
        """Somebody heard this outcome."""
        assert self.outcomes.setdefault(number, committed) is committed, "two outcomes of one number"

    def mark(self, number: int, *targets: Any) -> None:
        """These targets have their marker."""
        groups = tuple(t for t in targets if isinstance(t, str))
        self.driver.mark(number, *(t for t in targets if not isinstance(t, str)), groups=groups)
        self.owed[number] -= set(targets)

    def last_no(self) -> int:
        record = self.driver.table.index.find("t")
        return self.driver.table.index.removed.txn_no if record is None else record.last_txn_no

    @initialize()
    def begin(self) -> None:
        self.init("first")

    @rule(nonce=st.sampled_from(["", "a", "b", "c"]), really=st.sampled_from([False, True]))
    def again(self, nonce: str, really: bool) -> None:
        if really:
            self.init(nonce)

    def init(self, nonce: str) -> None:
        reply = self.send(cmd.InitProducerId("t", 1_000, nonce, self.driver.fresh()))
        if reply is not None:
            self.sessions.append(reply)

    def a_session(self, data: st.DataObject) -> cmd.SessionReply:
        """Mostly the newest."""
        back = data.draw(st.sampled_from([1, 1, 1, 2, 3]))
        return self.sessions[-min(back, len(self.sessions))]

    @rule(data=st.data(), away=NUMBERS, partitions=PARTITIONS, group=st.booleans())
    def enrol(self, data: st.DataObject, away: int, partitions: Any, group: bool) -> None:
        number = self.last_no() + away
        self.send(cmd.Enrol(name(self.a_session(data), number), partitions, ("g",) if group else ()))

    @rule(data=st.data(), away=NUMBERS, commit=st.booleans())
    def end(self, data: st.DataObject, away: int, commit: bool) -> None:
        self.send(cmd.End(name(self.a_session(data), self.last_no() + away), commit))

    @rule(commit=st.booleans(), partitions=PARTITIONS)
    def whole_transaction(self, commit: bool, partitions: Any) -> None:
        session, number = self.sessions[-1], self.last_no() + 1
        self.send(cmd.Enrol(name(session, number), (P0, *partitions)))
        self.send(cmd.End(name(session, number), commit))

    @rule(run=RUNS, batch=st.integers(0, 4), again=st.booleans(), app=st.sampled_from(["a", "b"]))
    def join(self, run: str, batch: int, again: bool, app: str) -> None:
        self.attempt += not again
        attempt = f"{self.attempt:04}"
        own, fresh = self.driver.fresh(), self.driver.fresh()
        batch_name = cmd.BatchName(app, batch, attempt)
        reply = self.send(cmd.Join("t", run, batch_name, own, lease_ms=500, fresh_producer_id=fresh))
        if reply is not None and not reply.already_committed:
            self.joined.append((reply, run, batch, app + attempt))

    @precondition(lambda self: self.joined)
    @rule(data=st.data(), partitions=PARTITIONS)
    def enrol_participant(self, data: st.DataObject, partitions: Any) -> None:
        reply, *_ = data.draw(st.sampled_from(self.joined[-3:]))
        self.send(cmd.Enrol(cmd.TxnName("t", reply.txn_producer_id, reply.txn_no, reply.producer_epoch), partitions))

    @precondition(lambda self: self.joined)
    @rule(data=st.data(), rows=st.integers(0, 3), abort=st.booleans(), expires=st.booleans())
    def finish(self, data: st.DataObject, rows: int, abort: bool, expires: bool) -> None:
        reply, run, batch, named = data.draw(st.sampled_from(self.joined[-3:]))
        app, attempt = named[0], named[1:]
        if abort:
            self.send(cmd.Abort("t", run, reply.txn_no, app, batch))
        else:
            winners = (cmd.Winner(reply.producer_id, rows),)
            batch_name = cmd.BatchName(app, batch, attempt)
            self.send(cmd.Commit("t", run, reply.txn_no, batch_name, winners, token_expires=expires))

    @precondition(lambda self: any(self.owed.values()))
    @rule(data=st.data())
    def markers_are_committed(self, data: st.DataObject) -> None:
        """Readers see them, and they stay owed: a power cut could take them away."""
        number = data.draw(st.sampled_from([n for n, targets in self.owed.items() if targets]))
        partitions = tuple(t for t in sorted(self.owed[number], key=str) if not isinstance(t, str))
        self.driver.do(cmd.MarkersCommitted("t", number, partitions))

    @precondition(lambda self: any(self.owed.values()))
    @rule(data=st.data(), everything=st.booleans())
    def markers(self, data: st.DataObject, everything: bool) -> None:
        number = data.draw(st.sampled_from([n for n, targets in self.owed.items() if targets]))
        targets = sorted(self.owed[number], key=str)
        self.mark(number, *(targets if everything else targets[:1]))

    @rule(away=NUMBERS)
    def resolve(self, away: int) -> None:
        if self.sessions and self.last_no() + away > 0:
            self.send(cmd.Resolve(self.sessions[0].producer_id, self.last_no() + away, P0.topic_id, 0))

    @rule(after_ms=st.sampled_from([1, 400, 1_000]))
    def tick(self, after_ms: int) -> None:
        self.driver.tick(after_ms)

    @rule(after_ms=st.sampled_from([1, 20_000, 30_000]), markers=st.booleans())
    def idle(self, after_ms: int, markers: bool) -> None:
        """Nobody needs the id for long; with all its markers in, it may expire, and one that has expired may go."""
        self.look_at_effects()
        for number, targets in list(self.owed.items()):
            if markers and targets:
                self.mark(number, *sorted(targets, key=str))
        self.driver.tick(after_ms)

    @rule(really=st.sampled_from([False, False, False, True]))
    def force_abort(self, really: bool) -> None:
        if really:
            self.send(cmd.ForceAbort("t"))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def late_copy(self, data: st.DataObject) -> None:
        self.send(data.draw(st.sampled_from(self.sent[-10:])))

    @rule(compacted=st.booleans(), lost=st.integers(0, 3))
    def fail_over(self, compacted: bool, lost: int) -> None:
        """Records that were in no hurry may be lost, and markers of numbers that were complete are owed again."""
        self.look_at_effects()
        before = self.driver.as_a_later_life_sees_it()
        lost = min(lost, self.driver.lazy_tail)
        self.driver = self.driver.replayed(compacted=compacted, lost=lost)
        assert lost or self.driver.durable() == before
        self.driver.effects = list(self.driver.table.pending(0))
        self.visible -= {effect.txn_no for effect in self.driver.effects}
        self.marked |= {number for number, targets in self.owed.items() if not targets}
        self.owed = {number: targets for number, targets in self.owed.items() if targets}

    @rule(partitions=PARTITIONS, then=st.sampled_from(["session", "end", "run", ""]))
    def answer_and_forget(self, partitions: Any, then: str) -> None:
        """The rare meeting that fail-overs are about: a number was opened a moment ago, and who comes next gets its own."""
        session, number = self.sessions[-1], self.last_no() + 1
        self.send(cmd.Enrol(name(session, number), partitions))
        self.fail_over(compacted=True, lost=3)
        self.look_at_effects()
        if then == "session":
            self.init("")
        elif then == "end":
            self.send(cmd.End(name(session, number), True))
        elif then == "run":
            self.join("r9", 0, False, "a")
        self.whole_transaction(False, partitions)

    @invariant()
    def look_at_effects(self) -> None:
        """Markers that were asked for stay asked for until they are in."""
        for effect in self.driver.effects:
            if isinstance(effect, cmd.SendMarkers):
                targets = {PartitionId(t.topic_id, t.partition) for t in effect.targets} | set(effect.groups)
                assert self.answered.get(effect.txn_no, (0, set()))[1] <= targets, "open somewhere, and no marker"
                self.owed[effect.txn_no] = targets
                self.told(effect.txn_no, effect.committed)
        self.driver.effects.clear()
        record = self.driver.table.index.find("t")
        pending = set() if record is None else {item.txn_no for item in record.decided}
        for number, targets in self.owed.items():
            assert bool(targets) == (number in pending), f"markers of {number}: {targets}"

    @invariant()
    def one_outcome_for_ever(self) -> None:
        record = self.driver.table.index.find("t")
        if record is None:
            return
        for number in range(1, record.last_txn_no + 4):
            outcome = record.outcome_of(number)
            if outcome is None:
                assert number not in self.outcomes or record.is_forgotten(number), "an outcome was taken back"
            else:
                self.told(number, outcome.is_commit)
            pending = any(item.txn_no == number for item in record.decided)
            assert not (pending and number in self.visible), "a complete transaction came back"
            if number <= record.last_decided and not pending:
                answered = self.answered.get(number, (0, set()))[1]
                assert number in self.owed or number in self.marked or not answered, "never marked"
                self.visible.add(number)

    @invariant()
    def tokens_that_must_last_are_there(self) -> None:
        record = self.driver.table.index.find("t")
        for app, batch in self.lasting.items():
            token = None if record is None else record.token_of(app)
            assert token is not None, "a token was forgotten"
            assert token.batch_id >= batch, "a token went back"

    @invariant()
    def what_was_removed_is_covered(self) -> None:
        index = self.driver.table.index
        if index.find("t") is None:
            assert not any(self.owed.values()), "removed while markers are owed"
            assert all(number <= index.removed.txn_no for number in self.outcomes), "a number could come again"

    @invariant()
    def replay_gives_the_same(self) -> None:
        assert self.driver.replayed(compacted=True).durable() == self.driver.as_a_later_life_sees_it()


Table.TestCase.settings = settings(
    max_examples=120, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestTable = Table.TestCase
