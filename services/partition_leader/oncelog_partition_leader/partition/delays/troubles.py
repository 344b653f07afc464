"""Why delayed records are not moved: counted, said in the log of the broker, and a reason to pause.

Rule 1: the first failure of a partition is said at once, later ones once a minute: trouble that lasts for days fills a metric,
        not a disk.
Rule 2: pauses double from a fifth of a second up to ten seconds, and end with the first success, or some time without failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

_log = logging.getLogger(__name__)
_PAUSE_MS: Final = 200
PAUSE_MAX_MS: Final = 10_000
SAY_EVERY_MS: Final = 60_000


class Trouble:
    """The trouble of one partition, over all runs of its scheduler. `count` counts a failure."""

    def __init__(self, name: str, count: Callable[[], None]) -> None:
        self._name = name
        self._count = count
        self._pause_ms = 0
        self._until_ms = 0
        self._said_ms: int | None = None

    def failed(self, error: BaseException, now_ms: int) -> None:
        """Notes that a move, or a run, failed at this monotonic time."""
        self._count()
        last_ms = self._pause_ms if now_ms - self._until_ms < PAUSE_MAX_MS else 0
        self._pause_ms = min(max(2 * last_ms, _PAUSE_MS), PAUSE_MAX_MS)
        self._until_ms = now_ms + self._pause_ms
        if self._may_say(now_ms):
            _log.warning("delayed records of %s wait on: %r", self._name, error)

    def refused(self, offset: int, error: BaseException, now_ms: int) -> None:
        """Notes that the topic refuses a record, which is tried again after a longer pause; others are moved meanwhile."""
        self._count()
        if self._may_say(now_ms):
            _log.error("the delayed record at offset %d of %s is not taken by its topic: %r", offset, self._name, error)

    def _may_say(self, now_ms: int) -> bool:
        if self._said_ms is not None and now_ms - self._said_ms < SAY_EVERY_MS:
            return False
        self._said_ms = now_ms
        return True

    def over(self) -> None:
        """Notes a success."""
        self._pause_ms = self._until_ms = 0

    def pauses_for_ms(self, now_ms: int) -> int:
        """Returns how long nothing is to be tried; 0 = now."""
        return max(self._until_ms - now_ms, 0)


class Troubles:
    """The troubles of all waiting partitions of a broker. `total` counts every failure."""

    def __init__(self) -> None:
        self.total = 0
        self._by_name: dict[str, Trouble] = {}

    def of(self, topic: str, partition: int) -> Trouble:
        """Returns the trouble of a partition."""
        name = f"{topic}-{partition}"
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = Trouble(name, self._count)
        return found

    def forget(self, topic: str, partition: int) -> None:
        """Forgets that of a partition that is not led here any more."""
        self._by_name.pop(f"{topic}-{partition}", None)

    def _count(self) -> None:
        self.total += 1
