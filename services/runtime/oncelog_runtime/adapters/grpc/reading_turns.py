"""Lets the requests of unary calls arrive one after the other on each connection.

One thread reads all sockets of a process. A client that sends sixty large requests on one connection at the same time has a
window of 1 MiB for each of them, and all other connections wait while their bytes are read.

Rule 1: a request begins to be read when the one before it on its connection has arrived, or after its turn, whose length
        `core.reading_turn` decides. A slow upload, one that never ends, or a long way to the client holds the others up for
        that time; the more such requests a connection has, the slower further ones begin.
Rule 2: calls that wait begin in the order in which they came. At the listeners for clients, a client has sent no more than the
        first 16 KiB of their requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from weakref import WeakValueDictionary

from oncelog_runtime.core.reading_turn import ReadingTurn


class ReadingTurns:
    """The connections with requests that arrive. Belongs to one event loop.

    `unfinished_bytes` returns the incomplete bytes of a connection: 0 where they are not counted, None while it is not found.
    """

    def __init__(self, unfinished_bytes: Callable[[str], int | None] = lambda _connection: 0) -> None:
        self._lines: WeakValueDictionary[str, _Line] = WeakValueDictionary()
        self._unfinished_bytes = unfinished_bytes

    def __len__(self) -> int:
        return len(self._lines)

    @asynccontextmanager
    async def turn(self, connection: str) -> AsyncIterator[None]:
        """Waits until the next request of this connection may be read; it is being read until the block ends."""
        line = self._lines.get(connection)
        if line is None:
            line = self._lines[connection] = _Line()
        await line.free.acquire()
        line.reading += 1
        before = (self._unfinished_bytes(connection) or 0) if line.reading > 1 else 0
        length = ReadingTurn(asyncio.get_running_loop().time(), line.reading, before)
        turn = _Turn(line.free, length, partial(self._unfinished_bytes, connection))
        try:
            yield
        finally:
            line.reading -= 1
            turn.end()


class _Line:
    """One connection: who holds `free` has the turn, and `reading` requests are being read."""

    def __init__(self) -> None:
        self.free = asyncio.Lock()
        self.reading = 0


class _Turn:
    """One that has begun, and ends by itself."""

    def __init__(self, free: asyncio.Lock, length: ReadingTurn, unfinished_bytes: Callable[[], int | None]) -> None:
        self._free: asyncio.Lock | None = free
        self._length = length
        self._unfinished_bytes = unfinished_bytes
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(length.lasts_s, self._end_or_go_on)

    def _end_or_go_on(self) -> None:
        goes_on_s = self._length.goes_on_s(self._loop.time(), self._unfinished_bytes())
        if goes_on_s:
            self._timer = self._loop.call_later(goes_on_s, self._end_or_go_on)
        else:
            self.end()

    def end(self) -> None:
        """Lets the next one begin. Any number of times."""
        self._timer.cancel()
        free, self._free = self._free, None
        if free is not None:
            free.release()
