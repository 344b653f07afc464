"""Knows which transactions of each group have ended, and which of these records the group's shard no longer needs.

Rule 1: such a record keeps late offsets out of a transaction that has ended. It may go when `ended_retention_ms` have passed
        since its last marker, however many transactions follow; with idle producers it would never leave the log.
Rule 2: safety needs no clock. A request with offsets says how many records had been forgotten before its group was enrolled,
        and in which epoch the transaction shard enrolled it. When the record of an ending is gone, the transaction shard still
        knows of it: its present owner enrols nothing in a decided number. So the offsets are late only if the number was
        decided after the enrolment, and then its record came and went meanwhile (the count has grown); or if a deposed owner
        enrolled, and then the marker came from a newer epoch. Both are refused, and the caller asks again.
Rule 3: the highest epoch of a transaction shard must not be forgotten, since older ones are fenced by it. So the last record
        with that epoch, the *witness* of its shard, stays: at most one record for each transaction shard.
Rule 4: a record that an older version has written says no time; one from a clock that was ahead says a later one. Both count
        from the end of the replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from oncelog.errors import CoordinatorNotAvailableError, OncelogError
from oncelog_coordinator.core.decision import Note
from oncelog_coordinator.core.offsets.offset_commands import Enrolled
from oncelog_coordinator.core.offsets.offset_records import EndedTransactions
from oncelog_coordinator.core.transactions.records import Tombstone
from oncelog_coordinator.core.transactions.timeouts import Deadlines

Find = Callable[[str], EndedTransactions | None]
"""Returns the record of a key."""


@dataclass(frozen=True, slots=True)
class LookedAtEnded(Note):
    """Note: it was decided at `now_ms` which of these records go."""

    keys: tuple[str, ...]
    now_ms: int


class EndedLedger:
    """The epochs of transaction shards and the age of records; the records themselves belong to their groups (`find`)."""

    def __init__(self, find: Find, retention_ms: int) -> None:
        self._find = find
        self._retention_ms = retention_ms
        self._epochs: dict[int, int] = {}
        """The highest epoch of each transaction shard that a marker came from."""
        self._witnesses: dict[int, str] = {}
        """Transaction shard -> the key of a record with its highest epoch."""
        self._deadlines = Deadlines()
        self.forgotten = 0
        """How many records have gone in this life of the shard."""

    # ------------------------------------------------------------ reading

    def epoch(self, txn_shard: int) -> int | None:
        """Returns the highest epoch of a transaction shard that a marker came from; None = no marker came."""
        return self._epochs.get(txn_shard)

    @property
    def next_ms(self) -> int | None:
        """The earliest time at which a record may go; None = there is none."""
        return self._deadlines.next_ms

    def late(self, txn_shard: int, enrolled: Enrolled) -> OncelogError | None:
        """Returns why something of a transaction that the group knows nothing of may come after its end (rule 2); None = it
        cannot.
        """
        enrolled_by, forgotten = enrolled
        newest = self._epochs.get(txn_shard, -1)
        if enrolled_by is not None and enrolled_by < newest:
            return CoordinatorNotAvailableError(
                "a deposed owner of the transaction shard has enrolled the group: ask again",
                retry_after_ms=20,
                coordinator_epoch=enrolled_by,
                newest_epoch=newest,
            )
        if forgotten != self.forgotten:
            return CoordinatorNotAvailableError(
                "the group has forgotten transactions since it was enrolled in this one: ask again", retry_after_ms=20
            )
        return None

    def due(self, now_ms: int, limit: int) -> tuple[LookedAtEnded, list[Tombstone]]:
        """Returns which records were looked at, and the tombstones of those that go."""
        keys = tuple(self._deadlines.due(now_ms, limit))
        gone = [Tombstone(key) for key in dict.fromkeys(keys) if self._may_go(key, now_ms)]
        return LookedAtEnded(keys, now_ms), gone

    def _may_go(self, key: str, now_ms: int) -> bool:
        record = self._find(key)
        if record is None or self._witnesses.get(record.txn_shard) == key:
            return False
        return not now_ms - self._retention_ms < record.ended_ms <= now_ms

    # ------------------------------------------------------------ writing

    def take(self, record: EndedTransactions) -> None:
        """Notes the newest record of its key."""
        if record.coordinator_epoch >= self._epochs.get(record.txn_shard, -1):
            self._epochs[record.txn_shard] = record.coordinator_epoch
            self._witnesses[record.txn_shard] = record.key
        self._deadlines.watch(record.key, record.ended_ms + self._retention_ms)

    def forget(self) -> None:
        """Notes that a record has gone."""
        self.forgotten += 1

    def loaded(self, keys: Iterable[str], now_ms: int) -> None:
        """Begins the time of all records that were replayed: none goes earlier than in the life that has written it."""
        self._deadlines = Deadlines()
        for key in keys:
            record = self._find(key)
            assert record is not None
            since_ms = min(record.ended_ms, now_ms) or now_ms
            self._deadlines.watch(key, since_ms + self._retention_ms)

    def looked(self, note: LookedAtEnded) -> None:
        """Looks again at records that stay: when they may have become old enough, or no witness any more."""
        self._deadlines.looked(note.keys, note.now_ms)
        for key in note.keys:
            record = self._find(key)
            if record is not None:
                again_ms, old_ms = note.now_ms + self._retention_ms, record.ended_ms + self._retention_ms
                self._deadlines.watch(key, old_ms if note.now_ms < old_ms < again_ms else again_ms)

    # ------------------------------------------------------------ checking

    def check(self, records: Iterable[EndedTransactions]) -> None:
        """Asserts every invariant; `records` are all that there are."""
        is_any = False
        for record in records:
            is_any = True
            assert self._epochs[record.txn_shard] >= record.coordinator_epoch
        assert not is_any or self._deadlines.next_ms is not None, "a record would stay for ever"
        for txn_shard, epoch in self._epochs.items():
            witness = self._find(self._witnesses[txn_shard])
            assert witness is not None, "the highest epoch of a transaction shard stands in no record"
            assert witness.coordinator_epoch == epoch
