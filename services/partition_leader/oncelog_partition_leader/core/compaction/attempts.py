"""When a log is compacted again whose passes fail: later and later, so that one log does not cost its broker all its time.

Rule: after each failure in a row the pause doubles, from one interval up to `PAUSE_MAX_MS`. A success ends it.
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
PAUSE_MAX_MS: Final = 600_000
_DOUBLINGS_MAX: Final = 20


class Attempts(Generic[K]):
    """The failed passes of each log in a row, by the log's name."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._failed: dict[K, tuple[int, int]] = {}

    def may(self, name: K, now_ms: int) -> bool:
        """Returns True unless the log is in a pause."""
        return self._failed.get(name, (0, now_ms))[1] <= now_ms

    def failed(self, name: K, now_ms: int) -> int:
        """Notes a failed pass; returns the pause in ms."""
        count = min(self._failed.get(name, (0, 0))[0] + 1, _DOUBLINGS_MAX)
        pause_ms = min(self._interval_ms << (count - 1), max(PAUSE_MAX_MS, self._interval_ms))
        self._failed[name] = count, now_ms + pause_ms
        return pause_ms

    def done(self, name: K) -> None:
        """Notes that the log was compacted."""
        self._failed.pop(name, None)

    def keep(self, names: Container[K]) -> None:
        """Forgets all logs but these: the others are gone."""
        for name in [name for name in self._failed if name not in names]:
            del self._failed[name]
