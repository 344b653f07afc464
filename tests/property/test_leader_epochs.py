"""Property test: the table of leader epochs says what a plain list of who wrote which offset says, whatever happened.

Appends, cuts of the tail, cuts of the head and restarts come in any order. A restart begins with a table that was stored
earlier, believes as much of it as the indexes on disk cover, and scans the rest; or it finds no table at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_partition_leader.core.log.leader_epochs import NO_EPOCH, LeaderEpochs


@dataclass
class Plain:
    """Who wrote which offset, from 0 on, deleted or not.

    `base`: from here on the records are still on disk; `known_from`: nobody knows any more who wrote what is below.
    """

    wrote: list[int] = field(default_factory=list)
    start: int = 0
    base: int = 0
    known_from: int = 0

    @property
    def end(self) -> int:
        return len(self.wrote)

    @property
    def before(self) -> int:
        return self.wrote[self.start - 1] if self.start > self.known_from else NO_EPOCH

    @property
    def last_epoch(self) -> int:
        return self.wrote[-1] if self.end > self.start else self.before

    @property
    def last_epoch_start(self) -> int:
        kept = self.wrote[self.start :]
        return self.start + (kept.index(kept[-1]) if kept else 0)

    def epoch_of(self, offset: int) -> int:
        return self.wrote[offset] if self.start <= offset < self.end else NO_EPOCH

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        kept = self.wrote[self.start :]
        older = [one for one in (self.before, *kept) if one <= epoch]
        end = next((self.start + n for n, one in enumerate(kept) if one > epoch), self.end)
        return (older[-1], end) if older else (NO_EPOCH, self.start)

    def truncate_tail(self, to: int) -> None:
        del self.wrote[to:]
        if to < self.start:
            self.start = self.known_from = to

    def runs_from(self, offset: int) -> list[tuple[int, int, int]]:
        """Batches as a scan finds them: (epoch, first offset, next offset)."""
        found = []
        for epoch, run in groupby(range(offset, self.end), key=lambda at: self.wrote[at]):
            offsets = list(run)
            found.append((epoch, offsets[0], offsets[-1] + 1))
        return found


@dataclass
class Stored:
    """A table on disk, and what it knows. `covered`: the log has not been cut below this end since."""

    data: bytes
    start: int
    known_from: int
    covered: int


class Both:
    """The table and the plain list, driven by the same steps."""

    def __init__(self) -> None:
        self.plain = Plain()
        self.table = LeaderEpochs()
        self.epoch = 0
        self.stored: Stored | None = None

    def append(self, a: int, b: int) -> None:
        """Each leader has a later epoch than all before it, also than those whose records were cut."""
        self.epoch += a % 3
        end = self.plain.end
        self.plain.wrote += [self.epoch] * (1 + b % 3)
        self.table.assign(self.epoch, end, self.plain.end)

    def truncate_tail(self, a: int, _: int) -> None:
        to = self.plain.end - a % (self.plain.end - self.plain.base + 1)
        self.plain.truncate_tail(to)
        self.table.truncate_tail(to)
        if self.stored is not None:
            self.stored.covered = min(self.stored.covered, to)

    def truncate_head(self, a: int, b: int) -> None:
        """Any part is deleted, often all of it; then whole segments may go."""
        plain = self.plain
        left = plain.end - plain.start
        plain.start = plain.end - (a % (left + 1) if b % 2 else 0)
        self.table.truncate_head(plain.start)
        if b % 3 == 0:
            plain.base += (a + b) % (plain.start - plain.base + 1)

    def store(self, _: int, __: int) -> None:
        self.stored = Stored(self.table.dump(), self.plain.start, self.plain.known_from, self.plain.end)

    def restart(self, a: int, b: int) -> None:
        """As recovery does it: the stored table as far as it is covered, then a scan; without a table a scan of everything."""
        plain, stored = self.plain, self.stored
        if stored is None or stored.covered < plain.base:
            covered, self.table, plain.known_from = plain.base, LeaderEpochs(plain.base), plain.base
        else:
            covered = stored.covered - (a % (stored.covered - plain.base + 1) if b % 2 else 0)
            self.table = LeaderEpochs.load(stored.data, covered)
            self.table.truncate_tail(covered)
            plain.known_from = covered if covered < stored.start else stored.known_from
        for epoch, start, end in plain.runs_from(covered):
            self.table.assign(epoch, start, end)
        self.table.truncate_tail(plain.end)
        self.table.truncate_head(plain.start)

    def lose_the_table(self, a: int, b: int) -> None:
        self.stored = None
        self.restart(a, b)

    def agree(self) -> None:
        plain, table = self.plain, self.table
        table.check()
        assert table.last_epoch == plain.last_epoch
        assert table.last_epoch_start == plain.last_epoch_start
        for offset in range(plain.end):
            assert table.epoch_of(offset) == plain.epoch_of(offset)
        for epoch in range(self.epoch + 2):
            assert table.end_offset_for(epoch) == plain.end_offset_for(epoch)


_NAMES = ("append", "truncate_tail", "truncate_head", "store", "restart", "lose_the_table")
_STEP = st.tuples(st.sampled_from(_NAMES), st.integers(0, 9), st.integers(0, 9))


@settings(max_examples=400)
@given(st.lists(_STEP, max_size=30))
def test_the_table_says_what_a_plain_list_says(steps: list[tuple[str, int, int]]) -> None:
    both = Both()
    for name, a, b in steps:
        getattr(both, name)(a, b)
        both.agree()
