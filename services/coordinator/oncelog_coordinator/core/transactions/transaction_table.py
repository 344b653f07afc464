"""The transactions of one shard: a pure core (docs/internals/coordinator.md#the-core-and-its-shell).

    decide(command, now_ms) -> Decision     only reads; refuses by raising an `OncelogError`, and then leaves no trace
    apply(record or note)                   the only writer; never fails; replay is this in a loop
    pending(now_ms) -> effects              the markers to send again after a replay
    next_deadline_ms() / Tick               time-outs, leases, expiry
    check()                                 every invariant, asserted

THEORY OF OPERATION

The input is the commands of `commands`: clients begin a session, enrol partitions and end a transaction; Spark tasks
join one, and the driver commits it; leaders that find a transaction still open ask for its outcome; the marker sender
reports its progress; the clock ticks; operators abort. Decisions are written by topic: `client_decisions`,
`participant_decisions`, `abandoned_decisions`, `timeouts`. Each of them reads `TransactionIndex`, builds the next
`TransactionRecord` with a function of `transaction_state`, and returns it with the reply and the markers to send. The
shell (`shard.shard_runtime`) applies the record at once, and gives the answer and sends the markers only when it is
committed.

An id has a sequence of numbered transactions. At most one number is open, and it is the last one. Below it are decided
numbers whose markers are not all on disk, at most `Limits.max_unsynced_transactions` of them, and below these numbers
of which only the outcome, or nothing, is kept. `states.TRANSITIONS` has every legal step of a number; `apply` asserts
that each record takes only such steps and that nothing goes back that must not.

What can go wrong, and the rule that closes it:

- A request for n arrives twice, or late when n+1 is open. Every check compares the name (producer id, n), so the copy
  finds n decided and gets n's answer. It can never change n+1.
- Two sessions use one id. A new session raises the session epoch and aborts the open number in one record; the older
  session is fenced by its epoch, and no number is ever given to two sessions (`transaction_state.new_session`).
- The coordinator stops between a record and its answer. The caller repeats, and the replayed record gives the first
  answer again: outcomes, the last sessions by nonce, and tokens are part of the record.
- Nothing is known about a number. It is recorded as aborted before that is answered (hole 6). Its outcome was kept and
  is not any more: that is a named error, never a guess (hole 15).
- A client stops in mid-transaction. Time-out or lease abort it (`timeouts`). Every partition was enrolled durably
  before it took data, so the decision names every partition that needs a marker; markers are sent until each is on
  disk, and `pending` names them again after every replay.
- A number was enrolled ahead of its turn, and a fail-over lost the lazy record that says that it is open. A record read
  from the log therefore counts as one whose next number may be open, and the end of that number goes to all expected
  partitions (hole 29, `assume_opened`).
- Compaction keeps one record per key. So each record is the whole state of its id, and the order of keys does not
  matter (hole 8).
- Volatile notes are lost (participants, renewals, markers that are in). Every consequence is safe: a marker is sent
  again, a lease starts again, winners are checked by the leaders' counts instead of by name.
- Many large transactions of an id wait for a leader that is away. `checks.require_room` refuses to open the next one
  before the record, or a leader's memory of numbers, gets too large; a transaction that could be opened can always be
  ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog_coordinator.core.decision import Command, Decision, LogRecord, Note
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import abandoned_decisions as healing
from oncelog_coordinator.core.transactions import client_decisions as client
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions import participant_decisions as participants
from oncelog_coordinator.core.transactions import timeouts
from oncelog_coordinator.core.transactions.checks import send_markers
from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord, RemovedIds
from oncelog_coordinator.core.transactions.record_kinds import TransactionLogRecord, decode_transaction_record
from oncelog_coordinator.core.transactions.records import TRANSACTION_KEY, EpochRecord, Tombstone, TransactionRecord
from oncelog_coordinator.core.transactions.states import Outcome, TxnState, is_legal
from oncelog_coordinator.core.transactions.transaction_index import (
    Entry,
    ForcedAbort,
    LookedAt,
    MarkersIn,
    ParticipantJoined,
    SignOfLife,
    TransactionIndex,
)
from oncelog_coordinator.core.transactions.transaction_state import with_what_leaders_heard

_DECISIONS: dict[type, Callable[[TransactionIndex, Any, int], Decision]] = {
    cmd.InitProducerId: client.init_producer_id,
    cmd.Enrol: client.enrol,
    cmd.End: client.end,
    cmd.GetOutcome: lambda index, command, _: client.get_outcome(index, command),
    cmd.Join: participants.join,
    cmd.Renew: participants.renew,
    cmd.Commit: participants.commit,
    cmd.Abort: participants.abort,
    cmd.Resolve: healing.resolve,
    cmd.MarkersCommitted: lambda index, command, _: healing.markers_committed(index, command),
    cmd.MarkersDone: healing.markers_done,
    cmd.ForceAbort: healing.force_abort,
    cmd.ListIds: lambda index, command, _: healing.list_ids(index, command),
    cmd.Describe: lambda index, command, _: healing.describe(index, command),
}


class TransactionTable:
    """Holds all transactional ids of one shard."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.index = TransactionIndex(limits or Limits())
        self._open_deadlines = timeouts.Deadlines()
        self._expiries = timeouts.Deadlines()
        self._orphans = timeouts.Deadlines()

    # ------------------------------------------------------------ reading

    def decide(self, command: Command[object], now_ms: int) -> Decision:
        """Decides about a command. Raises `OncelogError` to refuse it."""
        if isinstance(command, cmd.Tick):
            limit = self.index.limits.expire_per_tick
            open_ids = self._open_deadlines.due(now_ms, limit)
            idle_ids, orphans = self._expiries.due(now_ms, limit), self._orphans.due(now_ms, limit)
            return timeouts.tick(self.index, open_ids, idle_ids, now_ms, orphans)
        return _DECISIONS[type(command)](self.index, command, now_ms)

    def knows(self, transactional_id: str) -> bool:
        """True when the id has a producer id."""
        return transactional_id in self.index.entries

    def pending(self, now_ms: int) -> tuple[cmd.SendMarkers, ...]:
        """Returns the markers of every decided transaction that are not all on disk."""
        del now_ms
        return tuple(send_markers(record, item) for record in self.index.records() for item in record.decided)

    def next_deadline_ms(self) -> int | None:
        """Returns the earliest time at which a `Tick` may find something to do; None = never."""
        times = (self._open_deadlines.next_ms, self._expiries.next_ms, self._orphans.next_ms)
        return min((time for time in times if time is not None), default=None)

    # ------------------------------------------------------------ writing

    def decode(self, key: str, value: bytes | None) -> TransactionLogRecord:
        """Decodes a record of the log, for `apply`; a missing value is a tombstone."""
        return Tombstone(key) if value is None else decode_transaction_record(key, value)

    def loaded(self, now_ms: int) -> None:
        """Ends the replay: leases start again, and deadlines are set."""
        self.index.loaded_at_ms = now_ms
        for name, entry in self.index.entries.items():
            entry.touched_ms = now_ms
            self._watch(name, entry)
        for record in self.index.orphans.values():
            self._watch_orphan(record, now_ms)

    def apply(self, record: LogRecord | Note) -> None:
        """Applies a record, from `decide` or from the log, or a note."""
        if isinstance(record, TransactionRecord):
            self._apply_transaction(record)
        elif isinstance(record, OrphanRecord):
            self.index.orphans[record.producer_id] = record
            if self.index.loaded_at_ms is not None:
                self._watch_orphan(record, record.closed_ms)
        elif isinstance(record, RemovedIds):
            self.index.removed = record
        elif isinstance(record, Tombstone):
            self._remove(record.key)
        elif isinstance(record, EpochRecord):
            pass
        else:
            self._note(record)

    def _apply_transaction(self, record: TransactionRecord) -> None:
        name = record.transactional_id
        record = with_what_leaders_heard(record)
        entry = self.index.entries.get(name)
        live = self.index.loaded_at_ms is not None
        if entry is None:
            entry = self.index.entries[name] = Entry(record)
            self.index.ids[record.producer_id] = name
            began = record.open is not None
        else:
            if live:
                _assert_legal(entry.record, record)
            old, new = entry.record.open, record.open
            began = new is not None and (old is None or old.txn_no != new.txn_no)
            entry.record = record
        self.index.note(record)
        if began or record.open is None:
            entry.participants = set()
            entry.opened_here = began and live
            entry.touched_ms = record.updated_ms
        if entry.markers_in:
            pending = {item.txn_no for item in record.decided}
            entry.markers_in = {n: seen for n, seen in entry.markers_in.items() if n in pending}
            entry.markers_done = {n: done for n, done in entry.markers_done.items() if n in pending}
        if live:
            self._watch(name, entry)

    def _remove(self, key: str) -> None:
        if (orphan := self.index.orphan(key)) is not None:
            del self.index.orphans[orphan.producer_id]
        if not key.startswith(TRANSACTION_KEY):
            return
        name = key.removeprefix(TRANSACTION_KEY)
        record = self.index.find(name)
        if record is not None and self.index.loaded_at_ms is not None:
            _assert_may_go(record, self.index.removed)
        self.index.remove(name)

    def _watch(self, name: str, entry: Entry) -> None:
        due_ms = timeouts.open_deadline_ms(entry, self.index.loaded_at_ms)
        if due_ms is not None:
            self._open_deadlines.watch(name, due_ms)
        due_ms = timeouts.idle_deadline_ms(entry.record, self.index.limits)
        if due_ms is not None:
            self._expiries.watch(name, due_ms)

    def _watch_orphan(self, record: OrphanRecord, now_ms: int) -> None:
        self._orphans.watch(record.key, timeouts.orphan_deadline_ms(record, now_ms, self.index.limits))

    def _note(self, note: LogRecord | Note) -> None:
        if isinstance(note, LookedAt):
            self._open_deadlines.looked(note.open_ids, note.now_ms)
            self._expiries.looked(note.idle_ids, note.now_ms)
            for name in (*note.open_ids, *note.idle_ids):
                looked_at = self.index.entry(name)
                if looked_at is not None:
                    self._watch(name, looked_at)
            self._orphans.looked(note.orphans, note.now_ms)
            for key in note.orphans:
                if (orphan := self.index.orphan(key)) is not None:
                    self._watch_orphan(orphan, note.now_ms)
            return
        assert isinstance(note, ParticipantJoined | SignOfLife | MarkersIn | ForcedAbort), f"unknown note {note!r}"
        entry = self.index.entries[note.transactional_id]
        if isinstance(note, ForcedAbort):
            entry.forced = note
            return
        if isinstance(note, MarkersIn):
            entry.take_markers(note)
            return
        opened = entry.record.open
        if opened is None or opened.txn_no != note.txn_no:
            return
        entry.touched_ms = max(entry.touched_ms, note.now_ms)
        if isinstance(note, ParticipantJoined):
            entry.participants.add(note.producer_id)

    # ------------------------------------------------------------ checking

    def check(self) -> None:
        """Asserts every invariant."""
        for name, entry in self.index.entries.items():
            record = entry.record
            assert record.transactional_id == name
            assert self.index.ids[record.producer_id] == name, "a producer id belongs to one transactional id"
            check_record(record, self.index.limits)
            if record.open is None:
                assert not entry.participants, "participants without an open transaction"
            assert set(entry.markers_done) <= set(entry.markers_in) <= {item.txn_no for item in record.decided}
            if record.open is not None and self.index.loaded_at_ms is not None:
                assert self._open_deadlines.next_ms is not None, "an open transaction without a deadline"
        assert self.index.loaded_at_ms is None or not self.index.orphans or self._orphans.next_ms is not None
        assert len(self.index.ids) == len(self.index.entries)
        records = [entry.record for entry in self.index.entries.values()]
        assert set(self.index.open) == {record.transactional_id for record in records if record.open is not None}
        assert set(self.index.completing) == {record.transactional_id for record in records if record.decided}
        assert set(self.index.lasting) == {record.transactional_id for record in records if record.is_lasting}


def check_record(record: TransactionRecord, limits: Limits) -> None:
    """Asserts the invariants of one id."""
    pending = [item.txn_no for item in record.decided]
    assert pending == sorted(set(pending)), "decided transactions are in order, each once"
    assert all(0 < n <= record.last_decided for n in pending)
    unsynced = len(pending) + (record.open is not None)
    assert unsynced <= limits.max_unsynced_transactions
    assert unsynced - sum(item.was_visible for item in record.decided) <= limits.max_pending_transactions
    assert all(item.targets or item.groups for item in record.decided), "nothing to mark, yet not complete"
    assert len(record.outcomes) <= min(limits.kept_outcomes, record.last_decided)
    assert all(n > record.last_txn_no for n in record.aborted_ahead)
    assert record.open is not None or record.last_txn_no + 1 not in record.aborted_ahead
    assert len(record.tokens) == len({token.app_id for token in record.tokens})
    if record.open is not None:
        assert record.open.txn_no == record.last_txn_no
        assert record.open.joined == bool(record.owner.run), "joined transactions belong to a run, others do not"
        assert not record.dead
    if record.expected:
        assert not record.owner.run, "runs join; only clients' own transactions are enrolled ahead"
        bound = limits.expected_partitions
        assert max(len(record.expected.partitions), len(record.expected.groups)) <= bound
    if record.dead:
        assert not record.decided
        assert not record.expected
        assert not record.outcomes.strip(Outcome.ABORTED), (
            "outcomes of a dead id, other than what healing has closed since"
        )
    for item in record.decided:
        index = len(record.outcomes) - 1 - (record.last_decided - item.txn_no)
        assert index < 0 or record.outcomes[index] == item.outcome.value, "two outcomes of one number"


def _assert_may_go(record: TransactionRecord, removed: RemovedIds) -> None:
    """Asserts that an id may be removed: it has expired, is not needed any more, and `removed` covers its numbers."""
    assert record.dead, f"{record.transactional_id} has not expired"
    assert record.open is None, f"{record.transactional_id} has an open transaction"
    assert not record.decided, f"{record.transactional_id} waits for markers"
    assert not record.is_lasting, f"{record.transactional_id} holds a token that is never forgotten"
    assert removed.with_id(record) == removed, (
        f"{record.transactional_id} had higher numbers than removed ids are said to have"
    )


def _assert_legal(old: TransactionRecord, new: TransactionRecord) -> None:
    """Asserts that every number takes a legal step, and that nothing goes back that must not."""
    assert new.producer_id == old.producer_id
    assert new.session_epoch >= old.session_epoch
    assert new.owner.number >= old.owner.number
    assert new.last_txn_no >= old.last_txn_no
    for token in old.tokens:
        after = new.token_of(token.app_id)
        assert after is not None, "a token is never forgotten"
        assert after.batch_id >= token.batch_id, "a token never goes back"
        assert token.expires or not after.expires, "a token that must last never expires"
    stays = {item.txn_no: item for item in new.decided}
    moved = {item.txn_no for item in old.decided if stays.get(item.txn_no) is not item}
    for number in sorted(moved | set(range(max(1, old.last_txn_no), new.last_txn_no + 1))):
        before, after_state = old.state_of(number), new.state_of(number)
        if TxnState.DEAD in (before, after_state):
            continue
        assert is_legal(before, after_state), f"{before} -> {after_state} of {number} of {new.transactional_id}"
