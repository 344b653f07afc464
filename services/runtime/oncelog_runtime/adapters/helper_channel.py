"""Whole messages over one stream socket: four bytes of length, then the message. Both ends of a helper's channel are made here.

Rule: when the other end is gone, or says what makes no sense, everything that is sent or received raises `HelperGoneError`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final, Self

from oncelog_runtime.ports import HelperGoneError

_LENGTH: Final = struct.Struct("<I")
MESSAGE_BYTES_MAX: Final = 1 << 30


class SocketChannel:
    """Implements `oncelog_runtime.ports.Channel`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Self:
        """Makes a channel of one end of a pair of sockets, which belongs to it from now on."""
        return cls(*await asyncio.open_connection(sock=end))

    async def send(self, message: bytes) -> None:
        """See `Channel.send`."""
        try:
            self._writer.write(_LENGTH.pack(len(message)) + message)
            await self._writer.drain()
        except (OSError, RuntimeError) as error:  # uvloop raises RuntimeError on a closed transport
            raise HelperGoneError("the other end of the channel is gone") from error

    async def receive(self) -> bytes:
        """See `Channel.receive`."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if length > MESSAGE_BYTES_MAX:
                raise HelperGoneError(f"a message of {length} bytes makes no sense")
            return await self._reader.readexactly(length)
        except (OSError, EOFError) as error:
            raise HelperGoneError("the other end of the channel is gone") from error

    def close(self) -> None:
        """Closes this end at once; what was not sent is lost."""
        self._writer.transport.abort()
