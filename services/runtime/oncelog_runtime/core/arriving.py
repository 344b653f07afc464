"""Messages that are still arriving: which connections hold too much of what is unfinished, or hold it for too long.

gRPC keeps the bytes of a message until it is whole, and shows nothing of them. But what the kernel has received on a
connection, less what became whole messages, is what is unfinished.

Rule 1: a connection ends when it holds more than its bound at two looks, or twice its bound at one, or when bytes are
        unfinished for `patience` looks.
Rule 2: when all connections together hold more than the process's bound, those that hold the most end first, if they were
        unfinished before, until the rest is within the bound.
Rule 3: time is counted in looks, not on a clock: a process that stood still accuses nobody.
Rule 4: whoever reads messages adds to a meter, which costs it two additions; the rest is done at a look. A meter that is in
        use goes on counting when its connection could not be looked at for a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from oncelog.errors import ConfigError

_SLACK_BYTES: Final = 1 << 20
"""Of a connection: what lies in the kernel and in windows. Less than this is never held against anybody."""
_OVERHEAD_SHIFT: Final = 6
"""Framing and TLS take less than a 64th of large messages."""
_MESSAGE_OVERHEAD_BYTES: Final = 512
"""Headers and framing of one message, with room to spare."""
_ANSWERS_SHIFT: Final = 8
"""Who is sent answers says how far it got: less than a 256th of them."""
_IDLE_BYTES: Final = 1_024
"""Pings between two looks."""


@dataclass(frozen=True, slots=True)
class ArrivingLimits:
    """Bounds of unfinished messages. Raises `ConfigError`."""

    process_bytes: int
    connection_bytes: int
    patience: int = 30
    """Looks for which bytes may be unfinished."""

    def __post_init__(self) -> None:
        if self.patience < 2 or self.connection_bytes <= _SLACK_BYTES or self.process_bytes < self.connection_bytes:
            raise ConfigError("bounds of arriving messages: patience >= 2, slack < connection <= process", limits=self)


class Verdict(NamedTuple):
    """A connection to end."""

    connection: str
    bytes: int
    reason: str


class Meter:
    """What became of a connection's bytes: whole messages that were handed over, and answers that were sent."""

    __slots__ = ("__weakref__", "answered_bytes", "delivered_bytes", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.delivered_bytes = 0
        self.answered_bytes = 0

    @property
    def accounted_bytes(self) -> int:
        """How many bytes the kernel may have received for all this."""
        delivered = self.delivered_bytes + (self.delivered_bytes >> _OVERHEAD_SHIFT)
        return delivered + self.messages * _MESSAGE_OVERHEAD_BYTES + (self.answered_bytes >> _ANSWERS_SHIFT)


class _Connection:
    """What one connection has received beyond its whole messages, now and at the last looks."""

    __slots__ = ("accounted", "balance", "done", "marks", "meter", "received")

    def __init__(self, patience: int, meter: Meter) -> None:
        self.meter = meter
        self.received = 0
        self.accounted = 0  # of the meter, at the last look
        self.done = 0  # the same and what idle connections send, since the connection began
        self.balance = 0
        self.marks: deque[int] = deque(maxlen=patience)  # of each look: unfinished plus all that was done until then

    def look(self, received: int) -> None:
        before, self.accounted = self.accounted, self.meter.accounted_bytes
        accounted = self.accounted - before + _IDLE_BYTES
        self.balance = max(0, self.balance + received - self.received - accounted)
        self.done += accounted
        self.received = received
        self.marks.append(self.balance + self.done)

    def old_bytes(self, looks: int) -> int:
        """What was unfinished so many looks ago, and still is."""
        return max(0, self.marks[-1 - looks] - self.done) if len(self.marks) > looks else 0


class Arriving:
    """What every connection of a process holds."""

    def __init__(self, limits: ArrivingLimits) -> None:
        self._limits = limits
        self._connections: dict[str, _Connection] = {}
        self._meters: WeakValueDictionary[str, Meter] = WeakValueDictionary()

    def meter(self, connection: str) -> Meter:
        """Where to count what this connection delivers and is answered."""
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
        """What all connections hold, as of the last look."""
        return sum(connection.balance for connection in self._connections.values())

    def look(self, received: Mapping[str, int]) -> list[Verdict]:
        """Once in a while: connection -> all bytes that it ever received. Returns the connections to end."""
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
        """The greatest of those that hold unfinished bytes for a while, while all hold too much."""
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
