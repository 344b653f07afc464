"""Warns when the event loop of a worker stood still while the worker held records: what blocks it loses them.

Rule: once per minute at most, since what blocks the loop does that with every record.
"""

from __future__ import annotations

import logging
from typing import Final

STOOD_STILL_MS: Final = 3_000
"""No loop stands still for so long unless something blocks it, or the process is frozen."""
_QUIET_MS: Final = 60_000
_log = logging.getLogger(__name__)


class Standstill:
    """See the module. One per worker, of this channel."""

    def __init__(self, topic: str, channel: str) -> None:
        self._topic = topic
        self._channel = channel
        self._quiet_until_ms: int | None = None

    def noted(self, now_ms: int, stood_ms: int, held: int) -> None:
        """The loop stood still for `stood_ms`, and the worker holds so many records."""
        if held == 0 or (self._quiet_until_ms is not None and now_ms < self._quiet_until_ms):
            return
        self._quiet_until_ms = now_ms + _QUIET_MS
        _log.warning(
            "the event loop of a worker of channel %s of %s stood still for %.1f s while it held %d records: brokers give"
            " them to others when they do not hear of a worker for 10 s (or for ack_wait_ms, if that is less), also with"
            " auto_touch. Call what blocks with `await asyncio.to_thread(...)`, or use SyncClient",
            self._channel,
            self._topic,
            stood_ms / 1000,
            held,
        )
