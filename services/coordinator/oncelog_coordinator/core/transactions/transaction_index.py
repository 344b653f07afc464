"""The state of a transaction shard: the records, and the volatile facts about each id.

Rule 1: `TransactionTable.apply` is the only writer; decisions only read.
Rule 2: volatile facts (participants, last renewal, markers that are in) may be lost at any time.  Losing them is always
        safe: markers are sent again, a lease starts again, winners are not checked by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from oncelog.errors import InvalidPidMappingError
from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Note
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions.orphan_records import ORPHAN_KEY, OrphanRecord, RemovedIds
from oncelog_coordinator.core.transactions.records import DecidedTransaction, TransactionRecord

_DIGITS_MAX: Final = 19
MarkerTarget = PartitionId | str
"""The receiver of a marker: a partition, or a group by its id."""


@dataclass(frozen=True, slots=True)
class ParticipantJoined(Note):
    """Note: a producer id was given to a participant of n, which also renews the lease."""

    transactional_id: str
    txn_no: int
    producer_id: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class SignOfLife(Note):
    """Note: a client or participant is still working on n."""

    transactional_id: str
    txn_no: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class MarkersIn(Note):
    """Note: these targets have the marker of n committed; `on_disk`: it is also on disk and need not be sent again."""

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
    """Note: the deadlines of these ids, and of these keys of orphans, were checked, and everything due was decided."""

    open_ids: tuple[str, ...]
    idle_ids: tuple[str, ...]
    now_ms: int
    orphans: tuple[str, ...] = ()


@dataclass(slots=True)
class Entry:
    """One id. `opened_here`: this epoch of the shard opened the transaction, so `participants` is complete."""

    record: TransactionRecord
    opened_here: bool = False
    participants: set[int] = field(default_factory=set)
    touched_ms: int = 0
    markers_in: dict[int, set[MarkerTarget]] = field(default_factory=dict)
    markers_done: dict[int, set[MarkerTarget]] = field(default_factory=dict)
    forced: ForcedAbort | None = None

    def take_markers(self, note: MarkersIn) -> None:
        """Notes the markers of a decided transaction; ignores those of a complete one."""
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
        """Returns the targets of a decided transaction whose marker is not known to be committed."""
        return _targets_of(decided) - self.markers_in.get(decided.txn_no, set())

    def not_on_disk(self, decided: DecidedTransaction) -> set[MarkerTarget]:
        """Returns the targets of a decided transaction whose marker is not known to be on disk."""
        return _targets_of(decided) - self.markers_done.get(decided.txn_no, set())


def _targets_of(decided: DecidedTransaction) -> set[MarkerTarget]:
    targets: set[MarkerTarget] = {PartitionId(t.topic_id, t.partition) for t in decided.targets}
    targets.update(decided.groups)
    return targets


class TransactionIndex:
    """Finds ids by transactional id and by producer id."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.entries: dict[str, Entry] = {}
        self.orphans: dict[int, OrphanRecord] = {}
        self.open: dict[str, None] = {}
        """Ids with an open transaction."""
        self.completing: dict[str, None] = {}
        """Ids with decided transactions whose markers are not all on disk."""
        self.ids: dict[int, str] = {}
        """Maps producer ids to transactional ids."""
        self.lasting: dict[str, None] = {}
        """Ids that are never removed."""
        self.removed = RemovedIds()
        """The bounds kept of ids that were removed."""
        self.loaded_at_ms: int | None = None
        """When the replay ended; None during the replay."""

    def note(self, record: TransactionRecord) -> None:
        """Updates `open`, `completing` and `lasting` from `record`, the newest of its id."""
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
        """Forgets an id; only the bounds in `removed` remain."""
        entry = self.entries.pop(transactional_id, None)
        if entry is None:
            return
        del self.ids[entry.record.producer_id]
        for place in (self.open, self.completing, self.lasting):
            place.pop(transactional_id, None)

    def entry(self, transactional_id: str) -> Entry | None:
        """Returns the entry of an id."""
        return self.entries.get(transactional_id)

    def find(self, transactional_id: str) -> TransactionRecord | None:
        """Returns the record of an id, including an expired one."""
        entry = self.entries.get(transactional_id)
        return None if entry is None else entry.record

    def named(self, transactional_id: str, txn_producer_id: int) -> Entry:
        """Returns the entry, not an expired one, that owns this producer id (looked up by it when the id is empty).

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
        """True when n is decided and all its markers are committed."""
        entry = self.entries.get(record.transactional_id)
        for decided in record.decided:
            if decided.txn_no == txn_no:
                return entry is not None and not entry.missing(decided)
        return record.open is None or record.open.txn_no != txn_no

    def orphan(self, key: str) -> OrphanRecord | None:
        """Returns the orphan with this key in the log; None when there is none."""
        number = key.removeprefix(ORPHAN_KEY)
        is_number = number != key and number.isdecimal() and number.isascii() and len(number) <= _DIGITS_MAX
        return self.orphans.get(int(number)) if is_number else None

    def records(self) -> Iterable[TransactionRecord]:
        """Yields all records, in the order in which the ids were created."""
        return (entry.record for entry in self.entries.values())
