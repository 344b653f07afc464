"""The unsettled records of a channel on a partition, and who may have them: one entry for each, and the indices over them.

Rule 1: `move` changes a state and every index at once, so they always agree (`check`).
Rule 2: a record that was never delivered has no entry unless the channel keeps the order of keys: a backlog costs ranges.
Rule 3: in `fresh` and `ready` is what may be delivered now; with key order, heads of their keys only. A record waits behind an
    earlier one of its key until that one is settled, and durably so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from oncelog_partition_leader.core.channels.key_order import KeyOrder
from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange, OffsetRanges
from oncelog_partition_leader.core.channels.record.deadlines import Deadlines
from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.record_states import RecordState

_S: Final = RecordState


class Records:
    """The unsettled records."""

    __slots__ = ("deadlines", "entries", "fresh", "held", "keys", "ready", "states", "waiting")

    def __init__(self, order_by_key: bool) -> None:
        self.entries: dict[int, Entry] = {}
        self.fresh = OffsetRanges()
        """Records that may be delivered for the first time."""
        self.ready: OrderedDict[int, None] = OrderedDict()
        """Records that may be delivered again, the one that has waited longest first."""
        self.waiting: set[int] = set()
        """Records that come again when their pause has passed."""
        self.held: dict[str, set[int]] = {}
        """Worker -> what it has in flight."""
        self.states = dict.fromkeys(_S, 0)
        """How many entries each state has."""
        self.keys = KeyOrder() if order_by_key else None
        self.deadlines = Deadlines()

    # ------------------------------------------------------------ coming and going

    def add_fresh(self, first: int, last: int) -> None:
        """Takes in records without an order that were never delivered."""
        assert self.keys is None, "with key order every record has an entry"
        self.fresh.add(first, last)

    def add(self, entry: Entry) -> None:
        """Takes in a record, above all others of its key."""
        self.entries[entry.offset] = entry
        self.states[entry.state] += 1
        if self.keys is not None:
            self.keys.add(entry.key, entry.offset)
        if entry.due_ms is not None:
            self.deadlines.add(entry.due_ms, entry.offset, entry.offset)
        if entry.state is _S.AVAILABLE:
            self._offer(entry)

    def clear(self) -> None:
        """Forgets everything."""
        self.entries.clear()
        self.fresh.clear()
        self.ready.clear()
        self.waiting.clear()
        self.held.clear()
        self.states = dict.fromkeys(_S, 0)
        self.deadlines.clear()
        if self.keys is not None:
            self.keys.clear()

    # ------------------------------------------------------------ steps

    def move(self, entry: Entry, to: RecordState, worker_id: str = "", due_ms: int | None = None) -> None:
        """Takes a step of the table. `due_ms`: what is due in the new state; the caller adds it to `deadlines`."""
        old = entry.state
        entry.move(to)
        if old is _S.IN_FLIGHT:
            self._let_go(entry)
        elif old is _S.AVAILABLE:
            self._withdraw(entry)
        entry.due_ms = due_ms
        self.states[old] -= 1
        self.states[to] += 1
        if to is _S.IN_FLIGHT:
            entry.worker = worker_id
            self.held.setdefault(worker_id, set()).add(entry.offset)
        elif to is _S.AVAILABLE:
            entry.worker = ""
            self._offer(entry)
        elif to is _S.SETTLED:
            self._forget(entry)

    def pause_over(self, entry: Entry) -> None:
        """Offers an available record whose time has come."""
        self._withdraw(entry)
        entry.due_ms = None
        self._offer(entry)

    def take_fresh(self, most: int, worker_id: str, due_ms: int, now_ms: int) -> list[OffsetRange]:
        """Delivers up to `most` records for the first time, the lowest ones."""
        runs = []
        while most > 0 and self.fresh:
            first, last = self.fresh.pop_first(most)
            most -= last - first + 1
            runs.append((first, last))
            if self.keys is None:
                self._deliver_new(first, last, worker_id, due_ms, now_ms)
                continue
            for offset in range(first, last + 1):
                self.deliver(self.entries[offset], worker_id, due_ms, now_ms)
        return runs

    def _deliver_new(self, first: int, last: int, worker_id: str, due_ms: int, now_ms: int) -> None:
        """Delivers neighbours that have no entry yet; what `deliver` does, without indices that they are not in."""
        held = self.held.setdefault(worker_id, set())
        for offset in range(first, last + 1):
            entry = self.entries[offset] = Entry(offset)
            held.add(offset)
            entry.move(_S.IN_FLIGHT)
            entry.worker, entry.deliveries, entry.since_ms, entry.due_ms = worker_id, 1, now_ms, due_ms
        self.states[_S.IN_FLIGHT] += last - first + 1

    def deliver(self, entry: Entry, worker_id: str, due_ms: int, now_ms: int) -> None:
        """Makes a record the worker's, with one delivery more. The caller adds `due_ms` to `deadlines`."""
        self.move(entry, _S.IN_FLIGHT, worker_id, due_ms)
        entry.deliveries += 1
        entry.since_ms = now_ms

    def is_head(self, entry: Entry) -> bool:
        """Returns True when no earlier unsettled record stands in its way."""
        return self.keys is None or self.keys.is_head(entry.key, entry.offset)

    def tidy(self) -> None:
        """Throws away times that are out of date, when they have become many."""
        if self.deadlines.is_stale(len(self.entries)):
            self.deadlines.rebuild(self.entries.values())

    # ------------------------------------------------------------ indices

    def _offer(self, entry: Entry) -> None:
        if entry.due_ms is not None:
            self.waiting.add(entry.offset)
        elif not self.is_head(entry):
            pass  # it is offered when it has become the head
        elif entry.deliveries > 0:
            self.ready[entry.offset] = None
        else:
            self.fresh.add(entry.offset, entry.offset)
            if self.keys is None:
                del self.entries[entry.offset]
                self.states[_S.AVAILABLE] -= 1

    def _withdraw(self, entry: Entry) -> None:
        offset = entry.offset
        if entry.deliveries == 0:
            self.fresh.remove(offset, offset)
        self.ready.pop(offset, None)
        self.waiting.discard(offset)

    def _let_go(self, entry: Entry) -> None:
        held = self.held[entry.worker]
        held.remove(entry.offset)
        if not held:
            del self.held[entry.worker]

    def _forget(self, entry: Entry) -> None:
        del self.entries[entry.offset]
        self.states[_S.SETTLED] -= 1
        if self.keys is None:
            return
        head = self.keys.remove(entry.key, entry.offset)
        if head is not None and (after := self.entries[head]).state is _S.AVAILABLE and after.due_ms is None:
            self._offer(after)

    # ------------------------------------------------------------ invariants

    def check(self) -> None:
        """Asserts that the indices say what the entries say, and that keys are in order."""
        entries = self.entries.values()
        assert all(offset == entry.offset for offset, entry in self.entries.items()), "an entry is found by its offset"
        assert self.states == {state: sum(entry.state is state for entry in entries) for state in _S}, (
            "counts of states"
        )
        assert self.states[_S.SETTLED] == 0, "what is settled has no entry"
        assert all(self.held.values()), "a worker that holds nothing has no set"
        held = {(worker, offset) for worker, offsets in self.held.items() for offset in offsets}
        assert held == {(e.worker, e.offset) for e in entries if e.state is _S.IN_FLIGHT}, "one owner each"
        assert sum(len(offsets) for offsets in self.held.values()) == self.states[_S.IN_FLIGHT], (
            "no record has two owners"
        )
        self._check_offers(e for e in entries if e.state is _S.AVAILABLE)
        assert all(e.due_ms is not None for e in entries if e.state is _S.IN_FLIGHT), (
            "who holds a record has a deadline"
        )
        self.deadlines.check(entries)
        if self.keys is None:
            assert not any(offset in self.fresh for offset in self.entries), "what was never delivered has no entry"
            return
        self.keys.check()
        assert all(offset in self.keys.chain(e.key) for offset, e in self.entries.items() if e.key >= 0), (
            "all have an order"
        )
        assert all(self.is_head(e) for e in entries if e.state is _S.IN_FLIGHT), "only heads of keys are with workers"

    def _check_offers(self, available: Iterable[Entry]) -> None:
        ready, waiting, fresh = set(), set(), OffsetRanges()
        for entry in available:
            if entry.due_ms is not None:
                waiting.add(entry.offset)
            elif self.is_head(entry) and entry.deliveries > 0:
                ready.add(entry.offset)
            elif self.is_head(entry):
                fresh.add(entry.offset, entry.offset)
        assert set(self.ready) == ready, "what may come again"
        assert self.waiting == waiting, "what has a pause"
        assert self.fresh == fresh if self.keys is not None else not fresh, "what may come for the first time"
