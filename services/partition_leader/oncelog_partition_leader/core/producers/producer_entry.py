"""The table of all producers of a partition outside of transactions, and which of them expire.

Rule 1: expiry is a function of the log: an entry's age is measured in append timestamps of the log's own batches, never
        on a node's clock (hole 23).
Rule 2: the epoch, last sequence and number of records of an expired producer are never forgotten: a late duplicate is
        still recognised, and the producer may continue with its next sequence. Only the offsets of its newest batches
        are forgotten.
Rule 3: one batch of the log makes a bounded number of entries expire; the rest expire with the next batches.
Rule 4: a snapshot is of the moment at which `freeze` was called: an entry of before is copied before it is changed.
"""

from __future__ import annotations

from typing import Final

from oncelog_partition_leader.core.producers.expired_producers import ExpiredEntry, ExpiredProducers
from oncelog_partition_leader.core.producers.live_producers import FrozenProducers, LiveProducers
from oncelog_partition_leader.core.producers.packed_entry import ProducerEntry
from oncelog_partition_leader.core.producers.sequence_window import SequenceWindow

_FOREVER_MS: Final = 1 << 62
_EXPIRE_AT_ONCE: Final = 50
LIVE_MAX: Final = 100_000
"""More producers than this are not kept with the offsets of their newest batches: the least recently seen expire early."""


class ProducerEntries:
    """Live entries, least recently seen first, and expired ones."""

    __slots__ = ("_expiration_ms", "_generation", "_next_expiry_ms", "expired", "live", "log_time_ms")

    def __init__(self, expiration_ms: int) -> None:
        self._expiration_ms = expiration_ms
        self._next_expiry_ms = _FOREVER_MS
        self._generation = 0
        self.live = LiveProducers()
        self.expired = ExpiredProducers()
        self.log_time_ms = 0
        """The largest append timestamp of the log so far."""

    def find(self, producer_id: int, end_offset: int) -> ProducerEntry | None:
        """Returns the live entry, or one made from an expired producer's record; changes nothing.

        `end_offset` is the log end: the newest batch of an expired producer ends somewhere at or below it.
        """
        entry = self.live.get(producer_id)
        return self._find_expired(producer_id, end_offset) if entry is None else entry

    def _find_expired(self, producer_id: int, end_offset: int) -> ProducerEntry | None:
        gone = self.expired.get(producer_id)
        if gone is None:
            return None
        window = SequenceWindow(gone.last_sequence, gone.written, end_offset)
        return ProducerEntry(gone.producer_epoch, window, self.log_time_ms, self._generation)

    def freeze(self) -> FrozenProducers:
        """Returns the live entries as they are now, for a snapshot: from now on each is copied before it is changed."""
        self._generation += 1
        return self.live.frozen()

    def touch(self, producer_id: int, producer_epoch: int, end_offset: int) -> ProducerEntry:
        """Returns the entry to write to, moved to the newest place, with an empty window when the epoch is new."""
        entry = self.live.get(producer_id)
        if entry is None:
            entry = self._find_expired(producer_id, end_offset)
            self.expired.discard(producer_id)
        if entry is None or producer_epoch > entry.producer_epoch:
            entry = ProducerEntry(producer_epoch, SequenceWindow(), self.log_time_ms, self._generation)
        elif entry.generation != self._generation:
            entry = entry.copied(self._generation)
        entry.last_seen_ms = self.log_time_ms
        self.live.put(producer_id, entry)
        self._next_expiry_ms = min(self._next_expiry_ms, self.log_time_ms + self._expiration_ms)
        return entry

    def fence(self, producer_id: int, producer_epoch: int, end_offset: int) -> None:
        """Applies a fence: only `producer_epoch` and newer epochs may write; the window of the old epoch is set aside."""
        old = self.find(producer_id, end_offset)
        entry = self.touch(producer_id, producer_epoch, end_offset)
        if old is not None and old.producer_epoch != entry.producer_epoch:
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
            seen_ms = self.live.oldest_seen_ms()
            is_old = seen_ms is not None and seen_ms + self._expiration_ms <= self.log_time_ms
            if not is_old and len(self.live) <= LIVE_MAX:
                break
            producer_id, entry = self.live.pop_oldest()
            if producer_id in busy:
                entry = entry.copied(self._generation)
                entry.last_seen_ms = self.log_time_ms
                self.live.put(producer_id, entry)
                continue
            window = entry.window
            self.expired[producer_id] = ExpiredEntry(entry.producer_epoch, window.last_sequence, window.written)
        self.plan_expiry()

    def plan_expiry(self) -> None:
        """Computes when the next entry can expire, from the least recently seen one."""
        seen_ms = self.live.oldest_seen_ms()
        self._next_expiry_ms = _FOREVER_MS if seen_ms is None else seen_ms + self._expiration_ms

    def check(self) -> None:
        """Asserts the invariants."""
        seen = [entry.last_seen_ms for _, entry in self.live.items()]
        assert seen == sorted(seen), "least recently seen first"
        assert not seen or seen[-1] <= self.log_time_ms
        assert all(producer_id not in self.expired for producer_id in self.live), "live or expired, not both"
        self.live.check()
        self.expired.check()
