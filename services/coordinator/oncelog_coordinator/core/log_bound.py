"""Bounds a shard's log: decides which records its owner repeats at the end, so that everything before them may be deleted.

Rule 1: a record is needed while it is the newest of its key and no tombstone. Epoch records are not needed by anybody.
Rule 2: what is repeated is the very record that is needed, so a replay from any later start gives the same state.
Rule 3: an offset is free when every record that was needed below it is repeated above it, in an append that is committed.
        What a later append still carries does not count: that append may be lost with its owner.
Rule 4: a free offset is announced in the log before anything is deleted (`EpochRecord.free_below`), so that a replay can tell
        a log that was cut on purpose from one that has lost its beginning.
Rule 5: more than twice the needed records and a slack are never kept for long: each append takes at least as many
        repeats along as it has records of its own while there are more. The bound needs no help from a broker.

An append is known by its *place*, the number of records that were appended before it. Its offset is known when it is committed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from oncelog_coordinator.core.decision import LogRecord
from oncelog_coordinator.core.transactions.records import EPOCH_KEY


class LogLimits(NamedTuple):
    """How much of a log may be superseded records before its owner makes it shorter."""

    slack_records: int = 1_000
    slack_bytes: int = 1 << 20
    repeats: int = 50
    """At least so many records are repeated by an append, if there are so many old ones."""


class Written(NamedTuple):
    """One record of an append: its key, the record (None: a tombstone, or known later), and its bytes in the log."""

    key: str
    record: LogRecord | None
    size: int
    is_tombstone: bool = False


@dataclass(slots=True)
class _Needed:
    """The newest record of a key, the append that holds it, and its bytes."""

    record: LogRecord | None
    place: int
    size: int


@dataclass(slots=True)
class _Append:
    """One append. `oldest`: the place of the oldest append that held a needed record when this one was made."""

    place: int
    records: int
    bytes_before: int
    oldest: int = 0
    offset: int = -1

    @property
    def end(self) -> int:
        """The place of the next append."""
        return self.place + self.records


class LogBound:
    """Knows which records of one log are needed, and where they are."""

    def __init__(self, limits: LogLimits | None = None) -> None:
        self._limits = limits or LogLimits()
        self._needed: OrderedDict[str, _Needed] = OrderedDict()
        """By key, in the order of their places."""
        self._needed_bytes = 0
        self._appends: OrderedDict[int, _Append] = OrderedDict()
        """By place, from the oldest one that may hold a needed record."""
        self._uncommitted: deque[_Append] = deque()
        self._records = 0
        self._bytes = 0
        self._end_offset = 0
        self._free_offset = 0
        self._free_bytes = 0
        self._announced_offset = 0
        self._announced_bytes = 0

    # ------------------------------------------------------------ what is in the log

    def appended(self, items: Iterable[Written]) -> int:
        """Notes an append that is under way, after all before it. Returns its place."""
        append = _Append(self._records, 0, self._bytes)
        for item in items:
            self._forget(item.key)
            if not item.is_tombstone and item.key != EPOCH_KEY:
                self._needed[item.key] = _Needed(item.record, append.place, item.size)
                self._needed_bytes += item.size
            append.records += 1
            self._bytes += item.size
        assert append.records, "an append has records"
        self._records = append.end
        append.oldest = self._oldest_place()
        self._appends[append.place] = append
        self._uncommitted.append(append)
        return append.place

    def committed(self, place: int, offset: int) -> None:
        """Notes that an append, and so everything before it, is committed. `offset` -1: its leader did not say where.

        Then it counts as lying right behind the one before, which is never too high.
        """
        while self._uncommitted and self._uncommitted[0].place <= place:
            append = self._uncommitted.popleft()
            known = offset if append.place == place else -1
            append.offset = max(known, self._end_offset)
            self._end_offset = append.offset + append.records
            self._set_free(append)

    def replayed(self, offset: int, items: Iterable[Written]) -> None:
        """Notes a batch that was read from the log, where it is committed."""
        self.committed(self.appended(items), offset)

    def know(self, key: str, record: LogRecord) -> None:
        """Gives the decoded newest record of a key whose bytes were replayed."""
        needed = self._needed.get(key)
        if needed is not None:
            needed.record = record

    def loaded(self, announced_offset: int) -> None:
        """Ends the replay of a log in which this offset was announced to be free."""
        self._announced_offset = announced_offset
        self._announced_bytes = 0

    def _forget(self, key: str) -> None:
        gone = self._needed.pop(key, None)
        if gone is not None:
            self._needed_bytes -= gone.size

    def _oldest_place(self) -> int:
        for needed in self._needed.values():
            return needed.place
        return self._records

    def _set_free(self, append: _Append) -> None:
        oldest = self._appends[append.oldest] if append.oldest < append.end else None  # None: it left nothing needed
        self._free_offset = append.offset + append.records if oldest is None else oldest.offset
        self._free_bytes = self._bytes if oldest is None else oldest.bytes_before
        while self._appends and next(iter(self._appends)) < append.oldest:
            self._appends.popitem(last=False)

    # ------------------------------------------------------------ what is repeated

    @property
    def needed(self) -> int:
        """The number of needed records."""
        return len(self._needed)

    @property
    def records(self) -> int:
        """The number of records that were replayed and appended."""
        return self._records

    @property
    def span(self) -> int:
        """The number of records from the oldest needed one to the end."""
        return self._records - self._oldest_place()

    @property
    def is_over(self) -> bool:
        """True while old records have to be repeated."""
        return (
            self.span > self._most_records or self._bytes - self._bytes_before(self._oldest_place()) > self._most_bytes
        )

    @property
    def _most_records(self) -> int:
        return 2 * len(self._needed) + self._limits.slack_records

    @property
    def _most_bytes(self) -> int:
        return 2 * self._needed_bytes + self._limits.slack_bytes

    def _bytes_before(self, place: int) -> int:
        append = self._appends.get(place)
        return self._bytes if append is None else append.bytes_before

    def repeats(self, own: int) -> list[LogRecord]:
        """Returns the oldest needed records, for the next append, which has `own` records; empty while the log is short.

        Only those in the older half of what may be kept: the others will be superseded by themselves, or be old later.
        """
        found: list[LogRecord] = []
        if not self.is_over:
            return found
        old_place = self._records - self._most_records // 2
        old_bytes = self._bytes - self._most_bytes // 2
        for key, needed in self._needed.items():
            is_old = needed.place < old_place or self._bytes_before(needed.place) < old_bytes
            if not is_old or len(found) >= max(self._limits.repeats, own):
                break
            assert needed.record is not None, f"{key} was not decoded"
            found.append(needed.record)
        return found

    # ------------------------------------------------------------ what is free

    @property
    def free_below(self) -> int:
        """The offset below which nothing is needed (rule 3)."""
        return self._free_offset

    def to_announce(self) -> int | None:
        """Returns the offset that is to be announced as free, once enough is free to be worth it; None = not now."""
        records = self._free_offset - self._announced_offset
        size = self._free_bytes - self._announced_bytes
        if records <= 0 or (records < self._limits.slack_records and size < self._limits.slack_bytes):
            return None
        return self._free_offset

    def announced(self, offset: int) -> None:
        """Notes that the next append announces this offset."""
        assert self._announced_offset <= offset <= self._free_offset, "only what is free is announced"
        self._announced_offset = offset
        self._announced_bytes = self._free_bytes

    # ------------------------------------------------------------ checking

    def check(self) -> None:
        """Asserts every invariant."""
        places = [needed.place for needed in self._needed.values()]
        assert places == sorted(places), "needed records are in the order of their places"
        assert all(place in self._appends for place in places), "the append of a needed record is known"
        assert self._needed_bytes == sum(needed.size for needed in self._needed.values())
        assert 0 <= self._free_offset <= self._end_offset
