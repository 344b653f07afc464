"""One channel on one partition, as long as one leadership lasts: which record goes to which worker, and how that ends.

It is made of the unsettled records (`records.py`), the window (`window.py`), what waits to be written (`writing.py`), the ends
of deliveries (`fates.py`), the words of workers (`settling.py`) and transactions (`open_transactions.py`).

Rule 1: a record whose acknowledgement is durable (`written`, or a transaction that has committed) is never delivered again.
Rule 2: a record that the log shows is in one state of `record_states.TRANSITIONS` until it is settled; none is lost (`check`).
Rule 3: a record has one owner until its deadline. With `order_by_key` it is alone of its key, and nothing overtakes it.
Rule 4: whatever is refused, and each question, changes nothing but what `tick` does anyway at that time.
Rule 5: a step costs by the records that it touches. A backlog that was never delivered costs ranges, unless keys have an order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange
from oncelog_partition_leader.core.channels.open_transactions import OpenTransactions
from oncelog_partition_leader.core.channels.pending_list import PendingRecord, Question, pending_records
from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.fates import Counts, Fates
from oncelog_partition_leader.core.channels.record.record_states import RecordState
from oncelog_partition_leader.core.channels.record.records import Records
from oncelog_partition_leader.core.channels.settlement import Claim, Dead, Refused, Settlement, Taken
from oncelog_partition_leader.core.channels.settling import Settling
from oncelog_partition_leader.core.channels.stored_state import Retried, Stored, StoredPending, Write
from oncelog_partition_leader.core.channels.window import Window
from oncelog_partition_leader.core.channels.writing import Draft, WriteQueue
from oncelog_partition_leader.core.producers.transactions import TxnName
from oncelog_runtime.metadata.channel_values import ChannelOptions

__all__ = ["Counts", "Delivery", "PendingRecord"]

ENOUGH: Final = 4_096
"""So many available records are enough for now; when half of them are gone it wants more."""
IDLE_ADVANCE: Final = 1_024
"""`settled_before` is written alone when it has moved so far: a block of the coordinator may go (transactions, retention)."""
_S: Final = RecordState


class Delivery:
    """One channel on one partition in one leadership; it has methods for all that may happen to it.

    `now_ms` is monotonic, in milliseconds, everywhere.
    """

    def __init__(self, options: ChannelOptions, stored: Stored, now_ms: int) -> None:
        self._records = Records(options.order_by_key)
        self._window = Window(self._records, stored, now_ms)
        self._writes = WriteQueue(stored.write_no)
        self._fates = Fates(options, self._records, self._writes)
        self._settling = Settling(self._records, self._window, self._writes, self._fates)
        self._transactions = OpenTransactions(self._records, self._window, self._fates, stored.pending)
        self._seeks = stored.seeks
        self._told_before = stored.settled_before
        """The `settled_before` that the coordinator knows."""
        self._paused = False
        self._retried_first = 0
        """1 when the odd record of a `take` is one that came back; it alternates, so neither kind waits for the other."""

    # ------------------------------------------------------------ what the log has

    @property
    def next_offset(self) -> int:
        """The offset from which `supply` goes on."""
        return self._window.next_offset

    @property
    def settled_before(self) -> int:
        """Everything below is settled, and durably so, or has no record that could be delivered."""
        return self._window.settled_before

    def wants(self, now_ms: int) -> int:
        """Returns how many more offsets it wants to know of; 0 = it has enough, its window is full, or it is paused."""
        there = self.available(now_ms)
        if self._paused or there > ENOUGH // 2:
            return 0
        return min(self._window.room(self._fates.options.max_unsettled), ENOUGH - there)

    def supply(
        self,
        first_offset: int,
        next_offset: int,
        visible: Iterable[OffsetRange],
        key_hashes: Sequence[int] | None = None,
    ) -> None:
        """Takes what the log has in [first_offset, next_offset): the records of `visible`, in ascending order.

        What is below `self.next_offset` is known already, and what is beyond the window is left for a later call: see
        `self.next_offset` afterwards. A call that begins above `self.next_offset` (a seek came between) does nothing.
        `key_hashes`: of a channel with `order_by_key` only, one for each visible record, 0 to 2^64 - 1; `NO_KEY` (of
        `key_order.py`) = it has no key.
        """
        assert (key_hashes is not None) == self._fates.options.order_by_key, "hashes belong to channels with an order"
        end = min(next_offset, self.next_offset + self._window.room(self._fates.options.max_unsettled))
        self._window.supply(first_offset, end, visible, key_hashes, self._transactions.ranges)

    def log_begins_at(self, offset: int) -> None:
        """Settles all records below: retention has deleted them."""
        if offset <= self.settled_before:
            return
        below = sorted(entry for entry in self._records.entries if entry < offset)
        settling = sum(self._records.entries[entry].state is _S.SETTLING for entry in below)
        self._fates.expired += self._window.unsettled_below(offset) - settling
        for entry in below:
            self._fates.expire(self._records.entries[entry])
        self._records.fresh.remove_below(offset)
        self._transactions.expire(offset)
        self._window.settle(self.settled_before, offset - 1)
        self._window.advance()

    # ------------------------------------------------------------ workers

    def available(self, now_ms: int) -> int:
        """Returns how many records could be delivered now."""
        self.tick(now_ms)
        return 0 if self._paused else self._records.fresh.count + len(self._records.ready)

    def take(self, worker_id: str, most: int, now_ms: int) -> list[Taken]:
        """Gives the worker up to `most` records. They are the worker's until `now_ms + options.ack_wait_ms`.

        Records that came back and new ones get half of it each, as long as there are both. It may be less than
        `available` said: a record that may not be delivered any more dies instead.
        """
        there = self.available(now_ms)
        if most <= 0 or there == 0:
            return []
        if self._records.ready and self._records.fresh and most % 2:
            self._retried_first = 1 - self._retried_first
        from_ready = (most + self._retried_first) // 2
        return self._settling.take(worker_id, most, from_ready, now_ms)

    def settle(self, worker_id: str, settlement: Settlement, now_ms: int) -> list[Refused]:
        """Does what the worker says about its records, and returns those that it does not hold.

        All that was settled so far is durable when write `written_with` is confirmed. A REJECT whose letter is still to be
        written (`is_burying`) is settled with that: until then a fail-over brings the record again.
        Raises `InvalidRequestError` and changes nothing for a settlement that is out of range.
        """
        return self._settling.settle(worker_id, settlement, now_ms)

    def claim(self, worker_id: str, claim: Claim, now_ms: int) -> list[Taken]:
        """Gives the worker records of others: each is a new delivery, by which the one before ends.

        Records that were delivered `max_deliveries` times, or are in a transaction, stay where they are. So do those that were
        delivered to another worker, or touched by it, a moment ago (`settling.sure_ms`).
        """
        self.tick(now_ms)
        return self._settling.claim(worker_id, claim, now_ms)

    def claimable(self, worker_id: str, claim: Claim, now_ms: int) -> list[OffsetRange]:
        """Returns what `claim` would give the worker now, in ascending order."""
        self.tick(now_ms)
        return self._settling.claimable(worker_id, claim, now_ms)

    def worker_left(self, worker_id: str, now_ms: int, *, released: bool = False) -> None:
        """Gives back what the worker holds. `released`: it said so itself, and these deliveries do not count.

        What it has put into a transaction stays there without an owner: if it is refused, it comes again.
        """
        for offset in sorted(self._records.held.get(worker_id, ())):
            entry = self._records.entries[offset]
            if released:
                self._fates.release(entry)
            else:
                self._fates.fail(entry, now_ms)
        self._transactions.disown(worker_id)

    def in_flight_of(self, worker_id: str) -> int:
        """Returns how many records the worker holds (those in a transaction not counted)."""
        return len(self._records.held.get(worker_id, ()))

    # ------------------------------------------------------------ transactions

    def enter_transaction(
        self, worker_id: str, name: TxnName, items: Sequence[Settlement], now_ms: int
    ) -> list[OffsetRange]:
        """Makes all these records IN_TXN, and returns their offsets for the coordinator, merged and in ascending order.

        All or nothing: raises `NotOwnerError` when the worker does not hold one of them in its delivery. A record that
        the same worker has put into the same transaction is fine (a repeated call). Raises `InvalidRequestError` for an
        item that is out of range or no ACK. A record whose deadline has passed by now is not the worker's any more.
        """
        self.tick(now_ms)
        return self._transactions.enter(worker_id, name, items)

    def left_transaction(self, name: TxnName, ranges: Iterable[OffsetRange], now_ms: int) -> None:
        """Gives records back to their owner, with a new deadline: the coordinator has refused them for certain. Those whose
        owner has left come again.
        """
        self._transactions.give_back(name, ranges, now_ms)

    def ended_transaction(self, name: TxnName, settled: Iterable[OffsetRange], now_ms: int) -> None:
        """Settles those of the transaction's records that are in `settled`; the others come again after their pause."""
        self._transactions.end(name, settled, now_ms)

    def open_transactions(self) -> list[StoredPending]:
        """Returns the transactions whose outcome is not known, with their records."""
        return self._transactions.open()

    def open_transaction(self, name: TxnName) -> tuple[OffsetRange, ...]:
        """Returns the records of one transaction; none when it is not open here."""
        return self._transactions.of(name)

    # ------------------------------------------------------------ time

    def tick(self, now_ms: int) -> None:
        """Does what is due: deadlines that have passed, pauses that are over."""
        for first, last in self._records.deadlines.due(now_ms):
            for offset in range(first, last + 1):
                entry = self._records.entries.get(offset)
                if entry is not None and entry.due_ms is not None and entry.due_ms <= now_ms:
                    self._on_due(entry, now_ms)
        self._records.tidy()

    def _on_due(self, entry: Entry, now_ms: int) -> None:
        if entry.state is _S.IN_FLIGHT:
            self._fates.fail(entry, now_ms)
        elif entry.state is _S.AVAILABLE:
            self._records.pause_over(entry)
        else:
            assert entry.state is _S.BURYING, "nothing is due in another state"
            entry.due_ms = None
            self._fates.burial.again(entry.offset)

    def next_deadline_ms(self) -> int | None:
        """Returns when `tick` has to be called next, or None. It may be early, never late."""
        return self._records.deadlines.next_ms()

    # ------------------------------------------------------------ writing

    def next_write(self, now_ms: int) -> Write | None:
        """Returns what has to be written, or None: nothing, or the last one is not `written` yet."""
        if not self._writes.has_news and self.settled_before < self._told_before + IDLE_ADVANCE:
            return None
        draft = self._writes.begin()
        return None if draft is None else self._write(draft, now_ms)

    def _write(self, draft: Draft, now_ms: int) -> Write:
        before = self._window.settled_with(draft.settled)
        above = tuple(draft.settled.within(before, draft.settled.last)) if draft.settled else ()
        changed = (self._records.entries[offset] for offset in draft.retried if offset in self._records.entries)
        retried = tuple(
            Retried(entry.offset, entry.ended_deliveries, _pause_ms(entry, now_ms))
            for entry in changed
            if entry.state is not _S.SETTLING and entry.ended_deliveries > 0
        )
        self._told_before = before
        return Write(draft.number, before, above, retried, draft.is_seek)

    def written(self, write_no: int) -> None:
        """Notes that the coordinator has confirmed the outstanding write; another number is ignored."""
        draft = self._writes.written(write_no)
        if draft is None:
            return
        for first, last in draft.settled:
            for offset in range(first, last + 1):
                entry = self._records.entries.get(offset)
                if entry is not None:  # retention may have deleted it
                    self._records.move(entry, _S.SETTLED)
            self._window.settle(first, last)
        self._window.advance()

    @property
    def written_with(self) -> int:
        """The number of the write with which everything that was settled or given back so far is durable."""
        return self._writes.number

    @property
    def confirmed_write_no(self) -> int:
        """The number of the last confirmed write: what has a `written_with` up to it is durable."""
        return self._writes.confirmed

    @property
    def sent_write_no(self) -> int:
        """The number of the last write that was begun: the coordinator may have it."""
        return self._writes.sent

    @property
    def seeks(self) -> int:
        """How often the channel was sought on this partition, for `SendChannelAcks`."""
        return self._seeks

    @property
    def is_seeking(self) -> bool:
        """True while the coordinator has not confirmed a seek."""
        return self._writes.is_seeking

    # ------------------------------------------------------------ dead letters

    def to_bury(self) -> list[Dead]:
        """Returns records whose letters have to be written, each once: `buried` or `bury_later` is the answer to each.

        The list is bounded: it may be called again at once. Without a dead-letter topic (any more) it settles them.
        """
        entries = [self._records.entries[offset] for offset in self._fates.burial.take()]
        if self._fates.options.dead_letter_topic:
            reasons = self._fates.burial.reasons
            return [Dead(entry.offset, entry.deliveries, reasons[entry.offset]) for entry in entries]
        for entry in entries:
            self._fates.buried(entry)
        return []

    def is_burying(self, offset: int) -> bool:
        """Returns True while the record's dead letter has to be written."""
        return offset in self._fates.burial.reasons

    def buried(self, offset: int) -> None:
        """Notes that the letter is written."""
        entry = self._records.entries.get(offset)
        if entry is not None and entry.state is _S.BURYING:
            self._fates.buried(entry)

    def bury_later(self, offset: int, pause_ms: int, now_ms: int, trouble: str) -> None:
        """Notes that the letter could not be written, and why; `to_bury` returns the record again after the pause."""
        entry = self._records.entries.get(offset)
        if entry is not None and entry.state is _S.BURYING:
            self._fates.burial.troubles[offset] = trouble
            entry.due_ms = now_ms + pause_ms
            self._records.deadlines.add(entry.due_ms, offset, offset)

    # ------------------------------------------------------------ operators

    def seek(self, offset: int) -> None:
        """Goes on at another offset, and forgets all else. Durable, like a settlement, when `written_with` is confirmed."""
        assert offset >= 0, "the shell resolves the names of offsets"
        self._records.clear()
        self._window.seek(offset)
        self._fates.burial.clear()
        self._settling.lately.clear()
        self._transactions.ranges.clear()
        self._seeks += self._writes.seek()

    def pause(self, paused: bool) -> None:
        """Stops delivering, or goes on. What was delivered may be settled all the same."""
        self._paused = paused

    def configure(self, options: ChannelOptions) -> None:
        """Takes other options. `order_by_key` stays as it is."""
        assert options.order_by_key == self._fates.options.order_by_key, "the order of keys cannot be changed"
        self._fates.options = options

    def describe(self, now_ms: int) -> Counts:
        """Returns what there is, and what was done."""
        self.tick(now_ms)
        return self.counts()

    def counts(self) -> Counts:
        """Returns the same without doing what is due."""
        states, fates = self._records.states, self._fates
        return Counts(
            depth=self._window.unsettled_below(self.next_offset) - states[_S.SETTLING],
            in_flight=states[_S.IN_FLIGHT],
            in_transaction=states[_S.IN_TXN],
            waiting=len(self._records.waiting),
            delivered=fates.delivered,
            redelivered=fates.redelivered,
            acknowledged=fates.acknowledged,
            dead=fates.dead,
            expired=fates.expired,
        )

    def unsettled_between(self, first: int, last: int) -> int:
        """Returns how many offsets of [first, last] are not settled, also of those that were not looked at; none is below
        `next_offset`.
        """
        return self._window.unsettled_between(first, last)

    def pending(
        self, now_ms: int, most: int, worker_id: str = "", min_idle_ms: int = 0, from_offset: int = 0
    ) -> list[PendingRecord]:
        """Returns records that were delivered and are not settled, by offset. `worker_id`: only those that it holds."""
        question = Question(most, worker_id, min_idle_ms, from_offset)
        return pending_records(self._records, self._fates.burial.troubles, question, now_ms)

    def check(self) -> None:
        """Asserts every invariant; for tests."""
        self._records.check()
        self._window.check()
        self._writes.check()
        self._transactions.check()
        self._settling.lately.check()
        settling = {e.offset for e in self._records.entries.values() if e.state is _S.SETTLING}
        waiting = self._writes.waiting()
        assert all(offset in waiting for offset in settling), "what was settled is written"
        dead = {e.offset for e in self._records.entries.values() if e.state is _S.BURYING}
        assert dead == set(self._fates.burial.reasons), "each dead record has its letter"
        assert dead.issuperset(self._fates.burial.troubles), "what is settled has no trouble"


def _pause_ms(entry: Entry, now_ms: int) -> int:
    if entry.state is not _S.AVAILABLE or entry.due_ms is None:
        return 0
    return max(0, entry.due_ms - now_ms)
