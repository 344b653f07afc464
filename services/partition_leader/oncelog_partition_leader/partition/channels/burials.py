"""Has the dead letters of one delivery written, a few at a time.

Rule 1: a letter that cannot be written is tried again after a pause that grows up to half a minute; its record stays BURYING,
        and no other record waits for it.
Rule 2: a handler may wait for letters (`written`). A failure that lasts, such as a topic that does not exist, ends its
        wait at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Final, Protocol

from oncelog.errors import (
    CorruptMessageError,
    InvalidRecordError,
    MessageTooLargeError,
    OncelogError,
    RecordListTooLargeError,
    RequestTimedOutError,
)
from oncelog.ports import WallClock
from oncelog.trace.tracing import work_for
from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.settlement import Dead

Spawn = Callable[[Coroutine[object, None, None], str], None]
_AT_ONCE: Final = 100
_PAUSE_MS: Final = 500
_PAUSE_MAX_MS: Final = 30_000
_TROUBLE_MAX: Final = 500
"""The characters of a failure that operators see."""
_OF_ONE_RECORD: Final = (CorruptMessageError, InvalidRecordError, MessageTooLargeError, RecordListTooLargeError)
"""The errors that say something about the records, or about all of them together."""
_log = logging.getLogger(__name__)


class Bury(Protocol):
    """Writes letters, and returns when they are committed. Raises `OncelogError`."""

    async def __call__(self, dead: Sequence[Dead]) -> None: ...


class _Waiting:
    """A handler that waits for letters; `offsets` are those of which it is not known yet that they need none any more."""

    __slots__ = ("done", "offsets")

    def __init__(self, offsets: Iterable[int]) -> None:
        self.offsets = list(offsets)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(self, error: OncelogError) -> None:
        """Has the handler answer with this error."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # a caller that has gone does not look


class Burials:
    """The burials of one delivery. `look` after each change; `written` waits; `end` once."""

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
        self._waiting: dict[_Waiting, None] = {}

    def look(self) -> None:
        """Begins to write letters when there are any, and wakes who waits for letters that are written."""
        if self._ended:
            return
        self._due += self._delivery.to_bury()
        for waiting in [*self._waiting]:
            self._look_at(waiting)
        if self._due and not self._running:
            self._running = True
            self._spawn(self._run(), "dead-letters")

    async def written(self, offsets: Iterable[int], timeout_ms: float) -> None:
        """Returns when none of these records waits for its letter any more: what it settles with that is `written_with`.

        Raises `RequestTimedOutError`, after which the letters are still tried, and the failure of one that is not retriable: it
        is tried again all the same. Raises why this leadership ended, too.
        """
        waiting = _Waiting(offsets)
        self._waiting[waiting] = None
        self._look_at(waiting)
        try:
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                await waiting.done
        except TimeoutError:
            raise RequestTimedOutError("the dead letter is not written yet; it is tried again") from None
        finally:
            self._waiting.pop(waiting, None)

    def _look_at(self, waiting: _Waiting) -> None:
        """Looks at one record at a time: the others are looked at when that one has its letter."""
        while waiting.offsets and not self._delivery.is_burying(waiting.offsets[-1]):
            waiting.offsets.pop()
        if not waiting.offsets and not waiting.done.done():
            waiting.done.set_result(None)

    def end(self, error: OncelogError) -> None:
        """Stops, and fails all that wait: whether their letters are written is not known."""
        self._ended = True
        for waiting in self._waiting:
            waiting.fail(error)

    async def _run(self) -> None:
        try:
            while self._due and not self._ended:
                some, self._due = self._due[:_AT_ONCE], self._due[_AT_ONCE:]
                await self._write(some)
                work_for(())  # the next ones were rejected by other calls
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
        if self._ended:
            return
        trouble = f"{type(error).__name__}: {error}"[:_TROUBLE_MAX]
        for one in some:
            self._delivery.bury_later(one.offset, pause_ms, self._clock.monotonic_ms(), trouble)
        if not error.retriable:
            failed = {one.offset for one in some}
            for waiting in self._waiting:
                if not failed.isdisjoint(waiting.offsets):
                    waiting.fail(error)
