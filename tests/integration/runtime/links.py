"""A server, a client and a raw stream: what the tests of links share."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc.aio

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.client_link import GrpcOptions
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.link.link_codec import Frame
from oncelog.ports import Handler
from oncelog.v1 import errors_pb2, link_pb2
from oncelog.wire.wire_errors import from_detail
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener, ServerOptions

if TYPE_CHECKING:
    from oncelog_runtime.adapters.grpc.authentication import Authentication

Loop = Callable[[Callable[[], Awaitable[None]]], None]


@contextlib.asynccontextmanager
async def serving(
    handlers: dict[str, Handler],
    options: ServerOptions | None = None,
    cluster_id: str = "",
    port: int = 0,
    authentication: Authentication | None = None,
    **more: Any,
) -> AsyncIterator[tuple[GrpcServer, str]]:
    """A server with these handlers, and its address."""
    server = GrpcServer(
        Listener.internal("127.0.0.1", port),
        *more.pop("doors", ()),
        cluster_id=cluster_id,
        options=options,
        authentication=authentication,
        **more,
    )
    for method, handler in handlers.items():
        server.register(method, handler)
    address = await server.start()
    try:
        yield server, address
    finally:
        await server.stop(0)


@contextlib.asynccontextmanager
async def client(cluster_id: str = "", options: GrpcOptions | None = None) -> AsyncIterator[GrpcTransport]:
    transport = GrpcTransport(cluster_id, options)
    try:
        yield transport
    finally:
        await transport.close()


@contextlib.asynccontextmanager
async def raw_stream(address: str) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(address) as channel:
        stream = channel.stream_stream("/oncelog.v1.PartitionLeader/Connect")()
        yield stream
        stream.cancel()


async def frames(stream: Any) -> list[Frame]:
    data = await stream.read()
    return [] if data is grpc.aio.EOF else link_codec.decode_envelope(data)


def detail(frame: Frame) -> errors.OncelogError:
    assert frame.kind == link_codec.ERROR
    return from_detail(errors_pb2.ErrorDetail.FromString(frame.header))


HELLO = link_codec.hello_envelope(link_pb2.Hello(protocol_min=1, protocol_max=1))
