"""gRPC on loopback for the transport contract. Each server stands behind a small TCP proxy, so that it can vanish."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import grpc

from oncelog.link.grpc_tls import ClientTls
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.link.tls_files import TlsFiles
from oncelog.ports import Handler
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener
from oncelog_runtime.adapters.grpc.tls import server_credentials
from oncelog_runtime.core.listeners import CLIENT, EXTERNAL


class TcpProxy:
    """Forwards connections; `cut` aborts them all and closes the port."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, port: int = 0) -> str:
        """Listens; returns its address."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._writers += [writer, far_writer]
        pumps = [asyncio.create_task(_pump(reader, far_writer)), asyncio.create_task(_pump(far_reader, writer))]
        self._tasks += pumps
        await asyncio.wait(pumps)

    async def cut(self) -> None:
        """Breaks every connection with a reset."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 20):
            writer.write(data)
            await writer.drain()
    writer.close()


class GrpcWorld:
    """Implements `TransportWorld`; with `files`, mutual TLS everywhere."""

    def __init__(self, files: TlsFiles | None = None) -> None:
        self._files = files
        self.transport = GrpcTransport(tls=ClientTls(files) if files is not None else None)
        self._servers: dict[str, tuple[TcpProxy, GrpcServer]] = {}
        self._deaf = socket.socket()
        self._deaf.bind(("127.0.0.1", 0))  # bound, so nobody else gets it; not listening, so it refuses

    async def serve(self, handlers: dict[str, Handler]) -> str:
        server = GrpcServer(Listener.internal("127.0.0.1", 0, self._credentials()))
        for method, handler in handlers.items():
            server.register(method, handler)
        proxy = TcpProxy(await server.start())
        address = await proxy.start()
        self._servers[address] = (proxy, server)
        return address

    async def serve_doors(self, handlers: dict[str, Handler]) -> dict[str, str]:
        more = [Listener(name, "127.0.0.1", 0, self._credentials()) for name in (CLIENT, EXTERNAL)]
        server = GrpcServer(Listener.internal("127.0.0.1", 0, self._credentials()), *more)
        for method, handler in handlers.items():
            server.register(method, handler)
        address = await server.start()
        self._servers[address] = (TcpProxy(address), server)
        return server.listening

    async def stop(self, address: str, grace_ms: int) -> None:
        await self._servers[address][1].stop(grace_ms)

    async def crash(self, address: str) -> None:
        await self._servers[address][0].cut()

    def _credentials(self) -> grpc.ServerCredentials | None:
        return server_credentials(self._files, require_certificate=True) if self._files is not None else None

    def deaf_address(self) -> str:
        return f"127.0.0.1:{self._deaf.getsockname()[1]}"

    async def close(self) -> None:
        await self.transport.close()
        for proxy, server in self._servers.values():
            await proxy.cut()
            await server.stop(0)
        self._deaf.close()


@contextlib.asynccontextmanager
async def grpc_world(files: TlsFiles | None = None) -> AsyncIterator[GrpcWorld]:
    world = GrpcWorld(files)
    try:
        yield world
    finally:
        await world.close()
