"""Serves GET /metrics over HTTP/1.1, on the process's one event loop, on a plaintext port of its own.

Rule 1: everything is bounded: bytes of a request, time to send one, connections, and one scrape at a time; a further
        one waits for it.
Rule 2: a scrape yields to the loop between small pieces of text, so requests are served while it runs.
Rule 3: one request per connection. A scrape that fails half-way ends without the last chunk, which Prometheus counts as
        a failed scrape.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Final

from oncelog import errors
from oncelog_runtime.adapters.grpc.grpc_server import explain_bind_failure
from oncelog_runtime.observability import exposition
from oncelog_runtime.observability.metrics import NodeMetrics

log = logging.getLogger(__name__)

_REQUEST_BYTES: Final = 16 << 10
_REQUEST_S: Final = 5.0
_SCRAPE_S: Final = 60.0
_STALLED_S: Final = 5.0
"""For a reader that takes no data, since other scrapes wait for it."""
_CONNECTIONS: Final = 16
_PIECE_BYTES: Final = 64 << 10


class MetricsServer:
    """Serves a `NodeMetrics`. `port` 0 = any free one."""

    def __init__(self, metrics: NodeMetrics, host: str, port: int) -> None:
        self._metrics = metrics
        self._listen_host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._one_scrape = asyncio.Lock()
        self._connections: dict[asyncio.Task[None], None] = {}

    async def start(self) -> str:
        """Listens; returns host:port. Raises `AddressInUseError`, or `ConfigError` for a bad host."""
        try:
            self._server = await asyncio.start_server(
                self._accepted, self._listen_host, self._port, limit=_REQUEST_BYTES
            )
        except OSError as error:
            raise self._explain(error) from error
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _explain(self, error: OSError) -> errors.OncelogError:
        if error.errno == errno.EACCES:
            return errors.ConfigError(f"this user may not listen on port {self._port}: choose another --metrics-port")
        return explain_bind_failure(self._listen_host, self._port, "--metrics-port")

    @property
    def open_connections(self) -> int:
        """Connections in progress."""
        return len(self._connections)

    async def stop(self) -> None:
        """Stops at once. May be called repeatedly."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    # ------------------------------------------------------------ a connection

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="scrape")
        self._connections[task] = None
        task.add_done_callback(lambda done: self._connections.pop(done, None))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                request = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(_SCRAPE_S):
                await self._answer(request, writer)
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("a scrape ended early: %r", error)
        except Exception:
            log.exception("a scrape failed")
        finally:
            writer.transport.abort()  # `close` would wait forever for a reader that takes no data

    async def _answer(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        line, *headers = request.decode("latin-1").split("\r\n")
        method, _, rest = line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            await _short(writer, "405 Method Not Allowed", "only GET is served here\n", "Allow: GET, HEAD\r\n")
        elif path != "/metrics":
            await _short(writer, "404 Not Found", "the metrics are at /metrics\n")
        else:
            content = exposition.content_type(_header(headers, "accept"))
            await self._scrape(writer, content, body=method == "GET", chunked=not rest.endswith("HTTP/1.0"))

    async def _scrape(self, writer: asyncio.StreamWriter, content: str, *, body: bool, chunked: bool) -> None:
        coding = "Transfer-Encoding: chunked\r\n" if chunked else ""
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content}\r\nConnection: close\r\n{coding}\r\n"
        writer.write(head.encode())
        if body:
            async with self._one_scrape:
                gathered: list[str] = []
                for piece in exposition.render(self._metrics.families(), content):
                    if piece:
                        gathered.append(piece)
                    else:
                        await asyncio.sleep(0)
                        if sum(map(len, gathered)) >= _PIECE_BYTES:
                            await _chunk(writer, gathered, chunked)
                await _chunk(writer, gathered, chunked)
                if chunked:
                    writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _chunk(writer: asyncio.StreamWriter, pieces: list[str], chunked: bool) -> None:
    """Sends the gathered text, and waits while the reader is slow."""
    data = "".join(pieces).encode()
    pieces.clear()
    if data:
        writer.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
        async with asyncio.timeout(_STALLED_S):
            await writer.drain()


async def _short(writer: asyncio.StreamWriter, status: str, text: str, more: str = "") -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n"
    writer.write(f"{head}{more}Connection: close\r\n\r\n{text}".encode())
    await writer.drain()


def _header(lines: list[str], name: str) -> str:
    return ",".join(line.partition(":")[2].strip() for line in lines if line.partition(":")[0].lower() == name)
