"""Records that another thread takes one after the other, without asking the event loop for each.

Rule 1: the consumer's position moves by what was taken, not by what was handed out. `Consumer.take_back` moves it, on the loop,
        before anything that needs or moves the position.
Rule 2: after `end` nothing can be taken, so no record is both taken here and returned by another call.
"""

from __future__ import annotations

from threading import Lock

from oncelog.client.consume.fetched_records import ConsumerRecord, Leftover


class Handout:
    """The rest of one batch. `next` may be called from any thread, also from several."""

    __slots__ = ("_at", "_is_over", "_lock", "_rows", "part")

    def __init__(self, part: Leftover) -> None:
        self.part = part
        self._rows, self._at = part.unpacked()
        self._is_over = False
        self._lock = Lock()

    def next(self) -> ConsumerRecord | None:
        """The next record; None when all are taken, or the loop ended this."""
        with self._lock:
            if self._is_over or self._at >= len(self._rows):
                return None
            row = self._rows[self._at]
            self._at += 1
            return row

    def end(self) -> int:
        """Nothing is taken from here on. Returns where in the batch the first record lies that was not taken."""
        with self._lock:
            self._is_over = True
            return self._at
