"""Who knows what: the coordinator of its members, each client of itself, and the network of what was sent before.

Partitions are numbers from 0; `Epochs` holds for each the epoch in which a member got it, 0 = it has not.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

Epochs = tuple[int, ...]
Parts = frozenset[int]
NONE: Parts = frozenset()


class Phase(Enum):
    """How far a client is."""

    OUTSIDE = "outside"
    JOINING = "joining"
    INSIDE = "inside"
    GONE = "gone"


class Member(NamedTuple):
    """A membership as the coordinator's log has it; see `MemberRecord`."""

    is_there: bool = False
    has_ended: bool = False
    epoch: int = 0
    previous: int = 0
    number: int = 0
    assigned: Epochs = ()
    revoking: Epochs = ()
    target: Parts = NONE

    def owned(self) -> Parts:
        """Partitions that no other member may have."""
        return parts(self.assigned) | parts(self.revoking)


class Answer(NamedTuple):
    """The answer to a heartbeat; `assigned` None: the client has received the newest assignment."""

    epoch: int
    number: int
    assigned: Parts | None


class Client(NamedTuple):
    """A member as it knows itself. `reading` changes when it carries out what it was told (`applied`)."""

    phase: Phase = Phase.OUTSIDE
    epoch: int = 0
    received: int = 0
    applied: int = 0
    wanted: Parts = NONE
    reading: Parts = NONE
    answer: Answer | None = None
    """Answered by the coordinator, and not here yet."""


class Request(NamedTuple):
    """A heartbeat; epoch 0 joins."""

    member: int
    epoch: int
    received: int
    applied: int


class Budget(NamedTuple):
    """How often each thing may still happen."""

    assignments: int = 0
    copies: int = 0
    losses: int = 0
    ends: int = 0
    leaves: int = 0


class Given(NamedTuple):
    """The newest epoch in which a partition was given, and to whom."""

    epoch: int = 0
    member: int = -1


class State(NamedTuple):
    """Everything. `fault` names a promise that a step has broken, which the states before and after do not show."""

    assignment_epoch: int
    is_due: bool
    """Members or topics have changed, and the assignment is computed next."""
    members: tuple[Member, ...]
    clients: tuple[Client, ...]
    given: tuple[Given, ...]
    late: frozenset[Request]
    budget: Budget
    fault: str = ""

    def __str__(self) -> str:
        lines = [f"assignment {self.assignment_epoch}{', another one is due' if self.is_due else ''}"]
        for number, (member, client) in enumerate(zip(self.members, self.clients, strict=True)):
            lines += [f"{number}: {client}", f"   {member}"]
        return "\n".join([*lines, f"late {sorted(self.late)}", self.fault])


def parts(epochs: Epochs) -> Parts:
    """The partitions that were given."""
    return frozenset(number for number, epoch in enumerate(epochs) if epoch)


def only(epochs: Epochs, kept: Parts) -> Epochs:
    """The same without all others."""
    return tuple(epoch if number in kept else 0 for number, epoch in enumerate(epochs))
