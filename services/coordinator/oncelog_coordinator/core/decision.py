"""What a core answers to a command. The shell makes `records` durable, then answers, then runs `effects`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Reply = TypeVar("Reply", covariant=True)


class LogRecord(Protocol):
    """One record of a shard's log. The newest record of a key holds all there is to know under that key."""

    @property
    def key(self) -> str:
        """Compaction key."""
        ...

    def encode(self) -> bytes | None:
        """The value; None is a tombstone."""
        ...


class Command(Generic[Reply]):
    """What a core is asked; `Reply` is the type of the answer to whoever asked."""

    __slots__ = ()


class Note:
    """A volatile fact: applied like a record, and not logged."""

    __slots__ = ()


class Effect:
    """What the shell does after a decision, outside of the core."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """What metrics are told of a decision, once it is committed. `outcome`: committed, aborted or timed_out.

    `duration_ms` from the transaction's start; -1 = it was decided without having begun.
    """

    outcome: str
    duration_ms: int = -1


@dataclass(frozen=True, slots=True)
class Decision:
    """`records` are durable facts, `notes` are volatile ones: both are applied at once, only records are logged.

    A core that has lost its notes (fail-over) is still right, only less sharp.
    `reply` waits until the records, and everything applied before them, are committed; an `OncelogError` as reply is
    raised to the caller.  `notices` are true whatever becomes of the records, and are told at once.
    `lazy`: losing the records costs work, not truth (markers are sent again): they wait for the next append.
    `confirm`: the answer is a reading that a deposed owner could give wrongly; an append proves the ownership first.
    """

    reply: object = None
    records: tuple[LogRecord, ...] = ()
    notes: tuple[Note, ...] = ()
    effects: tuple[Effect, ...] = ()
    notices: tuple[Effect, ...] = ()
    confirm: bool = False
    lazy: bool = False
    ended: tuple[TransactionEnded, ...] = ()
