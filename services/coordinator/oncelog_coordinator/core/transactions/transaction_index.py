"""What a transaction shard knows: the records, and beside each id what is volatile about it.

Rule 1: `TransactionTable.apply` is the only writer; decisions only read.
Rule 2: volatile facts (participants, last sign of life, markers that are in) may be lost at any time.  What follows from
        their loss is always the safe side: markers are sent again, a lease starts anew, a winner is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from oncelog.errors import InvalidPidMappingError
from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Note
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions.records import (
    DecidedTransaction,
    OrphanRecord,
    RemovedIds,
    TransactionRecord,
)

MarkerTarget = PartitionId | str
"""Who gets a marker: a partition, or a group by its id."""


@dataclass(frozen=True, slots=True)
class ParticipantJoined(Note):
    """Note: a producer id was handed out for n, which also is a sign of life."""

    transactional_id: str
    txn_no: int
    producer_id: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class SignOfLife(Note):
    """Note: somebody still works on n."""

    transactional_id: str
    txn_no: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class MarkersIn(Note):
    """Note: these targets show the marker of n; `on_disk`: and need it no more."""

    transactional_id: str
    txn_no: int
    targets: tuple[MarkerTarget, ...]
    on_disk: bool = False


@dataclass(frozen=True, slots=True)
class ForcedAbort(Note):
    """Note: a ForceAbort that named no number has aborted n."""

    transactional_id: str
    txn_no: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class LookedAt(Note):
    """Note: the deadlines of these ids were looked at, and what was due was decided."""

    open_ids: tuple[str, ...]
    idle_ids: tuple[str, ...]
    now_ms: int


@dataclass(slots=True)
class Entry:
    """One id. `opened_here`: the open transaction began in this life, so `participants` are all of them."""

    record: TransactionRecord
    opened_here: bool = False
    participants: set[int] = field(default_factory=set)
    touched_ms: int = 0
    markers_in: dict[int, set[MarkerTarget]] = field(default_factory=dict)
    markers_done: dict[int, set[MarkerTarget]] = field(default_factory=dict)
    forced: ForcedAbort | None = None

    def take_markers(self, note: MarkersIn) -> None:
        """Keeps what is known of a decided transaction's markers; of a complete one nothing is kept."""
        decided = next((item for item in self.record.decided if item.txn_no == note.txn_no), None)
        if decided is None:
            return
        self.markers_in.setdefault(note.txn_no, set()).update(note.targets)
        if note.on_disk:
            self.markers_done.setdefault(note.txn_no, set()).update(note.targets)
        if not decided.was_visible and not self.missing(decided):
            seen = replace(decided, was_visible=True)
            self.record = replace(
                self.record, decided=tuple(seen if item is decided else item for item in self.record.decided)
            )

    def missing(self, decided: DecidedTransaction) -> set[MarkerTarget]:
        """Targets of a decided transaction that show no marker yet, as far as is known."""
        return _targets_of(decided) - self.markers_in.get(decided.txn_no, set())

    def not_on_disk(self, decided: DecidedTransaction) -> set[MarkerTarget]:
        """Targets of a decided transaction that could lose the marker, as far as is known."""
        return _targets_of(decided) - self.markers_done.get(decided.txn_no, set())


def _targets_of(decided: DecidedTransaction) -> set[MarkerTarget]:
    targets: set[MarkerTarget] = {PartitionId(t.topic_id, t.partition) for t in decided.targets}
    targets.update(decided.groups)
    return targets


class TransactionIndex:
    """Look-ups by transactional id and by producer id."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.entries: dict[str, Entry] = {}
        self.orphans: dict[int, OrphanRecord] = {}
        self.open: dict[str, None] = {}
        """Ids with an open transaction."""
        self.completing: dict[str, None] = {}
        """Ids with decided transactions whose markers are not all on disk."""
        self.ids: dict[int, str] = {}
        """Producer id -> transactional id."""
        self.lasting: dict[str, None] = {}
        """Ids that are never removed."""
        self.removed = RemovedIds()
        """What is kept of those that were."""
        self.loaded_at_ms: int | None = None
        """When this life ended its replay; None during it."""

    def note(self, record: TransactionRecord) -> None:
        """`record` is the newest of its id: keeps `open`, `completing` and `lasting`."""
        name = record.transactional_id
        places = (
            (self.open, record.open is not None),
            (self.completing, bool(record.decided)),
            (self.lasting, record.is_lasting),
        )
        for place, belongs in places:
            if belongs:
                place[name] = None
            else:
                place.pop(name, None)

    def remove(self, transactional_id: str) -> None:
        """Nothing is known of this id any more, but for what `removed` says of all of them."""
        entry = self.entries.pop(transactional_id, None)
        if entry is None:
            return
        del self.ids[entry.record.producer_id]
        for place in (self.open, self.completing, self.lasting):
            place.pop(transactional_id, None)

    def entry(self, transactional_id: str) -> Entry | None:
        """The entry of an id."""
        return self.entries.get(transactional_id)

    def find(self, transactional_id: str) -> TransactionRecord | None:
        """The record of an id, dead ones too."""
        entry = self.entries.get(transactional_id)
        return None if entry is None else entry.record

    def named(self, transactional_id: str, txn_producer_id: int) -> Entry:
        """The living entry that owns this producer id (found by the producer id when the id is empty).

        Raises `InvalidPidMappingError` when there is none, or when the two do not belong together.
        """
        key = transactional_id or self.ids.get(txn_producer_id, "")
        entry = self.entries.get(key)
        if entry is None or entry.record.dead or entry.record.producer_id != txn_producer_id:
            raise InvalidPidMappingError(
                "this producer id does not belong to this transactional id; start a new session",
                transactional_id=transactional_id,
                producer_id=txn_producer_id,
            )
        return entry

    def is_visible(self, record: TransactionRecord, txn_no: int) -> bool:
        """True when n is decided and every marker of it is in."""
        entry = self.entries.get(record.transactional_id)
        for decided in record.decided:
            if decided.txn_no == txn_no:
                return entry is not None and not entry.missing(decided)
        return record.open is None or record.open.txn_no != txn_no

    def records(self) -> Iterable[TransactionRecord]:
        """All records, in the order in which the ids came."""
        return (entry.record for entry in self.entries.values())
