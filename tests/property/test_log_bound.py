"""A shard's log that its owners shorten, as the whole of it: whatever is lost, late or deleted in the middle of a replay.

`History` is the reference: every committed record, the newest of each key. The log is what is left of it after owners have
deleted what they announced. A replay from there must find the same at any time, also after any append was lost.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from oncelog_coordinator.core.log_bound import LogBound, LogLimits, Written
from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord
from oncelog_coordinator.core.transactions.records import EPOCH_KEY, EpochRecord, Tombstone

Record = OrphanRecord | Tombstone | EpochRecord
LIMITS = LogLimits(slack_records=5, slack_bytes=10_000, repeats=2)
KEYS = st.integers(1, 8)


def written(record: Any) -> Written:
    return Written(record.key, record, 10, isinstance(record, Tombstone))


def newest(records: list[Record]) -> dict[str, Record]:
    """What a replay finds."""
    found = {record.key: record for record in records if record.key != EPOCH_KEY}
    return {key: record for key, record in found.items() if not isinstance(record, Tombstone)}


class Log(RuleBasedStateMachine):
    """One owner after the other, as `shard_runtime` works: each append may repeat and announce, commits come later."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Record] = []
        self.start = 0
        self.version = 0
        self.bound = LogBound(LIMITS)
        self.under_way: list[tuple[int, list[Record], int]] = []
        """Place, records, and what the append announces."""
        self.deletions: list[int] = []
        """Announced offsets, by owners of any time; each may be carried out late, or never."""

    def append(self, own: list[Record]) -> None:
        records: dict[str, Record] = {record.key: record for record in own}
        for record in self.bound.repeats(len(records)):
            assert isinstance(record, OrphanRecord)
            records.setdefault(record.key, record)
        free_below = self.bound.to_announce()
        if free_below is not None:
            records[EPOCH_KEY] = EpochRecord(1, free_below)
            self.bound.announced(free_below)
        if records:
            place = self.bound.appended(map(written, records.values()))
            self.under_way.append((place, list(records.values()), free_below or 0))

    @rule(keys=st.lists(KEYS, min_size=1, max_size=3, unique=True))
    def put(self, keys: list[int]) -> None:
        self.version += 1
        self.append([OrphanRecord(key, (self.version,)) for key in keys])

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        self.append([Tombstone(f"orphan:{key}")])

    @rule()
    def nothing_new(self) -> None:
        if self.bound.is_over or self.bound.to_announce() is not None:
            self.append([])

    @rule(many=st.integers(1, 4), told=st.booleans())
    def commit(self, many: int, told: bool) -> None:
        for place, records, free_below in self.under_way[:many]:
            offset = len(self.history)
            self.history += records
            self.bound.committed(place, offset if told else -1)
            if free_below:
                self.deletions.append(free_below)
        del self.under_way[:many]

    @rule(which=st.integers(0, 5))
    def delete(self, which: int) -> None:
        """A request of any owner, in any order."""
        if which < len(self.deletions):
            self.start = max(self.start, self.deletions[which])

    @rule(survives=st.integers(0, 4), read=st.integers(0, 60), which=st.integers(0, 5))
    def fail_over(self, survives: int, read: int, which: int) -> None:
        """Some appends of the owner land, and the next one replays, while a late request deletes what it is reading."""
        for _, records, free_below in self.under_way[:survives]:
            self.history += records
            self.deletions += [free_below] if free_below else []
        self.under_way.clear()
        before, first = self.start, self.start
        self.delete(which)
        if self.start > before + read:
            first = self.start  # the reader was below: it begins again at the new start
        self.bound = LogBound(LIMITS)
        announced = 0
        for offset in range(first, len(self.history)):
            record = self.history[offset]
            self.bound.replayed(offset, [written(record)])
            announced = max(announced, record.free_below if isinstance(record, EpochRecord) else 0)
        assert announced >= self.start, "a log begins where that was announced"
        self.bound.loaded(announced)
        assert self.bound._needed.keys() == newest(self.history).keys()

    @invariant()
    def a_replay_from_the_start_finds_what_the_whole_log_says(self) -> None:
        assert newest(self.history[self.start :]) == newest(self.history)

    @invariant()
    def whatever_is_lost_of_what_is_under_way(self) -> None:
        landed = list(self.history)
        free = [offset for offset in self.deletions if offset]
        for _, records, free_below in self.under_way:
            landed += records
            free += [free_below] if free_below else []
            assert newest(landed[max(free, default=0) :]) == newest(landed)

    @invariant()
    def the_bound_is_consistent(self) -> None:
        self.bound.check()


def test_a_shortened_log_says_what_the_whole_one_says() -> None:
    run_state_machine_as_test(
        Log,
        settings=settings(
            max_examples=200, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
