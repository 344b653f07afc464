"""Tracks whether a shard keeps failing: how long to wait before its next life, and when to report the shard as
troubled.

Rule 1: a life that ends before it has served for `stable_ms` is a failed one. After `n` failed ones in a row the next
        one waits `backoff_ms * 2^(n-1)`, at most `backoff_max_ms`: an error at start-up would otherwise repeat
        seventeen times a second.
Rule 2: one failed life is a fail-over, two in a row are trouble: the last error is kept, for requests about the health
        of the cluster, until a life has served for `stable_ms`.
"""

from __future__ import annotations

from typing import Final

TROUBLED_FROM: Final = 2
_TEXT_MAX: Final = 300
_DOUBLINGS_MAX: Final = 20


class Vitality:
    """Counts the failed lives of one shard in one process. `now_ms` is monotonic."""

    def __init__(self, backoff_ms: int, backoff_max_ms: int, stable_ms: int) -> None:
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._stable_ms = stable_ms
        self._serves_since_ms: int | None = None
        self._error = ""
        self.failed_in_a_row = 0

    def serves(self, now_ms: int) -> None:
        """The shard has replayed its log and begins to answer."""
        self._serves_since_ms = now_ms

    def look(self, now_ms: int) -> None:
        """Forgets earlier failures once the shard has served for `stable_ms`."""
        if self._serves_since_ms is not None and now_ms - self._serves_since_ms >= self._stable_ms:
            self.failed_in_a_row = 0
            self._error = ""

    def ended(self, error: str, now_ms: int) -> int:
        """Records the end of a life and returns the wait before the next one, in ms."""
        self.look(now_ms)
        stable = self._serves_since_ms is not None and now_ms - self._serves_since_ms >= self._stable_ms
        self._serves_since_ms = None
        if stable:
            return self._backoff_ms
        self.failed_in_a_row += 1
        self._error = error[:_TEXT_MAX]
        doublings = min(self.failed_in_a_row - 1, _DOUBLINGS_MAX)
        return min(self._backoff_ms << doublings, max(self._backoff_max_ms, self._backoff_ms))

    @property
    def trouble(self) -> str:
        """The last error of a shard that keeps failing; empty while all is well."""
        return self._error if self.failed_in_a_row >= TROUBLED_FROM else ""
