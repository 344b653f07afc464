"""A producer's state outside of transactions, and the table of those that expired.

Rule 1: expiry is a function of the log: an entry's age is measured in append timestamps of the log's own batches, never
        on a node's clock (hole 23).
Rule 2: an expired producer keeps its epoch, last sequence and how much it wrote, for ever: a late repeat is still known
        as one, and the producer may go on where it was. Only the offsets of its newest batches are forgotten.
Rule 3: a batch of the log makes a bounded number of entries expire; those that are left are next.
Rule 4: whoever encodes the entries while the log goes on is told before one of them changes (`EntryKeeper`).
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Final, Protocol

from oncelog_partition_leader.core.producers.expired_producers import ExpiredEntry, ExpiredProducers
from oncelog_partition_leader.core.producers.sequence_window import SequenceWindow


class ProducerEntry:
    """One producer id. `last_seen_ms`: the log's time (largest append timestamp so far) at its newest batch.

    `set_aside`: epoch and window that the newest fence ended, so that a repeated question about a batch of then gets
    the same answer.
    """

    __slots__ = ("last_seen_ms", "producer_epoch", "set_aside", "window")

    def __init__(self, producer_epoch: int, window: SequenceWindow, last_seen_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.window = window
        self.last_seen_ms = last_seen_ms
        self.set_aside: tuple[int, SequenceWindow] | None = None

    def window_of(self, producer_epoch: int) -> SequenceWindow | None:
        """What was written in an epoch; None when it is older than is kept."""
        if producer_epoch == self.producer_epoch:
            return self.window
        if self.set_aside is not None and self.set_aside[0] == producer_epoch:
            return self.set_aside[1]
        return None


class EntryKeeper(Protocol):
    """Whoever needs the live entries as they are now, later."""

    def keep(self, producer_id: int, entry: ProducerEntry) -> None:
        """The entry is about to change."""
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
        """The entry, or what an expired one would be; changes nothing.

        An expired producer's newest batch ends somewhere at or below `end_offset`, the log's end.
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
        """From now on it is told of changes, as long as it lives or until `released_by`."""
        self._keepers = [ref for ref in self._keepers if ref() is not None]
        self._keepers.append(weakref.ref(keeper))

    def released_by(self, keeper: EntryKeeper) -> None:
        """It has what it needs."""
        self._keepers = [ref for ref in self._keepers if ref() not in (None, keeper)]

    def _keep(self, producer_id: int, entry: ProducerEntry) -> None:
        for ref in self._keepers:
            keeper = ref()
            if keeper is not None:
                keeper.keep(producer_id, entry)

    def touch(self, producer_id: int, producer_epoch: int, end_offset: int) -> ProducerEntry:
        """The entry to write to, newest in order, with an empty window when the epoch is new."""
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
        """From here on only `producer_epoch` and newer ones write; what the old one wrote is set aside."""
        old = self.find(producer_id, end_offset)
        entry = self.touch(producer_id, producer_epoch, end_offset)
        if old is not None and old is not entry:
            entry.set_aside = (old.producer_epoch, old.window)

    def advance(self, append_timestamp_ms: int, busy: dict[int, int]) -> None:
        """The log's time goes on (never back): entries that were silent for too long expire, or are too many.

        A producer of an open transaction stays.
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
        """Sets the time of the next look at expiry, from the least recently seen entry."""
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
