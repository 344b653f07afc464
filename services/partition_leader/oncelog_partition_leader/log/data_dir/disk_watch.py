"""Detects a stalled disk: one whose syncs neither end nor fail.

Rule 1: a disk that finishes any sync is slow, not stalled: it is stalled when a sync on which a request waits is under way
        for `stall_max_ms` and no other sync ended meanwhile. (Syncs on which none waits may take ten times as long.)
Rule 2: it has recovered when no sync is late any more, and none was for `stall_max_ms`.
Rule 3: time in which this process itself did not run (`look` was not called) does not count against the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from oncelog.errors import StorageError
from oncelog.ports import WallClock

_log = logging.getLogger(__name__)
STALLED: Final = "stalled"
"""The reason of a `StorageError` for work that a stalled disk would have to do."""
_NOT_WAITED_FOR: Final = 10
_STOOD_STILL_MS: Final = 1_000


class DiskWatch:
    """Observes each sync; `look` must be called a few times a second. `on_change(stalled)` is called at each change."""

    def __init__(self, clock: WallClock, stall_max_ms: int, on_change: Callable[[bool], None]) -> None:
        self._clock = clock
        self._stall_max_ms = stall_max_ms
        self._on_change = on_change
        self._running: dict[object, tuple[int, int]] = {}
        self._progress_ms = self._looked_ms = clock.monotonic_ms()
        self._late_ms: int | None = None
        self.stalled = False

    @contextmanager
    def sync(self, *, is_waited_for: bool) -> Iterator[None]:
        """Surrounds one sync, whether it succeeds, fails or is cancelled."""
        this = object()
        patience_ms = self._stall_max_ms if is_waited_for else self._stall_max_ms * _NOT_WAITED_FOR
        self._running[this] = (self._clock.monotonic_ms(), patience_ms)
        try:
            yield
        finally:
            del self._running[this]
            self._progress_ms = self._clock.monotonic_ms()

    def require_answering(self) -> None:
        """Raises `StorageError` (retriable, reason "stalled") while the disk is stalled."""
        if self.stalled:
            raise StorageError(
                "the disk of this broker does not answer; ask again, another replica takes over", reason=STALLED
            )

    def look(self) -> None:
        """Checks the syncs under way for late ones."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms > _STOOD_STILL_MS:
            self._progress_ms = now_ms
        self._looked_ms = now_ms
        if self._is_late(now_ms):
            self._late_ms = now_ms
        stalled = self._late_ms is not None and now_ms - self._late_ms < self._stall_max_ms
        if stalled != self.stalled:
            self.stalled = stalled
            said = f"does not end a sync for {self._stall_max_ms} ms" if stalled else "answers again"
            _log.log(logging.ERROR if stalled else logging.INFO, "the disk of this broker %s", said)
            self._on_change(stalled)

    def _is_late(self, now_ms: int) -> bool:
        return any(
            now_ms - max(began_ms, self._progress_ms) >= patience_ms for began_ms, patience_ms in self._running.values()
        )
