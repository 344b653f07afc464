"""Holds the records that wait for the markers of open transactions in a group shard: after `resolve_after_ms` without one the
shard asks for the outcome (hole 14), again and again.

Rule: the time counts from when something first waited; after a fail-over from the end of the replay, if that is earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from oncelog_coordinator.core.decision import Note
from oncelog_coordinator.core.offsets.offset_commands import AskOutcome
from oncelog_coordinator.core.transactions.timeouts import Deadlines


class Waiting(Protocol):
    """A record that is there until the marker of its transaction comes."""

    @property
    def key(self) -> str: ...
    @property
    def group_id(self) -> str: ...
    @property
    def txn_producer_id(self) -> int: ...
    @property
    def txn_no(self) -> int: ...
    @property
    def txn_shard(self) -> int: ...
    @property
    def since_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Asked(Note):
    """Note: the outcome of these pending keys was requested at `now_ms`."""

    keys: tuple[str, ...]
    now_ms: int


class OutcomeWaits:
    """Holds all records that wait for a marker, by key."""

    def __init__(self, resolve_after_ms: int) -> None:
        self._resolve_after_ms = resolve_after_ms
        self._records: dict[str, Waiting] = {}
        self._deadlines = Deadlines()

    # ------------------------------------------------------------ reading

    def find(self, key: str) -> Waiting | None:
        """Returns the record of a key."""
        return self._records.get(key)

    @property
    def next_ms(self) -> int | None:
        """The earliest time at which an outcome may have to be asked for; None = never."""
        return self._deadlines.next_ms

    def due(self, now_ms: int, limit: int, epoch: Callable[[int], int | None]) -> tuple[Asked, tuple[AskOutcome, ...]]:
        """Returns what is asked for now, each transaction of a group once. `epoch(txn_shard)`: the highest known one."""
        keys = tuple(self._deadlines.due(now_ms, limit))
        waiting = (self._records[key] for key in keys if key in self._records)
        asked = (
            AskOutcome(item.group_id, item.txn_producer_id, item.txn_no, item.txn_shard, epoch(item.txn_shard) or 0)
            for item in waiting
        )
        return Asked(keys, now_ms), tuple(dict.fromkeys(asked))

    # ------------------------------------------------------------ writing

    def put(self, record: Waiting) -> None:
        """Notes the newest record of its key."""
        self._records[record.key] = record
        self._deadlines.watch(record.key, record.since_ms + self._resolve_after_ms)

    def drop(self, key: str) -> Waiting | None:
        """Forgets the record of a key, and returns it."""
        return self._records.pop(key, None)

    def loaded(self, now_ms: int) -> None:
        """Begins the time of what waits since a later time than now, by a clock that was ahead."""
        for key, record in self._records.items():
            self._deadlines.watch(key, min(record.since_ms, now_ms) + self._resolve_after_ms)

    def asked(self, note: Asked) -> None:
        """Looks again, after a while, at what still waits."""
        self._deadlines.looked(note.keys, note.now_ms)
        for key in note.keys:
            if key in self._records:
                self._deadlines.watch(key, note.now_ms + self._resolve_after_ms)

    # ------------------------------------------------------------ checking

    def check(self) -> None:
        """Asserts every invariant."""
        assert all(record.key == key for key, record in self._records.items())
        assert not self._records or self._deadlines.next_ms is not None, "something waits, and nobody will ask"
