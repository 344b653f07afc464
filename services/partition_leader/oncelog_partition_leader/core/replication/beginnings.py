"""Which sessions of a link begin now, and which a moment later, when thousands of partitions begin to be replicated.

In: partitions that this broker begins to lead (`add`), those that the follower refused (`refused`), answers of those that it
accepted after that (`accepted`), and the time. Out: the partitions whose session is to begin (`due`), and when to ask again.

Rule 1: the first one begins at once. Those that follow within `GATHER_MS` begin together after it: a broker that opens a
        thousand logs one after the other sends tens of requests for their sessions, not thousands.
Rule 2: a partition that the follower refused is tried again after a pause, which doubles with each refusal in a row.
Rule 3: of those, `TRIED_AT_ONCE` begin in each `GATHER_MS`, the one whose pause ended first before others, and two more for
        each one that the follower accepts. So one that still opens thousands of logs is not asked for all of them all the
        time, and one that is ready has them all after a few answers.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Hashable)
GATHER_MS: Final = 20
TRIED_AT_ONCE: Final = 16
DOUBLINGS_MAX: Final = 3
"""The pause after a refusal doubles so often: what a follower that is ready again waits at most."""
_FREED_BY_ONE: Final = 2


class Beginnings(Generic[T]):
    """The sessions of one link that wait to begin. `pause_ms`: the pause after the first refusal."""

    def __init__(self, pause_ms: int) -> None:
        self._pause_ms = pause_ms
        self._new: dict[T, None] = {}
        self._refused: list[tuple[int, int, T]] = []
        self._numbers = count()
        self._round_ends_ms: int | None = None
        self._left = TRIED_AT_ONCE

    def add(self, item: T) -> None:
        """Notes a partition whose session has not begun yet."""
        self._new[item] = None

    def refused(self, item: T, times: int, now_ms: int) -> None:
        """Notes that the follower refused a partition, `times` in a row before this time."""
        due_ms = now_ms + (self._pause_ms << min(times, DOUBLINGS_MAX))
        heappush(self._refused, (due_ms, next(self._numbers), item))

    def accepted(self) -> None:
        """Notes that the follower accepted a partition that it had refused."""
        self._left += _FREED_BY_ONE

    def due(self, now_ms: int) -> list[T]:
        """Returns the partitions that begin now, and forgets them."""
        found: list[T] = []
        if self._round_ends_ms is None or now_ms >= self._round_ends_ms:
            found.extend(self._new)
            self._new.clear()
            self._left = TRIED_AT_ONCE
        while self._left and self._refused and self._refused[0][0] <= now_ms:
            self._left -= 1
            found.append(heappop(self._refused)[2])
        if found and (self._round_ends_ms is None or now_ms >= self._round_ends_ms):
            self._round_ends_ms = now_ms + GATHER_MS
        return found

    def next_ms(self, now_ms: int) -> int | None:
        """Returns when `due` may have something next; None = not before something happens."""
        round_ms = now_ms if self._round_ends_ms is None else self._round_ends_ms
        if self._new:
            return max(now_ms, round_ms)
        if not self._refused:
            return None
        due_ms = self._refused[0][0]
        return max(now_ms, due_ms if self._left else max(due_ms, round_ms))
