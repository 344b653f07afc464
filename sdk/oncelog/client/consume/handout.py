"""Records that another thread takes one after the other, without asking the event loop for each.

Rule 1: the consumer's position moves by what was taken, not by what was handed out. `Consumer.take_back` moves it, on the loop,
        before anything that needs or moves the position.
Rule 2: after `end` nothing can be taken, so no record is both taken here and returned by another call.
Rule 3: what is handed out is bounded in number and in time, so that a slow loop over a large batch polls in between: the group
        counts a poll as a read, and changes the assignment in it.
"""

from __future__ import annotations

from threading import Lock
from typing import Final

from oncelog.client.consume.fetched_records import ConsumerRecord, Leftover
from oncelog.ports import WallClock

_MOST_MS: Final = 100
"""A poll from another thread costs about a tenth of a millisecond."""


class Handout:
    """The next records of one batch, `most` of them. `next` may be called from any thread, also from several."""

    __slots__ = ("_at", "_clock", "_end", "_is_over", "_lock", "_rows", "_until_ms", "part")

    def __init__(self, part: Leftover, most: int, clock: WallClock) -> None:
        self.part = part
        self._rows, self._at = part.unpacked()
        self._end = min(len(self._rows), self._at + most)
        self._clock = clock
        self._until_ms = clock.monotonic_ms() + _MOST_MS
        self._is_over = False
        self._lock = Lock()

    def next(self) -> ConsumerRecord | None:
        """The next record; None when all are taken, the time has passed (rule 3), or the loop ended this."""
        with self._lock:
            if self._is_over or self._at >= self._end or self._clock.monotonic_ms() >= self._until_ms:
                return None
            row = self._rows[self._at]
            self._at += 1
            return row

    def end(self) -> int:
        """Nothing is taken from here on. Returns where in the batch the first record lies that was not taken."""
        with self._lock:
            self._is_over = True
            return self._at
