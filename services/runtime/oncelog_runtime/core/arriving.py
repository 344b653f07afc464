"""Decides which connections hold too many bytes of incomplete messages, or hold them for too long.

gRPC keeps the bytes of a message until it is complete, and shows nothing of them. But the bytes that the kernel has
received on a connection, minus those of complete messages, are the incomplete ones.

Rule 1: a connection ends when it exceeds its limit at two looks, or twice its limit at one, or when bytes stay
        incomplete for `patience` looks.
Rule 2: when all connections together exceed the process's limit, those with the most bytes end first, if they were
        incomplete at the look before, until the rest is within the limit.
Rule 3: time is counted in looks, not by a clock: a pause of this process is never held against a connection.
Rule 4: the reader of messages adds to a meter, which costs two additions; the rest is done at a look. A meter in use
        continues to count when its connection could not be looked at for a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from oncelog.errors import ConfigError

_SLACK_BYTES: Final = 1 << 20
"""Bytes of a connection in the kernel and in flow-control windows. Fewer bytes than this never count as incomplete."""
_OVERHEAD_SHIFT: Final = 6
"""Framing and TLS take less than a 64th of large messages."""
_MESSAGE_OVERHEAD_BYTES: Final = 512
"""Headers and framing of one message, with room to spare."""
_ANSWERS_SHIFT: Final = 8
"""A client acknowledges the answers that it gets, which takes less than a 256th of their bytes."""
_IDLE_BYTES: Final = 1_024
"""Bytes of pings between two looks."""


@dataclass(frozen=True, slots=True)
class ArrivingLimits:
    """Limits for incomplete messages. Raises `ConfigError`."""

    process_bytes: int
    connection_bytes: int
    patience: int = 30
    """The number of looks for which bytes may stay incomplete."""

    def __post_init__(self) -> None:
        if self.patience < 2 or self.connection_bytes <= _SLACK_BYTES or self.process_bytes < self.connection_bytes:
            raise ConfigError("bounds of arriving messages: patience >= 2, slack < connection <= process", limits=self)


class Verdict(NamedTuple):
    """Says that a connection must end, and why."""

    connection: str
    bytes: int
    reason: str


class Meter:
    """Counts a connection's complete messages and the answers sent to it."""

    __slots__ = ("__weakref__", "answered_bytes", "delivered_bytes", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.delivered_bytes = 0
        self.answered_bytes = 0

    @property
    def accounted_bytes(self) -> int:
        """How many bytes the kernel may have received for the counted messages and answers."""
        delivered = self.delivered_bytes + (self.delivered_bytes >> _OVERHEAD_SHIFT)
        return delivered + self.messages * _MESSAGE_OVERHEAD_BYTES + (self.answered_bytes >> _ANSWERS_SHIFT)


class _Connection:
    """The bytes that one connection has received beyond its complete messages, now and at the last looks."""

    __slots__ = ("accounted", "balance", "done", "marks", "meter", "received")

    def __init__(self, patience: int, meter: Meter) -> None:
        self.meter = meter
        self.received = 0
        self.accounted = 0  # by the meter, at the last look
        self.done = 0  # all accounted and idle bytes since the connection began
        self.balance = 0
        self.marks: deque[int] = deque(maxlen=patience)  # at each look: incomplete bytes plus `done`

    def look(self, received: int) -> None:
        self.balance = max(0, self.unfinished_bytes(received) - _IDLE_BYTES)
        before, self.accounted = self.accounted, self.meter.accounted_bytes
        self.done += self.accounted - before + _IDLE_BYTES
        self.received = received
        self.marks.append(self.balance + self.done)

    def unfinished_bytes(self, received: int) -> int:
        """Returns the incomplete bytes when so many were received, since the last look or at it."""
        return max(0, self.balance + received - self.received - (self.meter.accounted_bytes - self.accounted))

    def old_bytes(self, looks: int) -> int:
        """Returns the bytes that were incomplete this many looks ago, and still are."""
        return max(0, self.marks[-1 - looks] - self.done) if len(self.marks) > looks else 0


class Arriving:
    """Tracks the incomplete bytes of every connection of a process."""

    def __init__(self, limits: ArrivingLimits) -> None:
        self._limits = limits
        self._connections: dict[str, _Connection] = {}
        self._meters: WeakValueDictionary[str, Meter] = WeakValueDictionary()

    def meter(self, connection: str) -> Meter:
        """Returns the counter for complete messages and answers of this connection."""
        return self._of(connection).meter

    def _of(self, connection: str) -> _Connection:
        found = self._connections.get(connection)
        if found is None:
            meter = self._meters.get(connection)
            if meter is None:
                meter = self._meters[connection] = Meter()
            found = self._connections[connection] = _Connection(self._limits.patience, meter)
        return found

    @property
    def unfinished_bytes(self) -> int:
        """The incomplete bytes of all connections at the last look."""
        return sum(connection.balance for connection in self._connections.values())

    def unfinished_of(self, connection: str, received: int) -> int:
        """Returns the incomplete bytes of a connection that has received so many so far. It counts as no look."""
        return self._of(connection).unfinished_bytes(received)

    def look(self, received: Mapping[str, int]) -> list[Verdict]:
        """Called periodically with all bytes that each connection has received so far. Returns the connections to end."""
        for name in [name for name in self._connections if name not in received]:
            del self._connections[name]
        for name, total in received.items():
            self._of(name).look(total)
        return self._judge()

    def _judge(self) -> list[Verdict]:
        limits = self._limits
        verdicts: list[Verdict] = []
        for name, connection in self._connections.items():
            far_above = connection.balance > 2 * limits.connection_bytes
            if far_above or connection.old_bytes(1) > limits.connection_bytes:
                verdicts.append(Verdict(name, connection.balance, "too many bytes of unfinished messages"))
            elif connection.old_bytes(limits.patience - 1) > _SLACK_BYTES:
                verdicts.append(Verdict(name, connection.balance, "a message that does not get finished"))
        return verdicts + self._crowd({verdict.connection for verdict in verdicts})

    def _crowd(self, ended: set[str]) -> list[Verdict]:
        """Chooses the largest connections with incomplete bytes since the last look, while the total exceeds its limit."""
        rest = {name: connection for name, connection in self._connections.items() if name not in ended}
        excess = sum(connection.balance for connection in rest.values()) - self._limits.process_bytes
        verdicts: list[Verdict] = []
        for name, connection in sorted(rest.items(), key=lambda item: (-item[1].balance, item[0])):
            if excess <= 0:
                break
            if connection.old_bytes(1) > _SLACK_BYTES:
                reason = "unfinished messages of all connections take too much"
                verdicts.append(Verdict(name, connection.balance, reason))
                excess -= connection.balance
        return verdicts
