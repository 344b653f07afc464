"""A producer's state outside of transactions, and the table of those that expired.

Rule 1: expiry is a function of the log: an entry's age is measured in append timestamps of the log's own batches, never
        on a node's clock (hole 23).
Rule 2: the epoch, last sequence and number of records of an expired producer are never forgotten: a late duplicate is
        still recognised, and the producer may continue with its next sequence. Only the offsets of its newest batches
        are forgotten.
Rule 3: one batch of the log makes a bounded number of entries expire; the rest expire with the next batches.
Rule 4: a snapshot encodes the entries while the log grows, so it is called before one of them changes (`EntryKeeper`).
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Final, Protocol

from oncelog_partition_leader.core.producers.expired_producers import ExpiredEntry, ExpiredProducers
from oncelog_partition_leader.core.producers.sequence_window import SequenceWindow


class ProducerEntry:
    """One producer id. `last_seen_ms`: the log's time (largest append timestamp so far) at its newest batch.

    `set_aside`: epoch and window that the newest fence ended, so that a repeated `GetProducerState` about one of its
    batches gets the same answer.
    """

    __slots__ = ("last_seen_ms", "producer_epoch", "set_aside", "window")

    def __init__(self, producer_epoch: int, window: SequenceWindow, last_seen_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.window = window
        self.last_seen_ms = last_seen_ms
        self.set_aside: tuple[int, SequenceWindow] | None = None

    def window_of(self, producer_epoch: int) -> SequenceWindow | None:
        """Returns the sequences written in an epoch; None when that epoch is too old to be kept."""
        if producer_epoch == self.producer_epoch:
            return self.window
        if self.set_aside is not None and self.set_aside[0] == producer_epoch:
            return self.set_aside[1]
        return None


class EntryKeeper(Protocol):
    """An object that needs the live entries as they are now, at a later time: a snapshot."""

    def keep(self, producer_id: int, entry: ProducerEntry) -> None:
        """Is called just before the entry changes."""
        ...


_FOREVER_MS: Final = 1 << 62
_EXPIRE_AT_ONCE: Final = 1_000
LIVE_MAX: Final = 100_000
"""More producers than this are not kept with the offsets of their newest batches: the least recently seen expire early."""


class ProducerEntries:
    """Live entries, least recently seen first, and expired ones."""

    __slots__ = ("_expiration_ms", "_keepers", "_next_expiry_ms", "expired", "live", "log_time_ms")

    def __init__(self, expiration_ms: int) -> None:
        self._expiration_ms = expiration_ms
        self._next_expiry_ms = _FOREVER_MS
        self.live: OrderedDict[int, ProducerEntry] = OrderedDict()
        self._keepers: list[weakref.ref[EntryKeeper]] = []
        self.expired = ExpiredProducers()
        self.log_time_ms = 0
        """The largest append timestamp of the log so far."""

    def find(self, producer_id: int, end_offset: int) -> ProducerEntry | None:
        """Returns the live entry, or one made from an expired producer's record; changes nothing.

        `end_offset` is the log end: the newest batch of an expired producer ends somewhere at or below it.
        """
        entry = self.live.get(producer_id)
        if entry is not None:
            return entry
        gone = self.expired.get(producer_id)
        if gone is None:
            return None
        window = SequenceWindow(gone.last_sequence, gone.written, end_offset)
        return ProducerEntry(gone.producer_epoch, window, self.log_time_ms)

    def kept_by(self, keeper: EntryKeeper) -> None:
        """Registers a keeper of entries, until `released_by` or until it is garbage-collected."""
        self._keepers = [ref for ref in self._keepers if ref() is not None]
        self._keepers.append(weakref.ref(keeper))

    def released_by(self, keeper: EntryKeeper) -> None:
        """Unregisters a keeper that has encoded every entry."""
        self._keepers = [ref for ref in self._keepers if ref() not in (None, keeper)]

    def _keep(self, producer_id: int, entry: ProducerEntry) -> None:
        for ref in self._keepers:
            keeper = ref()
            if keeper is not None:
                keeper.keep(producer_id, entry)

    def touch(self, producer_id: int, producer_epoch: int, end_offset: int) -> ProducerEntry:
        """Returns the entry to write to, moved to the newest place, with an empty window when the epoch is new."""
        entry = self.find(producer_id, end_offset)
        if producer_id not in self.live:
            self.expired.discard(producer_id)
        elif self._keepers:
            self._keep(producer_id, self.live[producer_id])
        if entry is None or producer_epoch > entry.producer_epoch:
            entry = ProducerEntry(producer_epoch, SequenceWindow(), self.log_time_ms)
        self.live[producer_id] = entry
        self.live.move_to_end(producer_id)
        entry.last_seen_ms = self.log_time_ms
        self._next_expiry_ms = min(self._next_expiry_ms, self.log_time_ms + self._expiration_ms)
        return entry

    def fence(self, producer_id: int, producer_epoch: int, end_offset: int) -> None:
        """Applies a fence: only `producer_epoch` and newer epochs may write; the window of the old epoch is set aside."""
        old = self.find(producer_id, end_offset)
        entry = self.touch(producer_id, producer_epoch, end_offset)
        if old is not None and old is not entry:
            entry.set_aside = (old.producer_epoch, old.window)

    def advance(self, append_timestamp_ms: int, busy: dict[int, int]) -> None:
        """Advances the log's time (never back), and expires entries that were idle for too long or are too many.

        Producers of open transactions (`busy`) do not expire.
        """
        if append_timestamp_ms > self.log_time_ms:
            self.log_time_ms = append_timestamp_ms
        if self.log_time_ms >= self._next_expiry_ms or len(self.live) > LIVE_MAX:
            self._expire(busy)

    def _expire(self, busy: dict[int, int]) -> None:
        for _ in range(min(len(self.live), _EXPIRE_AT_ONCE)):
            producer_id, entry = next(iter(self.live.items()))
            is_old = entry.last_seen_ms + self._expiration_ms <= self.log_time_ms
            if not is_old and len(self.live) <= LIVE_MAX:
                break
            if self._keepers:
                self._keep(producer_id, entry)
            if producer_id in busy:
                entry.last_seen_ms = self.log_time_ms
                self.live.move_to_end(producer_id)
                continue
            window = entry.window
            self.expired[producer_id] = ExpiredEntry(entry.producer_epoch, window.last_sequence, window.written)
            del self.live[producer_id]
        self.plan_expiry()

    def plan_expiry(self) -> None:
        """Computes when the next entry can expire, from the least recently seen one."""
        self._next_expiry_ms = _FOREVER_MS
        for entry in self.live.values():
            self._next_expiry_ms = entry.last_seen_ms + self._expiration_ms
            break

    def check(self) -> None:
        """Asserts the invariants."""
        seen = [entry.last_seen_ms for entry in self.live.values()]
        assert seen == sorted(seen), "least recently seen first"
        assert not seen or seen[-1] <= self.log_time_ms
        assert self.live.keys().isdisjoint(self.expired), "live or expired, not both"
        for entry in self.live.values():
            entry.window.check()
        self.expired.check()
