"""Records that another thread takes one after the other, without asking the event loop for each.

Rule 1: the consumer's position moves by what was taken, not by what was handed out. `Consumer.take_back` moves it, on the loop,
        before anything that needs or moves the position.
Rule 2: after `end` nothing can be taken, so no record is both taken here and returned by another call.
Rule 3: what is handed out is bounded in number and in time, so that a slow loop over a large batch polls in between: the group
        counts a poll as a read, and changes the assignment in it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final

from oncelog.client.consume.fetched_records import ConsumerRecord, Leftover

_MOST_S: Final = 0.1
"""A poll from another thread costs about a tenth of a millisecond."""


class Handout:
    """The next records of one batch, `most` of them. Any thread may call `next`, also several, and `now_s` of the loop."""

    __slots__ = ("_at", "_end", "_lock", "_now_s", "_rows", "_until_s", "part")

    def __init__(self, part: Leftover, most: int, now_s: Callable[[], float]) -> None:
        self.part = part
        self._rows, self._at = part.rows, part.at
        self._end = min(len(self._rows), self._at + most)
        self._now_s = now_s
        self._until_s = now_s() + _MOST_S
        self._lock = Lock()

    def next(self) -> ConsumerRecord | None:
        """The next record; None when all are taken, the time has passed (rule 3), or the loop ended this."""
        with self._lock:
            at = self._at
            if at >= self._end or self._now_s() >= self._until_s:
                return None
            self._at = at + 1
            return self._rows[at]

    def end(self) -> int:
        """Nothing is taken from here on. Returns where in the batch the first record lies that was not taken."""
        with self._lock:
            self._end = 0
            return self._at
