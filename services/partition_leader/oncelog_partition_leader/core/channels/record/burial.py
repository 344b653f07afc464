"""Dead records whose letters have to be written.

Rule: a record is handed out once (`take`), until its letter could not be written (`again`); its reason is kept until it is
    settled or gone.
"""

from __future__ import annotations

from collections import deque
from typing import Final

MAX_AT_ONCE: Final = 1_000
EXHAUSTED: Final = "max_deliveries"
"""The reason of a record that was delivered too often."""


class Burial:
    """The dead records of one channel on one partition."""

    __slots__ = ("_queue", "reasons", "troubles")

    def __init__(self) -> None:
        self._queue: deque[int] = deque()
        self.reasons: dict[int, str] = {}
        """The reason of each record that is dead and whose letter is not written."""
        self.troubles: dict[int, str] = {}
        """Why the letters of some of them could not be written at the last try."""

    def add(self, offset: int, reason: str) -> None:
        """Takes in a record that has died."""
        self.reasons[offset] = reason
        self._queue.append(offset)

    def again(self, offset: int) -> None:
        """Puts a record back whose letter could not be written."""
        assert offset in self.reasons, "only a dead record gets a letter"
        self._queue.append(offset)

    def take(self) -> list[int]:
        """Hands out the next records, the oldest first."""
        taken: list[int] = []
        while self._queue and len(taken) < MAX_AT_ONCE:
            offset = self._queue.popleft()
            if offset in self.reasons:  # retention may have deleted it
                taken.append(offset)
        return taken

    def done(self, offset: int) -> None:
        """Forgets a record."""
        self.reasons.pop(offset, None)
        self.troubles.pop(offset, None)

    def clear(self) -> None:
        """Forgets all of them."""
        self._queue.clear()
        self.reasons.clear()
        self.troubles.clear()
