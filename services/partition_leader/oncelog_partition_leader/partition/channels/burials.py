"""Has the dead letters of one delivery written, a few at a time.

Rule: a letter that cannot be written is tried again after a pause that grows up to half a minute; its record stays BURYING, and
no other record waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

from oncelog.errors import (
    CorruptMessageError,
    InvalidRecordError,
    MessageTooLargeError,
    OncelogError,
    RecordListTooLargeError,
)
from oncelog.ports import WallClock
from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.settlement import Dead

Spawn = Callable[[Coroutine[Any, Any, None], str], None]
_AT_ONCE: Final = 100
_PAUSE_MS: Final = 500
_PAUSE_MAX_MS: Final = 30_000
_OF_ONE_RECORD: Final = (CorruptMessageError, InvalidRecordError, MessageTooLargeError, RecordListTooLargeError)
"""The errors that say something about the records, or about all of them together."""
_log = logging.getLogger(__name__)


class Bury(Protocol):
    """Writes letters, and returns when they are committed. Raises `OncelogError`."""

    async def __call__(self, dead: Sequence[Dead]) -> None: ...


class Burials:
    """The burials of one delivery. `look` after each change."""

    def __init__(
        self, delivery: Delivery, bury: Bury, clock: WallClock, spawn: Spawn, changed: Callable[[], None]
    ) -> None:
        self._delivery = delivery
        self._bury = bury
        self._clock = clock
        self._spawn = spawn
        self._changed = changed
        self._due: list[Dead] = []
        self._running = False
        self._failures = 0
        self._ended = False

    def look(self) -> None:
        """Begins to write letters when there are any."""
        if self._ended:
            return
        self._due += self._delivery.to_bury()
        if self._due and not self._running:
            self._running = True
            self._spawn(self._run(), "dead-letters")

    def end(self) -> None:
        """Stops."""
        self._ended = True

    async def _run(self) -> None:
        try:
            while self._due and not self._ended:
                some, self._due = self._due[:_AT_ONCE], self._due[_AT_ONCE:]
                await self._write(some)
        finally:
            self._running = False

    async def _write(self, some: Sequence[Dead]) -> None:
        try:
            await self._bury(some)
        except OncelogError as error:
            if len(some) > 1 and isinstance(error, _OF_ONE_RECORD):
                for one in some:  # the letter of one of them can never be written so: the others do not wait for it
                    await self._write([one])
                return
            self._failed(some, error)
        else:
            self._failures = 0
            if not self._ended:
                for one in some:
                    self._delivery.buried(one.offset)
        if not self._ended:
            self._changed()

    def _failed(self, some: Sequence[Dead], error: OncelogError) -> None:
        if self._failures == 0:
            _log.warning("dead letters cannot be written, and are tried again: %s", error)
        pause_ms = min(_PAUSE_MS << min(self._failures, 10), _PAUSE_MAX_MS)
        self._failures += 1
        if not self._ended:
            for one in some:
                self._delivery.bury_later(one.offset, pause_ms, self._clock.monotonic_ms())
