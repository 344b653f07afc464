"""Decides when a transaction or an id runs out of time. A time-out only ever aborts or forgets; it never commits.

Rule 1: `now_ms` is a wall clock that never steps back within one process (the shell sees to it); a later owner's clock
        may be behind.  So the age of a transaction counts from its start or, when it was opened in an earlier epoch of
        the shard, from the end of this epoch's replay if that is earlier: a clock that went back cannot keep a
        transaction open for longer than its time-out.
Rule 2: a lease starts again at fail-over, since renewals are volatile; the hard cap does not.
Rule 3: an id is removed only after it has expired, and the record of the expiry holds its time.  So a clock that jumped
        forward expires an id that was just used, and does not remove it; one that went back delays both.
Rule 4: an expired id has no open transaction and none that waits for a marker: no leader, group or participant depends
        on it.
Rule 5: numbers that healing has closed under a producer id without an owner are forgotten after
        `transactional_id_retention_ms`. A producer id is given once, so no client begins with it later. Who asks again gets
        the same outcome, or, where a removed id may have had the number, the error that it is forgotten; never a commit.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from oncelog_coordinator.core.decision import Decision, Effect, LogRecord, TransactionEnded
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import checks as parts
from oncelog_coordinator.core.transactions import transaction_state as state
from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord
from oncelog_coordinator.core.transactions.records import Tombstone, TransactionRecord
from oncelog_coordinator.core.transactions.transaction_index import Entry, LookedAt, TransactionIndex


class Deadlines:
    """A heap with the earliest time at which something may be due for an id. An entry may be stale, so the caller
    checks again.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._noted: dict[str, int] = {}

    def watch(self, name: str, due_ms: int) -> None:
        """Notes when to look at an id; a later time than the noted one is found at that look."""
        known = self._noted.get(name)
        if known is None or due_ms < known:
            self._noted[name] = due_ms
            heapq.heappush(self._heap, (due_ms, name))

    @property
    def next_ms(self) -> int | None:
        """The earliest time at which something may be due."""
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int, limit: int) -> list[str]:
        """Returns up to `limit` names that are due, earliest first. Nothing is removed, and the rest of the heap is not
        visited.
        """
        found: list[str] = []
        next_ones = [(entry, 0) for entry in self._heap[:1]]
        while next_ones and len(found) < limit:
            (due_ms, name), place = heapq.heappop(next_ones)
            if due_ms > now_ms:
                break
            found.append(name)
            for child in range(2 * place + 1, min(2 * place + 3, len(self._heap))):
                heapq.heappush(next_ones, (self._heap[child], child))
        return found

    def looked(self, names: tuple[str, ...], now_ms: int) -> None:
        """Removes the entries of ids that `due` has returned; the caller adds an id again when it still has a deadline.

        These entries come first in the heap.  If an earlier entry was added since then, the removal stops there, and
        the next look begins with it.
        """
        chosen = set(names)
        while self._heap and self._heap[0][0] <= now_ms and self._heap[0][1] in chosen:
            due_ms, name = heapq.heappop(self._heap)
            if self._noted.get(name) == due_ms:
                del self._noted[name]


def open_deadline_ms(entry: Entry, loaded_at_ms: int | None) -> int | None:
    """Returns when the open transaction is aborted; None when nothing is open."""
    opened = entry.record.open
    if opened is None:
        return None
    started_ms = opened.started_ms
    if loaded_at_ms is not None and not entry.opened_here:
        started_ms = min(started_ms, loaded_at_ms)
    hard_cap_ms = started_ms + opened.timeout_ms
    if not opened.joined:
        return hard_cap_ms
    return min(hard_cap_ms, max(entry.touched_ms, started_ms) + opened.lease_ms)


def idle_deadline_ms(record: TransactionRecord, limits: Limits) -> int | None:
    """Returns when the id expires or, once expired, is removed; None while it has open or unfinished transactions, or
    must last.
    """
    if record.open is not None or record.decided:
        return None
    if not record.dead:
        return record.updated_ms + limits.transactional_id_expiration_ms
    return None if record.is_lasting else record.updated_ms + limits.transactional_id_retention_ms


def orphan_deadline_ms(record: OrphanRecord, now_ms: int, limits: Limits) -> int:
    """Returns when the record of an orphan is forgotten, or at once when it says no time, so that it gets one. A time that is
    to come, from a clock that was ahead, counts as now.
    """
    return min(record.closed_ms, now_ms) + limits.transactional_id_retention_ms if record.closed_ms else now_ms


def _forgotten(index: TransactionIndex, keys: Sequence[str], now_ms: int) -> list[LogRecord]:
    """Returns the tombstones of orphans to which no number was added for long; those without a time get one."""
    found: list[LogRecord] = []
    for key in dict.fromkeys(keys):
        record = index.orphan(key)
        if record is not None and not record.closed_ms:
            found.append(replace(record, closed_ms=now_ms))
        elif (
            record is not None and not now_ms - index.limits.transactional_id_retention_ms < record.closed_ms <= now_ms
        ):
            found.append(Tombstone(key))
    return found


def tick(
    index: TransactionIndex, open_ids: list[str], idle_ids: list[str], now_ms: int, orphans: Sequence[str] = ()
) -> Decision:
    """Aborts transactions that are past their time, expires idle ids, and removes ids, and orphans, from long ago."""
    records: list[LogRecord] = []
    effects: list[Effect] = []
    ended: list[TransactionEnded] = []
    for name in open_ids:
        entry = index.entry(name)
        due_ms = None if entry is None else open_deadline_ms(entry, index.loaded_at_ms)
        if entry is not None and due_ms is not None and due_ms <= now_ms:
            after = state.abort_open(entry.record, now_ms, index.limits)
            decision = parts.decided_now(entry.record, after, None, timed_out=True)
            records += decision.records
            effects += decision.effects
            ended += decision.ended
    idle = _overdue(index, idle_ids, now_ms)
    for record in idle:
        if not record.dead:
            decision = _expired(record, index, now_ms)
            records += decision.records
            effects += decision.effects
            ended += decision.ended
    records += _removal(index, [record for record in idle if record.dead])
    records += _forgotten(index, orphans, now_ms)
    note = LookedAt(tuple(open_ids), tuple(idle_ids), now_ms, tuple(orphans))
    return Decision(records=tuple(records), notes=(note,), effects=tuple(effects), ended=tuple(ended))


def _overdue(index: TransactionIndex, names: list[str], now_ms: int) -> list[TransactionRecord]:
    """Returns the records past their idle time, each once, although the heap may hold a name twice."""
    found: list[TransactionRecord] = []
    for name in dict.fromkeys(names):
        record = index.find(name)
        due_ms = None if record is None else idle_deadline_ms(record, index.limits)
        if record is not None and due_ms is not None and due_ms <= now_ms:
            found.append(record)
    return found


def _removal(index: TransactionIndex, gone: list[TransactionRecord]) -> list[LogRecord]:
    """Returns the records that remove these ids. The bounds that are kept are applied before the tombstones and logged
    in the same append, so no id is removed without them.
    """
    removed = index.removed
    for record in gone:
        removed = removed.with_id(record)
    kept: list[LogRecord] = [] if removed == index.removed else [removed]
    return kept + [Tombstone(record.key) for record in gone]


def _expired(record: TransactionRecord, index: TransactionIndex, now_ms: int) -> Decision:
    """Expires an idle id. When its next number may be open at a leader that was unreachable, that number is aborted first."""
    opened = state.assume_opened(record, now_ms)
    if opened is record:
        return Decision(records=(state.expire(record, now_ms),))
    return parts.decided_now(record, state.abort_open(opened, now_ms, index.limits), None, timed_out=True)
