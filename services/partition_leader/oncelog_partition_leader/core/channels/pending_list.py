"""The records that were delivered and are not settled, for the eyes of an operator.

Rule: reading it changes nothing. It looks at every entry, so it is for questions of people, not for each request.
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.record_states import RecordState
from oncelog_partition_leader.core.channels.record.records import Records

_SHOWN = (RecordState.AVAILABLE, RecordState.IN_FLIGHT, RecordState.IN_TXN)


class PendingRecord(NamedTuple):
    """A record that was delivered and is not settled."""

    offset: int
    worker_id: str
    """Empty: it waits for its next delivery, or a worker of an earlier leadership has put it into a transaction."""
    idle_ms: int
    """Since it was last delivered; 0 when this leadership never delivered it."""
    deliveries: int
    due_ms: int
    """Until it comes again, if nothing happens."""
    in_transaction: bool


def pending_records(
    records: Records, now_ms: int, most: int, worker_id: str = "", min_idle_ms: int = 0, from_offset: int = 0
) -> list[PendingRecord]:
    """Returns such records, by offset; see `Delivery.pending`."""
    found = (
        entry.offset
        for entry in records.entries.values()
        if entry.deliveries > 0 and entry.state in _SHOWN and entry.offset >= from_offset
        if not worker_id or entry.worker == worker_id
        if _idle_ms(entry, now_ms) >= min_idle_ms
    )
    return [_pending(records.entries[offset], now_ms) for offset in sorted(found)[:most]]


def _idle_ms(entry: Entry, now_ms: int) -> int:
    return 0 if entry.since_ms is None else max(0, now_ms - entry.since_ms)


def _pending(entry: Entry, now_ms: int) -> PendingRecord:
    due_ms = 0 if entry.due_ms is None else max(0, entry.due_ms - now_ms)
    is_in_txn = entry.state is RecordState.IN_TXN
    return PendingRecord(entry.offset, entry.worker, _idle_ms(entry, now_ms), entry.deliveries, due_ms, is_in_txn)
