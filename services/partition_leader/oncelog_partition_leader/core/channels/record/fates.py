"""How a delivery of a record ends: acknowledged, given back, released, dead. Every other decision comes down to one of these.

Rule 1: a record that was delivered `max_deliveries` times is not given back but dies; with a dead-letter topic it is settled
    when its letter is written.
Rule 2: whatever has to outlive this leadership goes into `writes` in the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from oncelog_partition_leader.core.channels.record.burial import EXHAUSTED, Burial
from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.record_states import RecordState
from oncelog_partition_leader.core.channels.record.records import Records
from oncelog_partition_leader.core.channels.writing import WriteQueue
from oncelog_runtime.metadata.channel_values import ChannelOptions

_S: Final = RecordState


class Counts(NamedTuple):
    """How many records are in which state, and what was done in this leadership."""

    depth: int
    """Records that are not settled, those below `next_offset`; with the offsets from there to the end: an upper bound."""
    in_flight: int
    in_transaction: int
    waiting: int
    """Given back, for a later time."""
    delivered: int
    redelivered: int
    acknowledged: int
    dead: int
    expired: int
    """Deleted by retention before they were settled; of those that were never looked at, the offsets."""


class Fates:
    """The ends of deliveries, and how often each has come about."""

    def __init__(self, options: ChannelOptions, records: Records, writes: WriteQueue) -> None:
        self.options = options
        self.burial = Burial()
        self.delivered = self.redelivered = self.acknowledged = self.dead = self.expired = 0
        self._records = records
        self._writes = writes

    def acknowledge(self, entries: Sequence[Entry]) -> None:
        """Settles neighbours that their worker has done, one at least."""
        assert entries[-1].offset - entries[0].offset == len(entries) - 1, "no offset lies between neighbours"
        self.acknowledged += len(entries)
        for entry in entries:
            self._records.move(entry, _S.SETTLING)
        self._writes.settle(entries[0].offset, entries[-1].offset)

    def commit(self, entry: Entry) -> None:
        """Settles a record whose transaction has committed: the coordinator knows it already. `Window.settle` follows."""
        self.acknowledged += 1
        self._records.move(entry, _S.SETTLED)

    def give_back(self, entry: Entry, pause_ms: int, now_ms: int) -> None:
        """Ends a delivery without success: the record comes again after the pause, or it dies."""
        if self.is_exhausted(entry):
            self.die(entry, EXHAUSTED)
            return
        due_ms = now_ms + pause_ms if pause_ms > 0 else None
        self._records.move(entry, _S.AVAILABLE, due_ms=due_ms)
        if due_ms is not None:
            self._records.deadlines.add(due_ms, entry.offset, entry.offset)
        self._writes.give_back(entry.offset)

    def fail(self, entry: Entry, now_ms: int) -> None:
        """Gives a record back with the channel's own pause."""
        self.give_back(entry, self.options.retry_pause_ms(entry.deliveries), now_ms)

    def release(self, entry: Entry) -> None:
        """Takes a delivery back as if it had not been."""
        entry.deliveries -= 1
        self._records.move(entry, _S.AVAILABLE)

    def is_exhausted(self, entry: Entry) -> bool:
        """Returns True when the record must not be delivered again."""
        return 0 < self.options.max_deliveries <= entry.deliveries

    def die(self, entry: Entry, reason: str) -> None:
        """Makes a record dead."""
        self.dead += 1
        if not self.options.dead_letter_topic:
            self._settle(entry)
            return
        self._records.move(entry, _S.BURYING)
        self.burial.add(entry.offset, reason)
        self._writes.give_back(entry.offset)

    def buried(self, entry: Entry) -> None:
        """Settles a dead record: its letter is written, or there is no topic for it any more."""
        self.burial.done(entry.offset)
        self._settle(entry)

    def expire(self, entry: Entry) -> None:
        """Forgets a record that the log does not have any more."""
        self.burial.done(entry.offset)
        self._records.move(entry, _S.SETTLED)

    def _settle(self, entry: Entry) -> None:
        self._records.move(entry, _S.SETTLING)
        self._writes.settle(entry.offset, entry.offset)
