"""What the clients of a run did and saw, in Jepsen's terms.

An operation is invoked once and completes once: `OK` (surely done), `FAIL` (surely not done) or `INFO` (unknown). A value
names what was to be written, and must be seen at most once. It is written again, by another operation, only after the
first one is surely not done. A key is a topic partition.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

Key = tuple[str, int]
Value = int
Write = tuple[Key, Value]
Records = list[tuple[int, Value]]
"""What was read of a partition: offsets and values."""
NEVER = 1 << 62
"""Later than any end."""


class Status(enum.Enum):
    """How an operation ended; `INFO` also for one that never ended."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(slots=True)
class Operation:
    """One send, transaction, batch, poll, or delivery of a record to a worker. Times are virtual milliseconds.

    `began` and `ended` number the beginnings and ends of all operations: what happened within a millisecond has an order.
    """

    index: int
    process: str
    kind: str
    invoked_ms: int
    completed_ms: int = -1
    began: int = 0
    ended: int = NEVER
    status: Status = Status.INFO
    writes: list[tuple[Key, Value]] = field(default_factory=list)
    write_offsets: dict[tuple[Key, Value], int] = field(default_factory=dict)
    reads: dict[Key, list[tuple[int, Value]]] = field(default_factory=dict)
    read_ends: dict[Key, int] = field(default_factory=dict)
    """Of a snapshot: where each partition ended when it began, as its reader was told."""
    session: tuple[str, int, int] | None = None
    """Of a transaction and of an `init`: the transactional id, producer id and producer epoch. Newer ones of one producer id
    are greater; an id that was removed comes back with another producer id, greater or not."""
    asked: int = NEVER
    """Of a transaction: the moment in which its commit was asked for."""
    is_visible: bool = False
    """Of a transaction: the answer to its commit said that every partition has its marker."""
    held: tuple[int, int, int] | None = None
    """Of a delivery by a channel: the epoch of the leader that gave the record, when the worker looked whether it is still its
    own, and until when it is. Milliseconds of the clock that `moment` reads."""
    due_ms: int = -1
    """Of delayed records: when they are due, in milliseconds since 1970."""
    about: Value = -1
    """Of what is said of one record (an acknowledgement, a rejection, a NACK, the cancelling of a delayed one): its value."""
    cause: str = ""

    def is_ok_since(self, ms: int) -> bool:
        """It began at or after this time, and succeeded."""
        return self.status is Status.OK and self.invoked_ms >= ms

    def __str__(self) -> str:
        return f"#{self.index} {self.process} {self.kind} {self.status.value} {self.cause}".rstrip()


class History:
    """Collects operations in order of invocation."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._next_value = 0
        self._moments = 0

    def new_value(self) -> Value:
        """A value that nobody wrote before."""
        self._next_value += 1
        return self._next_value

    def invoke(self, process: str, kind: str, now_ms: int) -> Operation:
        """Begins an operation; until `complete` it counts as INFO."""
        operation = Operation(len(self.operations), process, kind, now_ms, began=self.moment())
        self.operations.append(operation)
        return operation

    def will_write(self, operation: Operation) -> None:
        """Called when it is known what an operation writes, before any of it is sent. A history that outlives its process
        makes a note of it.
        """

    def complete(self, operation: Operation, status: Status, now_ms: int, cause: str = "") -> None:
        """Ends an operation."""
        assert operation.completed_ms < 0, f"{operation} completed twice"
        operation.status, operation.completed_ms, operation.cause = status, now_ms, cause
        operation.ended = self.moment()

    def moment(self) -> int:
        """Later than all before."""
        self._moments += 1
        return self._moments
