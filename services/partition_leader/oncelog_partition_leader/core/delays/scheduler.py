"""The core of one waiting partition in one leadership: which records wait, which are moved next, and which are done.

    WAITING    in the wheel, or due and not taken yet
    MOVING     in the transaction that is under way
    CANCELLING a done batch that takes it out is under way
    REFUSED    its topic did not take it; it is due again after a pause
    (done)     not here any more

Rule 1: one transaction is under way at a time: a move, or a cancellation. A record is in one, or waits.
Rule 2: a move that failed for certain gives its records back, and they are due at once. One whose outcome is not known ends the
        scheduler: the next one begins with a new session, which settles it, and reads the log again.
Rule 3: nothing is moved before its time by the clock that is given. A clock that goes back delays what was not due yet, and
        nothing else: a record whose move has failed is due as before.
Rule 4: the log is kept from the first record that is not done.
Rule 5: records that their topic refuses hold up no others: a refused move is made again in halves, and a record that is
        refused alone pauses, each time for longer. It is never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from oncelog_partition_leader.core.delays.timing_wheel import Pairs, TimingWheel
from oncelog_partition_leader.core.delays.waiting_offsets import Offsets, WaitingOffsets

MOVE_RECORDS_MAX: Final = 5_000
"""The most records of one transaction."""
REFUSED_PAUSE_MS: Final = 10_000
"""How long a record that was refused alone pauses; then twice as long, and so on."""
REFUSED_PAUSE_MAX_MS: Final = 3_600_000
LATE_MAX: Final = 100_000
"""Above so many pairs that were due when they were read, those that do not wait any more are let go: 1.6 MB."""
_NONE: Final = np.empty((0, 2), np.int64)


class Summary(NamedTuple):
    """A summary of what waits, for operators."""

    waiting: int
    next_due_ms: int
    """No record is due before; -1 = nothing waits."""
    moved: int
    cancelled: int
    refused: int
    """Those that wait although they were due, because their topic did not take them."""


class _Refusal(NamedTuple):
    due_ms: int
    pause_ms: int


class Scheduler:
    """See the module. `next_offset`: everything before it was read."""

    def __init__(self, begin: int) -> None:
        self.next_offset = begin
        self.wheel = TimingWheel()
        self._waiting = WaitingOffsets()
        self._due: Pairs = _NONE
        """Pairs that are due and were not taken, in the order in which they are moved."""
        self._moving: Pairs = _NONE
        self._cancelling: tuple[int, ...] = ()
        self._refused: dict[int, _Refusal] = {}
        self._most = MOVE_RECORDS_MAX
        self._late_max = LATE_MAX
        self._moved = 0
        self._cancelled = 0

    # ------------------------------------------------------------ what the log says

    def read(self, due_ms: Offsets, offsets: Offsets, next_offset: int, now_ms: int) -> None:
        """Takes committed records of the log, and how far it was read."""
        assert next_offset >= self.next_offset, "a log is read forwards"
        assert not len(offsets) or offsets[0] >= self.next_offset, "a record is read once"
        self.next_offset = next_offset
        self._waiting.add(offsets)
        self.wheel.add(np.column_stack((due_ms, offsets)), now_ms)

    def read_done(self, offsets: Sequence[int], next_offset: int) -> None:
        """Takes a done batch, of this leader or an earlier one: these records were moved, or cancelled."""
        self.next_offset = max(self.next_offset, next_offset)
        self._forget(offsets)
        if self.wheel.late > self._late_max:
            self.wheel.keep_late(self._waiting.among)
            self._late_max = max(2 * self.wheel.late, LATE_MAX)

    # ------------------------------------------------------------ moving

    def take(self, now_ms: int) -> tuple[int, ...]:
        """Returns the offsets to move now, in the order of their times; none while a transaction is under way."""
        if len(self._moving) or self._cancelling:
            return ()
        found = self.wheel.due(now_ms)
        if len(found):
            self._due = np.concatenate((self._due, found))
        while len(self._due) and not len(self._moving):
            first, self._due = self._due[: self._most], self._due[self._most :]
            self._moving = first[self._waiting.among(first[:, 1])]
        return tuple(self._moving[:, 1].tolist())

    def moved(self) -> None:
        """The move is committed."""
        self._moved += len(self._moving)
        self._forget(self._moving[:, 1].tolist())
        self._moving = _NONE
        self._most = min(2 * self._most, MOVE_RECORDS_MAX)

    def put_back(self, from_index: int = 0) -> None:
        """Gives back the records of the move from this one on: the move failed, or took only the first ones."""
        self._due = np.concatenate((self._moving[from_index:], self._due))
        self._moving = self._moving[:from_index]

    def refused(self, now_ms: int) -> bool:
        """The topic refused the move, and will refuse it again. Returns True when that was about a single record, which
        pauses now; else the next move has half as many.
        """
        count = len(self._moving)
        if count > 1:
            self._most = count // 2
            self.put_back()
            return False
        ((due_ms, offset),) = self._moving.tolist()
        before = self._refused.get(offset)
        pause_ms = REFUSED_PAUSE_MS if before is None else min(2 * before.pause_ms, REFUSED_PAUSE_MAX_MS)
        self._refused[offset] = _Refusal(due_ms if before is None else before.due_ms, pause_ms)
        self._moving = _NONE
        self.wheel.add(np.array([[now_ms + pause_ms, offset]], np.int64), now_ms)
        return True

    # ------------------------------------------------------------ cancelling

    def cancel(self, offsets: Sequence[int]) -> tuple[int, ...]:
        """Begins to cancel those of these records that wait, and returns them."""
        assert not len(self._moving), "one transaction at a time"
        assert not self._cancelling, "one transaction at a time"
        self._cancelling = tuple(dict.fromkeys(offset for offset in offsets if offset in self._waiting))
        return self._cancelling

    def cancelled(self) -> None:
        """The done batch is committed."""
        self._cancelled += len(self._cancelling)
        self._forget(self._cancelling)
        self._cancelling = ()

    def not_cancelled(self) -> None:
        """The done batch is not visible, for certain: the records wait on."""
        self._cancelling = ()

    def _forget(self, offsets: Sequence[int]) -> None:
        self._waiting.remove(offsets)
        if self._refused:
            for offset in offsets:
                self._refused.pop(offset, None)

    # ------------------------------------------------------------ looking

    def next_due_ms(self, now_ms: int) -> int | None:
        """Returns when to look again; None = when something new was read."""
        return now_ms if len(self._due) else self.wheel.next_due_ms()

    def keep_from(self) -> int:
        """Returns the offset below which the log needs nothing."""
        first = self._waiting.first()
        return self.next_offset if first is None else first

    def summary(self) -> Summary:
        """Returns what waits."""
        waiting = len(self._waiting)
        return Summary(waiting, self._oldest_ms() if waiting else -1, self._moved, self._cancelled, len(self._refused))

    def _oldest_ms(self) -> int:
        times = [refusal.due_ms for refusal in self._refused.values()]
        times += [int(pairs[0, 0]) for pairs in (self._moving, self._due) if len(pairs)]
        in_wheel = self.wheel.next_due_ms()
        return min(times if in_wheel is None else [*times, in_wheel], default=-1)

    def check(self) -> None:
        """Asserts every invariant."""
        assert all(offset in self._waiting for offset in self._moving[:, 1].tolist()), "what is moved waits"
        assert all(offset in self._waiting for offset in self._cancelling), "what is cancelled waits"
        assert all(offset in self._waiting for offset in self._refused), "what was refused waits"
        assert not (self._cancelling and len(self._moving)), "one transaction is under way"
        assert self.keep_from() <= self.next_offset
