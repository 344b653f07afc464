"""Takes over a data directory from the process that used it before.

Rule 1: one process at a time. A directory that stays locked for `LOCK_WAIT_MS` is in use, and the named error says so.
Rule 2: a killed process may hold its lock a moment longer (the kernel completes its last write, its container is
        removed): its successor waits that long, and logs once that it does.
Rule 3: a directory that cannot be made since the disk is full is waited for until there is room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from oncelog.errors import StorageError
from oncelog.ports import WallClock

_log = logging.getLogger(__name__)

LOCK_WAIT_MS: Final = 5_000
_RETRY_S: Final = 0.1
_WAITS: Final = {
    "locked": "another process has the data directory: waiting for its end",
    "full": "the data directory cannot be made before there is room on the disk",
}


async def take(lock: Callable[[], None], clock: WallClock, directory: str) -> None:
    """Returns when `lock` succeeds; it raises `StorageError`, with the reason `locked` while another process has the directory.

    Raises the last error of `lock`: `locked` after `LOCK_WAIT_MS`, `full` never, another reason at once.
    """
    deadline_ms = clock.monotonic_ms() + LOCK_WAIT_MS
    said: set[str] = set()
    while True:
        try:
            lock()
            return
        except StorageError as error:
            reason = error.context.get("reason", "")
            if reason not in _WAITS or (reason == "locked" and clock.monotonic_ms() >= deadline_ms):
                raise
        if reason not in said:
            said.add(reason)
            bound = {"wait_ms": LOCK_WAIT_MS} if reason == "locked" else {}
            _log.warning(_WAITS[reason], extra={"data_dir": directory, **bound})
        await asyncio.sleep(_RETRY_S)
