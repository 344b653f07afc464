"""The queue of all that waits to be written to the coordinator, in the order in which it came, one write at a time.

Rule 1: at most one write is outstanding. A number is given to a write when it is begun, so a handler that waits for it knows
    the number from the start (`number`), and every number given is written: a seek empties writes, and takes none out.
Rule 2: a write has at most `MAX_RANGES` settled ranges and `MAX_RETRIED` records; more goes with the next one.
Rule 3: a seek is a write of its own.
Rule 4: a record that is given back again and again, while nothing can be written, waits once: what is written is its newest
    state. So what waits is bounded by the records of the window.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from oncelog_partition_leader.core.channels.offset_ranges import OffsetRanges

MAX_RANGES: Final = 10_000
MAX_RETRIED: Final = 10_000


class Draft:
    """A write that is being put together, or is outstanding."""

    __slots__ = ("is_seek", "number", "retried", "settled")

    def __init__(self, number: int) -> None:
        self.number = number
        self.settled = OffsetRanges()
        self.retried: dict[int, None] = {}
        """Offsets whose delivery counts changed, in the order of the changes; what they are is looked up at the end."""
        self.is_seek = False

    def empty(self) -> None:
        """Takes everything out; the write itself stays."""
        self.settled = OffsetRanges()
        self.retried = {}


class WriteQueue:
    """The writes of one channel on one partition."""

    __slots__ = ("_drafts", "_given_back", "confirmed", "outstanding")

    def __init__(self, write_no: int) -> None:
        self._drafts: deque[Draft] = deque()
        self._given_back: set[int] = set()
        """The `retried` of all drafts that wait."""
        self.outstanding: Draft | None = None
        self.confirmed = write_no
        """The number of the last write that was confirmed."""

    @property
    def number(self) -> int:
        """The number of the write with which everything so far is durable."""
        if self._drafts:
            return self._drafts[-1].number
        return self.sent

    @property
    def sent(self) -> int:
        """The number of the outstanding write, or else of the last one."""
        return self.confirmed if self.outstanding is None else self.outstanding.number

    @property
    def has_news(self) -> bool:
        """True when something waits that is not outstanding yet."""
        return bool(self._drafts)

    @property
    def is_seeking(self) -> bool:
        """True while a seek waits, or is outstanding."""
        is_sent = self.outstanding is not None and self.outstanding.is_seek
        return is_sent or any(draft.is_seek for draft in self._drafts)

    def settle(self, first: int, last: int) -> None:
        """Adds neighbours that were settled."""
        self._open_draft().settled.add(first, last)

    def give_back(self, offset: int) -> None:
        """Adds a record whose delivery count has changed, unless it waits already."""
        if offset not in self._given_back:
            self._given_back.add(offset)
            self._open_draft().retried[offset] = None

    def seek(self) -> bool:
        """Adds a seek, and forgets what came before. Returns False when one waits already: it takes along this one too."""
        if self.outstanding is not None:
            self.outstanding.empty()
        self._given_back.clear()
        for draft in self._drafts:
            draft.empty()
        if any(draft.is_seek for draft in self._drafts):
            return False
        if not self._drafts:
            self._drafts.append(Draft(self.number + 1))
        self._drafts[0].is_seek = True
        return True

    def begin(self) -> Draft | None:
        """Makes the oldest draft the outstanding write, and returns it; None while there is one already."""
        if self.outstanding is not None:
            return None
        self.outstanding = self._drafts.popleft() if self._drafts else Draft(self.confirmed + 1)
        self._given_back.difference_update(self.outstanding.retried)
        return self.outstanding

    def written(self, number: int) -> Draft | None:
        """Takes the confirmation of the outstanding write, and returns it; None for another number."""
        draft = self.outstanding
        if draft is None or draft.number != number:
            return None
        self.outstanding = None
        self.confirmed = number
        return draft

    def _open_draft(self) -> Draft:
        last = self._drafts[-1] if self._drafts else None
        is_open = (
            last is not None and not last.is_seek and len(last.settled) < MAX_RANGES and len(last.retried) < MAX_RETRIED
        )
        if last is None or not is_open:
            last = Draft(self.number + 1)
            self._drafts.append(last)
        return last

    def waiting(self) -> OffsetRanges:
        """Returns all that was settled and is not confirmed; for tests."""
        drafts = [*self._drafts, *([] if self.outstanding is None else [self.outstanding])]
        return OffsetRanges(run for draft in drafts for run in draft.settled)

    def check(self) -> None:
        """Asserts that the numbers follow each other, and the bounds."""
        numbers = [draft.number for draft in self._drafts]
        begun = self.confirmed + (self.outstanding is not None)
        assert numbers == list(range(begun + 1, begun + 1 + len(numbers))), "numbers follow each other"
        assert self.outstanding is None or self.outstanding.number == begun, "the outstanding write is the next one"
        assert all(len(draft.settled) <= MAX_RANGES and len(draft.retried) <= MAX_RETRIED for draft in self._drafts)
        assert all(not (draft.settled or draft.retried) for draft in self._drafts if draft.is_seek), "a seek is alone"
        retried = [offset for draft in self._drafts for offset in draft.retried]
        assert len(retried) == len(self._given_back), "a record waits once"
        assert self._given_back.issuperset(retried), "what waits is known"
