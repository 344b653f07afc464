"""The commands of a leadership that are not in the log yet: those to decide in the next step, and those that are held back.

Rule 1: it is bounded, by commands and by bytes. What waits for an enrolment, or for followers, counts too.
Rule 2: batches cannot take the places of markers and fences, without which no transaction ends: they have some of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncelog.errors import OncelogError, ResourceExhaustedError
from oncelog_partition_leader.core.appends.commands import AppendBatch, Command
from oncelog_partition_leader.core.appends.effects import Fail
from oncelog_partition_leader.core.appends.enrolments import Enrolments
from oncelog_partition_leader.core.producers.transactions import TxnSession

_BUSY_RETRY_MS = 50
KEPT_FOR_MARKERS = 1_000
"""Commands that may wait beyond the bound if they are not batches of producers."""


class Bounds(NamedTuple):
    """The most that may wait on one partition."""

    batches: int
    bytes: int


class CommandQueue:
    """One leadership's queue."""

    __slots__ = ("_bytes", "_inbox", "bounds", "enrolments", "is_scheduled")

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.enrolments = Enrolments()
        self.is_scheduled = False
        """True while a step is going to take the commands."""
        self._inbox: list[Command] = []
        self._bytes = 0

    def __len__(self) -> int:
        """Number of commands that are not in the log yet."""
        return len(self._inbox) + len(self.enrolments)

    def add(self, command: Command, size: int, appended: int) -> None:
        """Adds a command of `size` bytes; `appended` commands wait for followers.

        Raises `ResourceExhaustedError` when too much waits.
        """
        batches, held = len(self._inbox) + appended, self.enrolments
        if held.bytes:
            batches += len(held)
        most = self.bounds.batches + (0 if isinstance(command, AppendBatch) else KEPT_FOR_MARKERS)
        if batches >= most or self._bytes + held.bytes + size > self.bounds.bytes:
            raise ResourceExhaustedError("too much waits on this partition", retry_after_ms=_BUSY_RETRY_MS)
        self._inbox.append(command)
        self._bytes += size

    def take(self) -> list[Command]:
        """Removes and returns the commands to decide now, in the order of arrival."""
        self.is_scheduled = False
        taken, self._inbox, self._bytes = self._inbox, [], 0
        return taken

    def enrolled(self, session: TxnSession, error: OncelogError | None) -> Sequence[Fail]:
        """Takes a coordinator's answer. Batches that waited for it are decided next, before all others, or refused."""
        again, refused = self.enrolments.answered(session, error)
        self._put_first(again)
        return refused

    def _put_first(self, commands: Sequence[AppendBatch]) -> None:
        self._inbox[:0] = commands
        self._bytes += sum(len(command.data) for command in commands)

    def drain(self) -> list[Command]:
        """Removes and returns all commands."""
        return [*self.take(), *self.enrolments.drain()]
