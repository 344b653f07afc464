"""Looks at the room on the volume of the logs, and refuses what would fill it (`core/log/disk_levels`).

Rule 1: a refusal comes before anything is written, is retriable, and says when to come again. When there is room again the
        broker takes everything by itself.
Rule 2: markers, fences and the cluster's own logs are never refused here: only a disk that is really full refuses them.
Rule 3: a volume whose room cannot be told keeps its level.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from oncelog.core.batch.header import read_header
from oncelog.errors import ResourceExhaustedError, StorageError
from oncelog.ports import WallClock
from oncelog.types import Buffer
from oncelog_partition_leader.core.log.disk_levels import Level, Thresholds, level_of
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from oncelog_runtime.ports import Disk

_log = logging.getLogger(__name__)
LOOK_MS: Final = 1_000
RETRY_AFTER_MS: Final = 1_000
_SAID: Final = {
    Level.ROOMY: "has room again and takes everything",
    Level.LOW: "has little room: no new transactions",
    Level.RESERVED: "is nearly full: no records, the rest is kept for markers and the cluster's own logs",
}


class DiskRoom:
    """The level of one broker's volume; `look` must be called a few times a second."""

    def __init__(self, disk: Disk, clock: WallClock, thresholds: Thresholds) -> None:
        self._disk = disk
        self._clock = clock
        self._thresholds = thresholds
        self._looked_ms = clock.monotonic_ms() - LOOK_MS
        self.level = Level.ROOMY

    def look(self) -> None:
        """Looks once in `LOOK_MS`."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        try:
            space = self._disk.space()
        except StorageError as error:
            _log.warning("the volume's room is not known: %s", error)
            return
        level = level_of(self.level, space.free_bytes, space.total_bytes, self._thresholds)
        if level is not self.level:
            self.level = level
            _log.log(
                logging.WARNING if level else logging.INFO,
                "the disk of this broker %s",
                _SAID[level],
                extra={"free_bytes": space.free_bytes, "total_bytes": space.total_bytes},
            )

    def is_kept_from(self, topic: str) -> bool:
        """Returns True when records of this topic are not taken now."""
        return self.level is Level.RESERVED and topic not in INTERNAL_TOPICS

    def require_for_records(self, topic: str) -> None:
        """Raises `ResourceExhaustedError` when the rest of the disk is kept for others."""
        if self.is_kept_from(topic):
            raise _refusal("the disk of this broker is nearly full: delete records, shorten retention or add room")

    def require_for_transactions(self) -> None:
        """Raises `ResourceExhaustedError` when no transaction may begin here."""
        if self.level >= Level.LOW:
            raise _refusal("the disk of this broker has little room: no new transactions until there is more")

    def require_for_copy(self, topic: str, batches: Buffer) -> None:
        """Raises `StorageError` (full) when these are a leader's records, which a follower does not take now."""
        if self.is_kept_from(topic) and not all(_controls(batches)):
            raise StorageError("the rest of this disk is kept for markers", reason="full")


def _refusal(message: str) -> ResourceExhaustedError:
    return ResourceExhaustedError(message, reason="disk", retry_after_ms=RETRY_AFTER_MS)


def _controls(batches: Buffer) -> Iterator[bool]:
    """Yields for each batch whether it is one of the cluster's own."""
    position = 0
    while position < len(batches):
        header = read_header(batches, position)
        yield header.is_control
        position += header.batch_length
