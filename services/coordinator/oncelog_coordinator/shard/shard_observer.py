"""The observer port of a shard runtime: it learns what happens to each command, and decides nothing.

A command is queued, then decided (or refused, or a bug is met); its round is about to be appended, and in the end it is
committed or has failed. Metrics and traces are two implementations (`coordinator_metrics.py`, `shard_traces.py`), and this
class, which does nothing, is the third.
Rule: an observer never raises and never blocks, and it is called by the task that owns the core, except for `queued`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.errors import InternalServerError, OncelogError
from oncelog.trace.tracing import Span
from oncelog_coordinator.core.decision import Command, TransactionEnded

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Observed:
    """The memory of observers about one command."""

    since_s: float = 0.0
    """When the command arrived, by the clock of the metrics; 0 = no caller brought it, or there are no metrics."""
    since_ns: int = 0
    """When the command arrived, by the clock of the traces."""
    context: str = ""
    """Trace context of what the command causes; empty when nothing is recorded."""
    span: Span | None = None
    """The wait for the log, if it is recorded."""
    ended: tuple[TransactionEnded, ...] = ()
    """The transactions that the command has decided."""


class ShardObserver:
    """Observes nothing. Implementations override what they are interested in."""

    def queued(self, seen: Observed) -> None:
        """A caller's command was put into the inbox, in the task of the caller."""

    def refused(self, error: OncelogError) -> None:
        """The core has refused a command."""

    def bug(self, error: Exception, shard: str, command: str) -> OncelogError:
        """An unexpected exception was met while a command was decided or applied. Returns the error for its caller."""
        _log.error("a bug: %s was not decided", command, exc_info=error)
        return InternalServerError(reason=type(error).__name__, where="decision")

    def decided(self, seen: Observed, shard: str, command: Command[object]) -> None:
        """The core has decided about a command whose answer now waits for an append."""

    def appending(self, observed: Sequence[Observed], commands: int, records: int) -> None:
        """The next append, made by this task, holds the records of these commands. `commands`: how many were decided."""

    def causes(self, seen: Observed) -> None:
        """The effect that starts next, in this task, is caused by this command."""

    def committed(self, observed: Sequence[Observed]) -> None:
        """All that these commands have decided is committed, and their callers are answered."""

    def failed(self, observed: Sequence[Observed], error: OncelogError) -> None:
        """The life of the shard has ended before these commands were committed."""

    def life_failed(self, kind: str) -> None:
        """A life of a shard of this kind has failed."""


class ShardObservers(ShardObserver):
    """Several observers, called in their order. The first one reports bugs."""

    def __init__(self, first: ShardObserver, *others: ShardObserver) -> None:
        self._first = first
        self._all = (first, *others)

    def queued(self, seen: Observed) -> None:
        """See `ShardObserver`."""
        for observer in self._all:
            observer.queued(seen)

    def refused(self, error: OncelogError) -> None:
        """See `ShardObserver`."""
        for observer in self._all:
            observer.refused(error)

    def bug(self, error: Exception, shard: str, command: str) -> OncelogError:
        """See `ShardObserver`."""
        return self._first.bug(error, shard, command)

    def decided(self, seen: Observed, shard: str, command: Command[object]) -> None:
        """See `ShardObserver`."""
        for observer in self._all:
            observer.decided(seen, shard, command)

    def appending(self, observed: Sequence[Observed], commands: int, records: int) -> None:
        """See `ShardObserver`."""
        for observer in self._all:
            observer.appending(observed, commands, records)

    def causes(self, seen: Observed) -> None:
        """See `ShardObserver`."""
        for observer in self._all:
            observer.causes(seen)

    def committed(self, observed: Sequence[Observed]) -> None:
        """See `ShardObserver`."""
        for observer in self._all:
            observer.committed(observed)

    def failed(self, observed: Sequence[Observed], error: OncelogError) -> None:
        """See `ShardObserver`."""
        for observer in self._all:
            observer.failed(observed, error)

    def life_failed(self, kind: str) -> None:
        """See `ShardObserver`."""
        for observer in self._all:
            observer.life_failed(kind)
