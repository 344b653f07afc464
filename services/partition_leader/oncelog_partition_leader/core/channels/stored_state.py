"""The state that the coordinator keeps of a channel on a partition: a leader begins with it, and writes what changes.

Rule: times here are pauses from the moment at which the value was made; the shell turns them into the wall clock and back.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange
from oncelog_partition_leader.core.producers.transactions import TxnName

NOT_KNOWN: Final = -1
"""An older version wrote last, and did not note its epoch."""


class Retried(NamedTuple):
    """A record that was delivered and given back."""

    offset: int
    deliveries: int
    """Deliveries that have ended without a settlement; the next one has the number after it."""
    pause_ms: int
    """Until its next delivery; 0 = at once."""


class StoredPending(NamedTuple):
    """Acknowledgements of a transaction that has not ended."""

    name: TxnName
    ranges: tuple[OffsetRange, ...]


class Stored(NamedTuple):
    """The state with which a leader begins."""

    settled_before: int
    write_no: int = 0
    """The number of the last write that counts."""
    seeks: int = 0
    settled: tuple[OffsetRange, ...] = ()
    """Above `settled_before`, in ascending order."""
    retried: tuple[Retried, ...] = ()
    pending: tuple[StoredPending, ...] = ()
    written_epoch: int = NOT_KNOWN
    """The newest leader epoch in which something of this was written. All that it is about was in the log by then."""

    @property
    def end(self) -> int:
        """The offset behind everything that is remembered."""
        ends = [self.settled_before, *(last + 1 for _, last in self.settled)]
        ends += [item.offset + 1 for item in self.retried]
        ends += [last + 1 for item in self.pending for _, last in item.ranges]
        return max(ends)


class Write(NamedTuple):
    """The next message to the coordinator. A repetition after an unknown outcome is this same object."""

    write_no: int
    settled_before: int
    settled: tuple[OffsetRange, ...]
    """Above `settled_before`, in ascending order; at most `MAX_RANGES`."""
    retried: tuple[Retried, ...]
    """The newest state of each; at most `MAX_RETRIED`."""
    seek: bool = False
    """Everything else is forgotten: the channel goes on at `settled_before`."""
