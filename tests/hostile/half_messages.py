"""A client that begins messages and never ends them, in raw HTTP/2: gRPC's own client would not."""

from __future__ import annotations

import asyncio
import struct
from typing import Final

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 4, 6, 8
_ACK, _END_HEADERS = 1, 4
_INITIAL_WINDOW: Final = 4
_FRAME_BYTES: Final = 16_384
_ZEROS: Final = bytes(_FRAME_BYTES)


class HalfMessages:
    """One connection. Windows are kept to, so the server has no other reason to end it than its bounds."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        self._reader, self._writer, self._path = reader, writer, path
        self._initial = self._connection = 65_535
        self._streams: dict[int, int] = {}
        self._moved = asyncio.Event()
        self.is_over = False
        self._task = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def connect(cls, address: str, path: str = "/oncelog.v1.PartitionLeader/Ping") -> HalfMessages:
        """Connects, plaintext."""
        host, _, port = address.rpartition(":")
        made = cls(*await asyncio.open_connection(host, int(port)), path)
        made._writer.write(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
        await made._writer.drain()
        await asyncio.wait_for(made._moved.wait(), 10)  # the server's settings
        return made

    async def send(self, streams: int, size: int, patience_s: float = 5.0, at_least: int = 0) -> int:
        """On each stream a message of `size` bytes but for its last one; returns the bytes that got through.

        Ends when all is sent, the server has ended the connection, or nothing has moved for `patience_s`. Until `at_least`
        bytes got through it waits as long as its caller does: a busy machine may stand still for longer than `patience_s`.
        """
        left = {}
        for number in range(streams):
            stream = 2 * number + 1
            self._streams[stream] = self._initial
            self._writer.write(_frame(_HEADERS, _END_HEADERS, stream, self._headers()))
            self._writer.write(_frame(_DATA, 0, stream, b"\0" + struct.pack(">I", size)))
            self._streams[stream] -= 5
            self._connection -= 5
            left[stream] = size - 1
        sent = 0
        while any(left.values()) and not self.is_over:
            before = sent
            for stream in left:
                if self._writer.is_closing():
                    break
                amount = min(left[stream], self._streams[stream], self._connection, _FRAME_BYTES)
                if amount > 0:
                    self._writer.write(_frame(_DATA, 0, stream, _ZEROS[:amount]))
                    self._streams[stream] -= amount
                    self._connection -= amount
                    left[stream] -= amount
                    sent += amount
            wait_s = patience_s if sent >= at_least else None
            try:
                await asyncio.wait_for(self._writer.drain(), wait_s)
                if sent == before and not self.is_over:
                    self._moved.clear()
                    await asyncio.wait_for(self._moved.wait(), wait_s)
            except (TimeoutError, ConnectionError):
                break
        return sent

    async def ended(self) -> None:
        """Returns when the server has ended the connection."""
        await self._task

    def close(self) -> None:
        """Hangs up."""
        self._task.cancel()
        self._writer.close()

    def _headers(self) -> bytes:
        fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", self._path),
            (":authority", "x"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ]
        return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)

    async def _read(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(9)
                kind, flags = head[3], head[4]
                stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
                body = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                self._on_frame(kind, flags, stream, body)
                self._moved.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.is_over = True
            self._moved.set()

    def _on_frame(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            for position in range(0, len(body), 6):
                name, value = struct.unpack_from(">HI", body, position)
                if name == _INITIAL_WINDOW:
                    for open_stream in self._streams:
                        self._streams[open_stream] += value - self._initial
                    self._initial = value
            self._writer.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._writer.write(_frame(_PING, _ACK, 0, body))
        elif kind == _WINDOW_UPDATE:
            more = int.from_bytes(body, "big") & 0x7FFFFFFF
            if stream:
                self._streams[stream] = self._streams.get(stream, self._initial) + more
            else:
                self._connection += more


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


def _text(text: str) -> bytes:
    """HPACK, a literal that is not compressed."""
    assert len(text) < 127, "one byte of length"
    return bytes((len(text),)) + text.encode()
