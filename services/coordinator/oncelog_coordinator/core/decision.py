"""The result of a core's decision. The shell makes `records` durable, then answers, then runs `effects`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

Reply = TypeVar("Reply", covariant=True)


class LogRecord(Protocol):
    """One record of a shard's log. The newest record of a key holds the whole state under that key."""

    @property
    def key(self) -> str:
        """The compaction key."""
        ...

    def encode(self) -> bytes | None:
        """Returns the value; None is a tombstone."""
        ...


class Command(Generic[Reply]):
    """A request to a core; `Reply` is the type of its answer.

    `is_vital`: others must not take its place in a full queue, since something ends without it: a member's place in its group,
    an open transaction, or the wait of readers for a marker.
    """

    __slots__ = ()
    is_vital: ClassVar[bool] = False


class Note:
    """A volatile fact: it is applied like a record, but not logged."""

    __slots__ = ()


class Effect:
    """An action that the shell takes after a decision, outside of the core."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """Reported to the metrics once the decision is committed. `outcome` is committed, aborted or timed_out.

    `duration_ms` counts from the transaction's start; -1 = it was decided without having begun.
    """

    outcome: str
    duration_ms: int = -1


@dataclass(frozen=True, slots=True)
class Decision:
    """`records` are durable facts, `notes` are volatile ones: both are applied at once, only records are logged.
    A core that has lost its notes (fail-over) is still right, only less precise.

    `reply` waits until the records, and everything applied before them, are committed; an `OncelogError` as reply is
    raised to the caller.  `notices` hold whether or not the records get committed, and are sent at once.

    `lazy`: losing the records costs work, not correctness (markers are sent again), so they wait for the next append.

    `confirm`: a deposed owner could give this answer wrongly, so an append proves the ownership first.
    """

    reply: object = None
    records: tuple[LogRecord, ...] = ()
    notes: tuple[Note, ...] = ()
    effects: tuple[Effect, ...] = ()
    notices: tuple[Effect, ...] = ()
    confirm: bool = False
    lazy: bool = False
    ended: tuple[TransactionEnded, ...] = ()
