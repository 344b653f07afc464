"""The core of one waiting partition in one leadership: which records wait, which are moved next, and which are done.

    WAITING    in the wheel, or due and not taken yet
    MOVING     in the transaction that is under way
    CANCELLING a done batch that takes it out is under way
    (done)     not here any more

Rule 1: a record is in one move at a time, and in none while it is being cancelled.
Rule 2: a move that failed for certain gives its records back, and they are due at once. One whose outcome is not known ends the
        scheduler: the next one begins with a new session, which settles it, and reads the log again.
Rule 3: nothing is moved before its time by the clock that is given; a clock that goes back only delays.
Rule 4: the log is kept from the first record that is not done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from oncelog.errors import NotScheduledError
from oncelog_partition_leader.core.delays.timing_wheel import TimingWheel
from oncelog_partition_leader.core.delays.waiting_offsets import Offsets, WaitingOffsets

MOVE_RECORDS_MAX: Final = 5_000
"""The most records of one transaction."""


class Summary(NamedTuple):
    """A summary of what waits, for operators."""

    waiting: int
    next_due_ms: int
    """-1 = nothing waits."""
    moved: int
    cancelled: int


class Scheduler:
    """See the module. `next_offset`: everything before it was read."""

    def __init__(self, begin: int) -> None:
        self.next_offset = begin
        self.wheel = TimingWheel()
        self._waiting = WaitingOffsets()
        self._due: deque[int] = deque()
        self._moving: tuple[int, ...] = ()
        self._cancelling: set[int] = set()
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
        """Takes a done batch of an earlier leader: these records were moved, or cancelled."""
        self.next_offset = max(self.next_offset, next_offset)
        self._waiting.remove(offsets)

    # ------------------------------------------------------------ moving

    def take(self, now_ms: int) -> tuple[int, ...]:
        """Returns the offsets to move now, in the order of their times; none while a move is under way."""
        if self._moving:
            return ()
        self._due.extend(self.wheel.due(now_ms)[:, 1].tolist())
        taken: dict[int, None] = {}  # once, also when a cancellation that failed has put it into the wheel again
        while self._due and len(taken) < MOVE_RECORDS_MAX:
            offset = self._due.popleft()
            if offset in self._waiting and offset not in self._cancelling:
                taken[offset] = None
        self._moving = tuple(taken)
        return self._moving

    def moved(self) -> None:
        """The move is committed."""
        self._moved += len(self._moving)
        self._waiting.remove(self._moving)
        self._moving = ()

    def put_back(self, from_index: int = 0) -> None:
        """Gives back the records of the move from this one on: the move failed, or took only the first ones."""
        self._due.extendleft(reversed(self._moving[from_index:]))
        self._moving = self._moving[:from_index]

    # ------------------------------------------------------------ cancelling

    def cancel(self, offset: int) -> None:
        """Begins to cancel a record. Raises `NotScheduledError` unless it waits and is in no move."""
        if offset not in self._waiting or offset in self._moving or offset in self._cancelling:
            raise NotScheduledError(offset=offset)
        self._cancelling.add(offset)

    def cancelled(self, offset: int) -> None:
        """The done batch is committed."""
        self._cancelling.remove(offset)
        self._waiting.remove((offset,))
        self._cancelled += 1

    def not_cancelled(self, offset: int, due_ms: int, now_ms: int) -> None:
        """The done batch was not written, for certain: the record waits on."""
        self._cancelling.remove(offset)
        self.wheel.add(np.array([[due_ms, offset]], np.int64), now_ms)

    # ------------------------------------------------------------ looking

    def next_due_ms(self, now_ms: int) -> int | None:
        """Returns when to look again; None = when something new was read, or a move has ended."""
        if self._moving:
            return None
        return now_ms if self._due else self.wheel.next_due_ms()

    def keep_from(self) -> int:
        """Returns the offset below which the log needs nothing."""
        first = self._waiting.first()
        return self.next_offset if first is None else first

    def summary(self) -> Summary:
        """Returns what waits."""
        due_ms = self.wheel.next_due_ms()
        return Summary(len(self._waiting), -1 if due_ms is None else due_ms, self._moved, self._cancelled)

    def check(self) -> None:
        """Asserts every invariant."""
        assert all(offset in self._waiting for offset in self._moving), "what is moved waits"
        assert all(offset in self._waiting for offset in self._cancelling), "what is cancelled waits"
        assert not self._cancelling & set(self._moving), "a record is moved or cancelled, not both"
        assert self.keep_from() <= self.next_offset
