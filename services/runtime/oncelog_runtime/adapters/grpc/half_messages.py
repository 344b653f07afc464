"""Ends connections that hold too many bytes of incomplete messages, or hold them for too long; `core.arriving` decides.

Rule 1: only sockets that were accepted at the given ports are watched, by the kernel's counters (TCP_INFO); where the
        system has none, nothing is done.
Rule 2: a failed look is logged and the next one follows: during an attack the process may run out of file descriptors.
Rule 3: a socket is identified by its peer each time, so that a file descriptor that was reused in between is not
        affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
import struct
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

from oncelog.link.malloc import trim_malloc
from oncelog_runtime.core.arriving import Arriving, ArrivingLimits, Meter

log = logging.getLogger(__name__)

LOOK_S: Final = 0.25
_CALM_LOOK_S: Final = 0.5
_CALM_BYTES: Final = 64 << 10
"""While less than this arrives between two looks, and nothing large is incomplete, looks are rarer: an idle process pays for
each of them. Time-outs are counted in looks only while something large is incomplete, so they are as long as ever."""
_CROWD: Final = 1_000
_CROWD_LOOK_S: Final = 1.0
_FEW: Final = 32
"""For up to this many connections a look takes less time than handing it to a thread."""
_DISCOVER_EVERY: Final = 20
_TRIM_AFTER: Final = 8
_BETWEEN_ENDS_S: Final = 0.005
"""Ending the calls of a connection takes some milliseconds of the event loop; then others get a turn."""
_BETWEEN_LISTS_S: Final = 0.2
"""With thousands of connections a list takes 30 ms of a thread, and new connections may ask for one all the time."""
_BYTES_RECEIVED: Final = struct.Struct("=Q")
_BYTES_RECEIVED_AT: Final = 128
_TCP_INFO_BYTES: Final = 136
_DESCRIPTORS: Final = "/proc/self/fd"


def connection_of(peer: str) -> str:
    """Returns the name that the kernel's address of the same connection has: `10.0.0.7:41234` for `ipv4:10.0.0.7:41234`."""
    address, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _name(address.strip("[]"), port)


def _name(host: str, port: object) -> str:
    return f"{host.removeprefix('::ffff:')}:{port}"


class HalfMessages:
    """Watches the connections of some listening ports, from `start` to `stop`."""

    def __init__(self, limits: ArrivingLimits) -> None:
        self.arriving = Arriving(limits)
        self.limit_bytes = limits.process_bytes
        self._ports: frozenset[int] = frozenset()
        self._sockets: dict[str, tuple[int, int]] = {}  # connection -> descriptor, address family
        self._task: asyncio.Task[None] | None = None
        self._arrived_bytes = 0
        self.is_calm = False
        """True when the last look found hardly anything that had arrived, and nothing large that was incomplete."""
        self.something_new = True
        self.ended = 0
        self._wanted = asyncio.Event()

    @property
    def watched(self) -> list[str]:
        """The watched connections, by the kernel's names."""
        return list(self._sockets)

    def meter(self, connection: str) -> Meter:
        """Returns the counter for complete messages and answers of this connection."""
        return self.arriving.meter(connection) if self._task is not None else Meter()  # it would never be removed

    def unfinished_bytes(self, connection: str) -> int | None:
        """Returns the bytes of incomplete messages that a connection holds now. None for one that is not found yet: it is
        looked for at once. 0 while nothing is watched.
        """
        if self._task is None:
            return 0
        received = self._received_by(connection)
        if received is None:
            self._wanted.set()
            return None
        return self.arriving.unfinished_of(connection, received)

    def start(self, ports: Iterable[int]) -> None:
        """Begins to watch these ports."""
        self._ports = frozenset(ports)
        if hasattr(socket, "TCP_INFO") and os.path.isdir(_DESCRIPTORS):
            self._task = asyncio.get_running_loop().create_task(self._run(), name="half-messages")

    async def stop(self) -> None:
        """Stops watching. May be called repeatedly."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        looks, trim_at, fails = 0, -1, False
        while True:
            await self._rest(self._pause_s())
            discover, self.something_new = self.something_new or looks % _DISCOVER_EVERY == 0, False
            looks += 1
            try:
                if discover or len(self._sockets) > _FEW:
                    received = await asyncio.to_thread(self._received, discover)
                else:
                    received = self._received(discover)
            except OSError as error:
                if not fails:
                    log.warning("connections cannot be looked at, and this is tried again: %s", error)
                fails = self.something_new = True
                continue
            fails = False
            verdicts = self.arriving.look(received)
            self._note_calm(sum(received.values()))
            for verdict in verdicts:
                self._end(verdict.connection, verdict.bytes, verdict.reason)
                trim_at = looks + _TRIM_AFTER
                await asyncio.sleep(_BETWEEN_ENDS_S)
            if looks == trim_at:
                await asyncio.to_thread(trim_malloc)  # gRPC has freed their bytes; the C library would keep them

    async def _rest(self, seconds: float) -> None:
        """Waits for the next look. Meanwhile it finds new connections that a caller asks for: in a thread, for listing
        thousands of open files takes milliseconds.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await self._wanted.wait():
                    self._wanted.clear()
                    with contextlib.suppress(OSError):  # no descriptor is left: the next look says so
                        await asyncio.to_thread(self._discover)
                    await asyncio.sleep(_BETWEEN_LISTS_S)

    def _pause_s(self) -> float:
        if len(self._sockets) >= _CROWD:
            return _CROWD_LOOK_S
        return _CALM_LOOK_S if self.is_calm else LOOK_S

    def _note_calm(self, arrived_bytes: int) -> None:
        """Takes the bytes that have arrived on all connections so far."""
        new_bytes, self._arrived_bytes = arrived_bytes - self._arrived_bytes, arrived_bytes
        self.is_calm = abs(new_bytes) < _CALM_BYTES and self.arriving.unfinished_bytes < _CALM_BYTES

    def _received(self, discover: bool) -> dict[str, int]:
        """Returns the bytes received on each known connection."""
        if discover:
            self._discover()
        found = {name: self._received_by(name) for name in self._sockets}
        return {name: received for name, received in found.items() if received is not None}

    def _received_by(self, name: str) -> int | None:
        found = self._sockets.get(name)
        if found is None:
            return None
        with contextlib.suppress(OSError), _borrowed(*found) as sock:
            if _peer_name(sock) == name:
                info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
                if len(info) >= _TCP_INFO_BYTES:
                    return int(_BYTES_RECEIVED.unpack_from(info, _BYTES_RECEIVED_AT)[0])
        return None

    def _discover(self) -> None:
        self._sockets = dict(self._find())

    def _find(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for entry in os.listdir(_DESCRIPTORS):
            fd = int(entry)
            with contextlib.suppress(OSError):
                if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                    continue  # a broker has thousands of files open, and an exception for each would cost twice as much
                with _borrowed(fd) as sock:
                    address = sock.getsockname()
                    if isinstance(address, tuple) and address[1] in self._ports:
                        yield _peer_name(sock), (fd, sock.family)

    def _end(self, name: str, size: int, reason: str) -> None:
        log.warning("ending a connection: %s", reason, extra={"peer": name, "bytes": size})
        found = self._sockets.pop(name, None)
        if found is None:
            return  # it has gone since
        with contextlib.suppress(OSError), _borrowed(*found) as sock:
            if _peer_name(sock) == name:
                sock.shutdown(socket.SHUT_RDWR)
                self.ended += 1


def _peer_name(sock: socket.socket) -> str:
    host, port = sock.getpeername()[:2]
    return _name(host, port)


@contextlib.contextmanager
def _borrowed(fd: int, family: int = -1) -> Iterator[socket.socket]:
    """Yields gRPC's socket, which gRPC keeps; `family` -1 = ask the kernel. Raises `OSError` when it is not a socket."""
    sock = socket.socket(family, socket.SOCK_STREAM if family >= 0 else -1, 0 if family >= 0 else -1, fileno=fd)
    try:
        yield sock
    finally:
        sock.detach()
