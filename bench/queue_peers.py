"""NSQ and Redis Streams as queues, for `bench.queues`: their servers, and as much of their protocols as it takes.

Both are one process without replicas: what they cost is the least that a queue of their kind costs on this machine. Redis
writes an append-only file and syncs it each second, its default; NSQ keeps messages in memory, its default.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import struct
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from oncelog_cli.laptop.local_cluster import free_ports

TOPIC = "jobs"
CHANNEL = "work"


class Worker(Protocol):
    """One worker: hands out messages, and settles them."""

    async def take(self) -> Sequence[Any]:
        """Returns messages, at least one."""
        ...

    async def ack(self, messages: Sequence[Any]) -> None:
        """Settles messages; returns when the server has been told, or has answered where it does."""
        ...

    async def close(self) -> None:
        """Ends it."""
        ...


class Queue(Protocol):
    """A system under test."""

    name: str
    note: str
    """What a reader of its figures has to know, if anything."""

    async def publish(self, values: Sequence[bytes]) -> None:
        """Writes messages; returns when all are acknowledged."""
        ...

    async def worker(self, max_in_flight: int) -> Worker:
        """Begins a worker."""
        ...


@contextlib.asynccontextmanager
async def server(command: Sequence[str], port: int) -> AsyncIterator[None]:
    """A server process, from when it listens until the block ends."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: ASYNC220
        try:
            await _listens(port)
            yield
        finally:
            process.terminate()


async def _listens(port: int) -> None:
    ends = time.monotonic() + 20
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        except OSError:
            if time.monotonic() > ends:
                raise
            await asyncio.sleep(0.05)


# ---------------------------------------------------------------- NSQ


class NsqConnection:
    """A connection of NSQ's V2 protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> NsqConnection:
        """Connects."""
        connection = cls(*await asyncio.open_connection("127.0.0.1", port))
        connection.writer.write(b"  V2")
        return connection

    async def identify(self, flags: bytes) -> None:
        """Sets options of the connection, as JSON."""
        self.writer.write(b"IDENTIFY\n" + struct.pack(">i", len(flags)) + flags)
        await self.ok()

    async def frame(self) -> tuple[int, bytes]:
        """Returns the kind and the data of the next frame; answers heartbeats."""
        while True:
            size, kind = struct.unpack(">ii", await self.reader.readexactly(8))
            data = await self.reader.readexactly(size - 4)
            if data == b"_heartbeat_":
                self.writer.write(b"NOP\n")
                continue
            assert kind != 1, data
            return kind, data

    async def ok(self) -> None:
        """Reads an OK."""
        _, data = await self.frame()
        assert data == b"OK", data


class NsqWorker:
    """See `Worker`. FIN is not answered by NSQ."""

    def __init__(self, connection: NsqConnection) -> None:
        self._connection = connection

    async def take(self) -> Sequence[bytes]:
        """See `Worker`: ids of messages with their bodies."""
        kind, data = await self._connection.frame()
        assert kind == 2
        return [data]

    async def ack(self, messages: Sequence[bytes]) -> None:
        """See `Worker`."""
        self._connection.writer.write(b"".join(b"FIN " + data[10:26] + b"\n" for data in messages))
        await self._connection.writer.drain()

    async def close(self) -> None:
        """See `Worker`: NSQ gives it nothing more once it has answered."""
        self._connection.writer.write(b"CLS\n")
        while (await self._connection.frame())[1] != b"CLOSE_WAIT":
            pass
        self._connection.writer.close()
        await self._connection.writer.wait_closed()


class Nsq:
    """See `Queue`."""

    name = "NSQ"
    note = ""

    def __init__(self, port: int) -> None:
        self._port = port
        self._publisher: NsqConnection | None = None

    @staticmethod
    @contextlib.asynccontextmanager
    async def running(program: str, folder: Path) -> AsyncIterator[Queue]:
        """One nsqd."""
        tcp, http = free_ports(2)
        flags = [f"--tcp-address=127.0.0.1:{tcp}", f"--http-address=127.0.0.1:{http}", f"--data-path={folder}"]
        async with server([program, *flags, "--mem-queue-size=2000000", "--min-output-buffer-timeout=1ms"], tcp):
            yield Nsq(tcp)

    async def publish(self, values: Sequence[bytes]) -> None:
        """See `Queue`: one MPUB for all, or a PUB for one."""
        if self._publisher is None:
            self._publisher = await NsqConnection.open(self._port)
            # It says nothing while other sides are measured, and would be thrown out.
            await self._publisher.identify(b'{"heartbeat_interval": -1}')
        for begin in range(0, len(values), 5_000):
            part = values[begin : begin + 5_000]
            if len(part) == 1:
                command, body = b"PUB jobs\n", part[0]
            else:
                command = b"MPUB jobs\n"
                body = struct.pack(">i", len(part)) + b"".join(struct.pack(">i", len(one)) + one for one in part)
            self._publisher.writer.write(command + struct.pack(">i", len(body)) + body)
            await self._publisher.ok()

    async def worker(self, max_in_flight: int) -> NsqWorker:
        """See `Queue`."""
        connection = await NsqConnection.open(self._port)
        # In milliseconds; the default of 250 would be all that is seen when idle.
        await connection.identify(b'{"output_buffer_timeout": 1}')
        connection.writer.write(b"SUB jobs work\n")
        await connection.ok()
        connection.writer.write(b"RDY %d\n" % max_in_flight)
        return NsqWorker(connection)


# ---------------------------------------------------------------- Redis


class RedisConnection:
    """A connection of Redis's protocol (RESP 2)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, port: int) -> RedisConnection:
        """Connects."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def call(self, *words: bytes) -> Any:
        """One command and its answer."""
        return (await self.calls([words]))[0]

    async def calls(self, commands: Sequence[Sequence[bytes]]) -> list[Any]:
        """Commands in one pipeline."""
        for words in commands:
            parts = [b"*%d\r\n" % len(words)]
            parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
            self._writer.write(b"".join(parts))
        async with self._turn:  # answers come in the order of the commands; waiters are served in theirs
            await self._writer.drain()
            return [await self._answer() for _ in commands]

    async def _answer(self) -> Any:
        line = (await self._reader.readuntil(b"\r\n"))[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            if rest == b"-1":
                return None
            return (await self._reader.readexactly(int(rest) + 2))[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [await self._answer() for _ in range(int(rest))]
        assert kind != b"-", rest
        return int(rest) if kind == b":" else rest

    def close(self) -> None:
        """Disconnects."""
        self._writer.close()


class RedisWorker:
    """See `Worker`."""

    def __init__(self, connection: RedisConnection, acks: RedisConnection, number: int, most: int) -> None:
        self._connection = connection
        self._id = 0
        self._acks = acks
        """A read that blocks keeps everything else on its connection waiting."""
        self._name = b"w%d" % number
        self._most = b"%d" % most

    async def begin(self) -> None:
        """Learns what Redis calls its connection."""
        self._id = await self._connection.call(b"CLIENT", b"ID")

    async def take(self) -> Sequence[Any]:
        """See `Worker`."""
        while True:
            found = await self._connection.call(
                *(b"XREADGROUP", b"GROUP", b"work", self._name, b"COUNT", self._most),
                *(b"BLOCK", b"1000", b"STREAMS", b"jobs", b">"),
            )
            if found:
                messages: list[Any] = found[0][1]
                return messages

    async def ack(self, messages: Sequence[Any]) -> None:
        """See `Worker`."""
        await self._acks.call(b"XACK", b"jobs", b"work", *(message[0] for message in messages))

    async def close(self) -> None:
        """See `Worker`: Redis gives nothing more to a reader that it was told to end."""
        await self._acks.call(b"CLIENT", b"KILL", b"ID", b"%d" % self._id)
        self._connection.close()
        self._acks.close()


class Redis:
    """See `Queue`."""

    name = "Redis Streams"
    note = ""

    def __init__(self, port: int) -> None:
        self._port = port
        self._publisher: RedisConnection | None = None
        self._workers = 0

    @staticmethod
    @contextlib.asynccontextmanager
    async def running(program: str, folder: Path) -> AsyncIterator[Queue]:
        """One redis-server with an append-only file."""
        (port,) = free_ports(1)
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--appendonly", "yes"]
        async with server([*command, "--save", ""], port):
            queue = Redis(port)
            setup = await RedisConnection.open(port)
            await setup.call(b"XGROUP", b"CREATE", b"jobs", b"work", b"0", b"MKSTREAM")
            setup.close()
            yield queue

    async def publish(self, values: Sequence[bytes]) -> None:
        """See `Queue`."""
        if self._publisher is None:
            self._publisher = await RedisConnection.open(self._port)
        for begin in range(0, len(values), 1_000):
            part = values[begin : begin + 1_000]
            await self._publisher.calls([(b"XADD", b"jobs", b"*", b"v", value) for value in part])

    async def worker(self, max_in_flight: int) -> RedisWorker:
        """See `Queue`."""
        self._workers += 1
        number = self._workers  # others may begin while this one connects
        connection, acks = await RedisConnection.open(self._port), await RedisConnection.open(self._port)
        worker = RedisWorker(connection, acks, number, max_in_flight)
        await worker.begin()
        return worker


def found_program(name: str, given: str) -> str | None:
    """Returns the program to run: the given one, or one on PATH; None = there is none."""
    return given or shutil.which(name)
