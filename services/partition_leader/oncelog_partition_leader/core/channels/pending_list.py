"""The records that were delivered and are not settled, for the eyes of an operator. Dead ones whose letters cannot be written
are among them.

Rule: reading it changes nothing. It looks at every entry, so it is for questions of people, not for each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.record_states import RecordState
from oncelog_partition_leader.core.channels.record.records import Records

_SHOWN = (RecordState.AVAILABLE, RecordState.IN_FLIGHT, RecordState.IN_TXN, RecordState.BURYING)


class PendingRecord(NamedTuple):
    """A record that was delivered and is not settled."""

    offset: int
    worker_id: str
    """Empty: it waits for its next delivery, it is dead, or a worker of an earlier leadership has put it into a transaction."""
    idle_ms: int
    """Since it was last delivered; 0 when this leadership never delivered it."""
    deliveries: int
    due_ms: int
    """Until it comes again, if nothing happens; until the letter of a dead one is tried again."""
    in_transaction: bool
    dead: bool = False
    """Its dead letter is still to be written."""
    trouble: str = ""
    """Why the letter could not be written at the last try."""


class Question(NamedTuple):
    """Which records are asked for: `most` of them, those of a worker (empty = all), idle for so long, from an offset on."""

    most: int
    worker_id: str = ""
    min_idle_ms: int = 0
    from_offset: int = 0


def pending_records(
    records: Records, troubles: Mapping[int, str], question: Question, now_ms: int
) -> list[PendingRecord]:
    """Returns such records, by offset. `troubles`: by offset, why letters could not be written."""
    found = (
        entry.offset
        for entry in records.entries.values()
        if entry.deliveries > 0 and entry.state in _SHOWN and entry.offset >= question.from_offset
        if not question.worker_id or _owner(entry) == question.worker_id
        if _idle_ms(entry, now_ms) >= question.min_idle_ms
    )
    return [
        _pending(records.entries[offset], troubles.get(offset, ""), now_ms) for offset in sorted(found)[: question.most]
    ]


def _owner(entry: Entry) -> str:
    """Returns the worker that has it; a dead record has the one that rejected it no more."""
    return "" if entry.state is RecordState.BURYING else entry.worker


def _idle_ms(entry: Entry, now_ms: int) -> int:
    return 0 if entry.since_ms is None else max(0, now_ms - entry.since_ms)


def _pending(entry: Entry, trouble: str, now_ms: int) -> PendingRecord:
    return PendingRecord(
        entry.offset,
        _owner(entry),
        _idle_ms(entry, now_ms),
        entry.deliveries,
        due_ms=0 if entry.due_ms is None else max(0, entry.due_ms - now_ms),
        in_transaction=entry.state is RecordState.IN_TXN,
        dead=entry.state is RecordState.BURYING,
        trouble=trouble,
    )
