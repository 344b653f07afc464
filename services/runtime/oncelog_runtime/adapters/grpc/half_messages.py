"""Ends connections that hold too much of unfinished messages, or hold it for too long; what is too much: `core.arriving`.

Rule 1: only sockets that were accepted at the given ports are looked at, by what the kernel counts (TCP_INFO); where the system
        does not tell it, nothing is done.
Rule 2: a look that fails is told and followed by the next one: the files of a process run out just when it is attacked.
Rule 3: a socket is recognised by its peer each time, so that a descriptor which was given away meanwhile harms nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

from oncelog.link.malloc import trim_malloc
from oncelog_runtime.core.arriving import Arriving, ArrivingLimits, Meter

log = logging.getLogger(__name__)

LOOK_S: Final = 0.25
_CROWD: Final = 1_000
_CROWD_LOOK_S: Final = 1.0
_FEW: Final = 32
"""So many connections are looked at within less time than it takes to hand the work to a thread."""
_DISCOVER_EVERY: Final = 20
_TRIM_AFTER: Final = 8
_BETWEEN_ENDS_S: Final = 0.005
"""The calls of a connection end one after the other, some milliseconds of the event loop; then others have a turn."""
_BYTES_RECEIVED: Final = struct.Struct("=Q")
_BYTES_RECEIVED_AT: Final = 128
_TCP_INFO_BYTES: Final = 136
_DESCRIPTORS: Final = "/proc/self/fd"


def connection_of(peer: str) -> str:
    """The same name for a connection that the kernel's address has: `10.0.0.7:41234` of `ipv4:10.0.0.7:41234`."""
    address, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _name(address.strip("[]"), port)


def _name(host: str, port: object) -> str:
    return f"{host.removeprefix('::ffff:')}:{port}"


class HalfMessages:
    """Looks at the connections of some listening ports, from `start` to `stop`."""

    def __init__(self, limits: ArrivingLimits) -> None:
        self.arriving = Arriving(limits)
        self.limit_bytes = limits.process_bytes
        self._ports: frozenset[int] = frozenset()
        self._sockets: dict[str, tuple[int, int]] = {}  # connection -> descriptor, address family
        self._task: asyncio.Task[None] | None = None
        self.something_new = True
        self.ended = 0

    @property
    def watched(self) -> list[str]:
        """The connections that are looked at, as the kernel names them."""
        return list(self._sockets)

    def meter(self, connection: str) -> Meter:
        """Where to count what comes whole on this connection, and the answers."""
        return self.arriving.meter(connection) if self._task is not None else Meter()  # nobody would ever forget it

    def start(self, ports: Iterable[int]) -> None:
        """Begins to look."""
        self._ports = frozenset(ports)
        if hasattr(socket, "TCP_INFO") and os.path.isdir(_DESCRIPTORS):
            self._task = asyncio.get_running_loop().create_task(self._run(), name="half-messages")

    async def stop(self) -> None:
        """Looks no longer. Any number of times."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        looks, trim_at, fails = 0, -1, False
        while True:
            await asyncio.sleep(LOOK_S if len(self._sockets) < _CROWD else _CROWD_LOOK_S)
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
            for verdict in self.arriving.look(received):
                self._end(verdict.connection, verdict.bytes, verdict.reason)
                trim_at = looks + _TRIM_AFTER
                await asyncio.sleep(_BETWEEN_ENDS_S)
            if looks == trim_at:
                await asyncio.to_thread(trim_malloc)  # gRPC has freed their bytes; the C library would keep them

    def _received(self, discover: bool) -> dict[str, int]:
        """Connection -> bytes received, of all connections that are known."""
        if discover:
            self._sockets = dict(self._find())
        found: dict[str, int] = {}
        for name, (fd, family) in self._sockets.items():
            with contextlib.suppress(OSError), _borrowed(fd, family) as sock:
                if _peer_name(sock) == name:
                    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
                    if len(info) >= _TCP_INFO_BYTES:
                        found[name] = _BYTES_RECEIVED.unpack_from(info, _BYTES_RECEIVED_AT)[0]
        return found

    def _find(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for entry in os.listdir(_DESCRIPTORS):
            fd = int(entry)
            with contextlib.suppress(OSError), _borrowed(fd) as sock:
                address = sock.getsockname()
                if isinstance(address, tuple) and address[1] in self._ports:
                    yield _peer_name(sock), (fd, sock.family)

    def _end(self, name: str, size: int, reason: str) -> None:
        log.warning("ending a connection: %s", reason, extra={"peer": name, "bytes": size})
        fd, family = self._sockets.pop(name, (-1, -1))
        with contextlib.suppress(OSError), _borrowed(fd, family) as sock:
            if _peer_name(sock) == name:
                sock.shutdown(socket.SHUT_RDWR)
                self.ended += 1


def _peer_name(sock: socket.socket) -> str:
    host, port = sock.getpeername()[:2]
    return _name(host, port)


@contextlib.contextmanager
def _borrowed(fd: int, family: int = -1) -> Iterator[socket.socket]:
    """gRPC's socket, which stays gRPC's; `family` -1 = ask the kernel. Raises `OSError` when it is none."""
    sock = socket.socket(family, socket.SOCK_STREAM if family >= 0 else -1, 0 if family >= 0 else -1, fileno=fd)
    try:
        yield sock
    finally:
        sock.detach()
