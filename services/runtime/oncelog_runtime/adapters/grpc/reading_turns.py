"""Lets the requests of unary calls arrive one after the other on each connection.

One thread reads all sockets of a process. A client that sends sixty large requests on one connection at the same time has a
window of 1 MiB for each of them, and all other connections wait while their bytes are read.

Rule 1: one request of a connection is read at a time; of the others the client has sent no more than their first 16 KiB.
Rule 2: a request that has not arrived after `TURN_S` is still read, and the next one begins: a slow upload, or one that never
        ends, holds the others of its connection up no longer.
Rule 3: calls that wait are served in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

TURN_S: Final = 0.1
"""For so long a request is the only one of its connection that is read."""


class _Line:
    """The calls of one connection that wait for their turn, and whether one has it."""

    __slots__ = ("is_taken", "waiting")

    def __init__(self) -> None:
        self.is_taken = False
        self.waiting: deque[asyncio.Future[None]] = deque()

    def pass_on(self) -> None:
        """Gives the turn to the first that still waits for it."""
        while self.waiting:
            first = self.waiting.popleft()
            if not first.done():
                first.set_result(None)
                return
        self.is_taken = False


class ReadingTurns:
    """The connections with requests that arrive. Belongs to one event loop."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    def __len__(self) -> int:
        return len(self._lines)

    @asynccontextmanager
    async def turn(self, connection: str) -> AsyncIterator[None]:
        """Waits until the next request of this connection may be read; the turn ends with the block, or after `TURN_S`."""
        line = self._lines.get(connection)
        if line is None:
            line = self._lines[connection] = _Line()
        if line.is_taken:
            await self._wait(connection, line)
        line.is_taken, holds = True, True

        def pass_on() -> None:
            nonlocal holds
            holds = False
            self._pass_on(connection, line)

        timer = asyncio.get_running_loop().call_later(TURN_S, pass_on)
        try:
            yield
        finally:
            if holds:
                timer.cancel()
                pass_on()

    async def _wait(self, connection: str, line: _Line) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on(connection, line)  # it came in the same moment
            raise

    def _pass_on(self, connection: str, line: _Line) -> None:
        line.pass_on()
        if not line.is_taken and self._lines.get(connection) is line:
            del self._lines[connection]
