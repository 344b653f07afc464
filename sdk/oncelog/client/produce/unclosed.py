"""Says aloud when a producer is forgotten: what it has not sent, and what it has not committed, is lost with it.

Rule 1: the garbage collection of an open producer, or the end of the interpreter before its `close`, gives a `ResourceWarning`
        and, when records are lost by that, one line in the log with their number.
Rule 2: nothing is sent from here for a producer of asyncio: its event loop has ended, or belongs to other work. The façade
        without `await` has a loop that still runs when the interpreter ends: `rescue` sends what it can in `EXIT_FLUSH_MS`.
Rule 3: only the process that made a producer speaks of it: a forked child has copies that were never its own.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import warnings
import weakref
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from oncelog.core.produce.accumulator import Batch

log = logging.getLogger(__name__)

EXIT_FLUSH_MS: Final = 5_000
"""How long the end of the interpreter waits for all that blocking producers have not sent yet."""

_ASYNC_ADVICE: Final = "use `async with client.producer(...)`, or `await producer.close()` before the event loop ends"
_SYNC_ADVICE: Final = "use `with client.producer(...)`, or call producer.close()"


class Unfinished(NamedTuple):
    """Records of a producer whose fate is open."""

    unsent: int
    """Never given to a broker."""
    unanswered: int
    """Sent, and not acknowledged."""
    uncommitted: int
    """Acknowledged within a transaction that is open."""

    def __str__(self) -> str:
        parts = []
        if self.unsent:
            parts.append(f"{self.unsent} records were never sent and are lost")
        if self.unanswered:
            parts.append(f"{self.unanswered} records were sent and not acknowledged")
        if self.uncommitted:
            parts.append(f"{self.uncommitted} records were written in a transaction that will be aborted")
        return ", ".join(parts)


class Closable(Protocol):
    """A producer, as far as it is watched here."""

    watched_in: int
    """Id of the process in which something is said; 0: in none."""

    @property
    def is_closed(self) -> bool:
        """True from `close` on."""
        ...

    @property
    def is_started(self) -> bool:
        """True once it has a producer id."""
        ...

    def open_batches(self) -> list[Batch]:
        """Batches that are queued or under way."""
        ...

    def unfinished(self) -> Unfinished:
        """How many records would be lost if it vanished now."""
        ...

    async def close(self, timeout_ms: int | None = None) -> None:
        """Waits for what is under way, then takes nothing more."""
        ...


_watched: weakref.WeakSet[Closable] = weakref.WeakSet()


def watch(producer: Closable) -> None:
    """From now on a word is said if the producer is never closed."""
    producer.watched_in = os.getpid()
    _watched.add(producer)


def forgotten(producer: Closable, what: str = "was garbage-collected") -> None:
    """The producer is about to vanish: tells what vanishes with it. Says nothing twice, and nothing of a closed one."""
    is_ours, producer.watched_in = producer.watched_in == os.getpid(), 0
    if not is_ours or producer.is_closed:
        return
    left = producer.unfinished()
    if producer.is_started or any(left):
        _tell(producer, what, left, _ASYNC_ADVICE)


def _tell(producer: Closable, what: str, left: Unfinished, advice: str) -> None:
    losses = f": {left}" if any(left) else ""
    if losses:
        log.warning("unclosed %s %s%s; %s", producer, what, losses, advice)
    warnings.warn(f"Unclosed {producer} {what}{losses}; {advice}", ResourceWarning, stacklevel=2, source=producer)


@atexit.register
def _at_exit() -> None:
    for producer in list(_watched):
        forgotten(producer, "was never closed")


async def rescue(producers: Iterable[Closable], timeout_ms: int = EXIT_FLUSH_MS) -> None:
    """Closes what the end of the interpreter found open, all at once, within the time; then tells of each one."""
    found = [producer for producer in producers if not producer.is_closed and producer.watched_in == os.getpid()]
    await asyncio.gather(*(_rescue(producer, timeout_ms) for producer in found), return_exceptions=True)


async def _rescue(producer: Closable, timeout_ms: int) -> None:
    before = producer.unfinished()
    if not producer.is_started and not any(before):
        return
    batches = producer.open_batches()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await producer.close(timeout_ms)
    except Exception as error:  # what was not acknowledged is counted below
        log.debug("closing %s: %s", producer, error)
    lost = [batch for batch in batches if not batch.done or batch.error is not None]
    unsent = sum(batch.record_count for batch in lost if batch.attempt.tries == 0)
    unanswered = sum(batch.record_count for batch in lost if batch.attempt.tries > 0)
    left = Unfinished(unsent, unanswered, before.uncommitted)
    producer.watched_in = 0
    _tell(producer, "was closed by the end of the interpreter", left, _SYNC_ADVICE)
