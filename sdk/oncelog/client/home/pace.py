"""Says how long buffered records are handed out before the consumer polls again, and gives the event loop its turn.

A loop over records that are here already waits for nothing, so by itself it lets neither heartbeats nor other tasks run.

Rule 1: at most `most_records` records are handed out one by one between two polls, and none when the event loop had its
        last turn 10 ms ago: the next one comes from a poll, which counts as a read and carries out changes of the assignment.
Rule 2: a poll gives the event loop its turn when the last one was 10 ms ago. After longer work it gives several, since the
        answer to a heartbeat takes some of them.
Rule 3: no record costs an await for it. A poll that comes earlier waits for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final

_TURN_S: Final = 0.01
_MOST_TURNS: Final = 10


def _never() -> float:
    return inf


class Pace:
    """See the module. One per consumer, or per loop over the records of a batch, which polls nothing."""

    __slots__ = ("_left", "due_s", "most_records", "now_s")

    def __init__(self, most_records: int = 0) -> None:
        self.most_records = most_records
        self._left = 0
        self.now_s: Callable[[], float] = _never
        """The time of the loop that runs the consumer, once that was polled."""
        self.due_s = 0.0
        """When the loop is to have its next turn."""

    def may_go_on(self) -> bool:
        """True: one more record may be handed out before the next poll. Rule 1. For a worker: the loop over a consumer looks at
        `now_s` and `due_s` itself, since a call for each record is what it saves.
        """
        self._left -= 1
        return self._left > 0 and self.now_s() < self.due_s

    def polled(self) -> None:
        """The worker polls: it may hand out so many records again."""
        self._left = self.most_records

    def had_turn(self) -> None:
        """The caller has waited for something, so the event loop had its turn."""
        self.due_s = self._now_s() + _TURN_S

    async def give_turn(self) -> None:
        """Rule 2."""
        late_s = self._now_s() - self.due_s
        if late_s < 0:
            return
        for _ in range(min(1 + int(late_s / _TURN_S), _MOST_TURNS)):
            await asyncio.sleep(0)
        self.had_turn()

    def _now_s(self) -> float:
        if self.now_s is _never:
            self.now_s = asyncio.get_running_loop().time
            self.due_s = self.now_s() + _TURN_S
        return self.now_s()
