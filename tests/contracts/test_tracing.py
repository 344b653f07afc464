"""The spans of remote calls over real gRPC: none is lost, whatever becomes of the call, and both sides say the same.

Each check runs over a link and over a unary call. The cases are those in which OpenTelemetry's stock interceptors lose spans
or tell the wrong status: an uncaught exception, the client's deadline, a cancelled task, a broken connection, a stop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
import grpc.aio
import pytest

from oncelog import errors
from oncelog.link.grpc_tracing import ClientTracing
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.ports import Handler
from oncelog.trace import tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import Buffer
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import partition_pb2_grpc
from oncelog.wire import methods
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener
from oncelog_runtime.adapters.grpc.health_server import HealthServer
from oncelog_runtime.observability.health import HealthState
from tests.contracts.grpc_world import TcpProxy
from tests.spans import Recorder, error_type, failed, recording_tracer, status

CREATE = methods.CREATE_TOPIC
NAME = "oncelog.v1.PartitionLeader/CreateTopic"
PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
NOT_SAMPLED = PARENT[:-1] + "0"
LONG_MS = 20_000


class Way(Protocol):
    """How a call reaches the server."""

    async def call(self, timeout_ms: int = LONG_MS) -> Any:
        """Calls CreateTopic."""
        ...


@dataclass
class World:
    """A server behind a proxy, and a caller; both traced, into one recorder."""

    way: Way
    server: GrpcServer
    proxy: TcpProxy
    spans: Recorder
    began: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    seen: str = ""
    """The context in which the handler ran."""

    async def serve(self, _header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        """The handler: waits if it was told to, then answers or fails."""
        self.seen = TRACEPARENT.get()
        self.began.set()
        if self.error is not None:
            raise self.error
        await self.go_on.wait()
        return pb.CreateTopicReply().SerializeToString(), b""

    def sides(self) -> tuple[Any, Any]:
        """The client's span and the server's."""
        return self.spans.one(NAME, "CLIENT"), self.spans.one(NAME, "SERVER")

    async def settle(self) -> None:
        """Waits until no span is open; a span that nobody ends fails the test here."""
        async with asyncio.timeout(5):
            while self.spans.open:
                self.spans.ended_one.clear()
                await self.spans.ended_one.wait()


class LinkWay:
    def __init__(self, address: str, tracer: tracing.Tracer) -> None:
        self.transport = GrpcTransport(tracer=tracer)
        self._address = address

    async def call(self, timeout_ms: int = LONG_MS) -> Any:
        return await CREATE.call(self.transport, self._address, pb.CreateTopicRequest(), timeout_ms)

    async def close(self) -> None:
        await self.transport.close()


class UnaryWay:
    def __init__(self, address: str, tracer: tracing.Tracer) -> None:
        self._channel = grpc.aio.insecure_channel(address, interceptors=[ClientTracing(tracer)])
        self._stub: Any = partition_pb2_grpc.PartitionLeaderStub(self._channel)

    async def call(self, timeout_ms: int = LONG_MS) -> Any:
        return await self._stub.CreateTopic(pb.CreateTopicRequest(), timeout=timeout_ms / 1000)

    async def close(self) -> None:
        await self._channel.close()


@contextlib.asynccontextmanager
async def world(way: str, sampler: str = "parentbased_always_on", more: dict[str, Handler] | None = None) -> Any:
    tracer, spans = recording_tracer(sampler)
    server = GrpcServer(Listener.internal("127.0.0.1", 0), tracer=tracer)
    made = World(None, server, None, spans)  # type: ignore[arg-type]  # filled below
    server.register(CREATE.name, made.serve)
    for name, handler in (more or {}).items():
        server.register(name, handler)
    made.proxy = TcpProxy(await server.start())
    address = await made.proxy.start()
    client = (LinkWay if way == "link" else UnaryWay)(address, tracer)
    made.way = client
    try:
        yield made
    finally:
        made.go_on.set()
        await client.close()
        await made.proxy.cut()
        await server.stop(0)


both = pytest.mark.parametrize("way", ["link", "unary"])


@both
@pytest.mark.asyncio
async def test_a_call_is_one_client_span_with_one_server_span_below(way: str) -> None:
    async with world(way) as w:
        w.go_on.set()
        await w.way.call()
        await w.settle()
        client, server = w.sides()
        assert server.parent.span_id == client.context.span_id
        assert server.context.trace_id == client.context.trace_id
        assert not failed(client)
        assert not failed(server)
        assert status(server) == "OK"
        assert tracing.parse_traceparent(w.seen)[1] == server.context.span_id  # type: ignore[index]
        assert client.attributes["rpc.system.name"] == "grpc"
        assert client.attributes["rpc.method"] == NAME


@both
@pytest.mark.asyncio
async def test_an_exception_that_nobody_caught_is_an_error_of_both_sides(way: str) -> None:
    async with world(way) as w:
        w.error = KeyError("a bug")
        with pytest.raises((errors.UnknownServerError, grpc.aio.AioRpcError)):
            await w.way.call()
        await w.settle()
        client, server = w.sides()
        assert failed(client)
        assert failed(server)
        assert status(server) == "UNKNOWN"


@both
@pytest.mark.asyncio
async def test_a_refusal_that_is_the_callers_doing_does_not_redden_the_server(way: str) -> None:
    async with world(way) as w:
        w.error = errors.ProducerFencedError()
        with pytest.raises((errors.ProducerFencedError, grpc.aio.AioRpcError)):
            await w.way.call()
        await w.settle()
        client, server = w.sides()
        assert failed(client)
        assert not failed(server)
        assert status(server) == "FAILED_PRECONDITION"
        assert error_type(server) is not None


@both
@pytest.mark.asyncio
async def test_an_error_of_the_server_reddens_it(way: str) -> None:
    async with world(way) as w:
        w.error = errors.StorageError(reason="full")
        with pytest.raises((errors.StorageError, grpc.aio.AioRpcError)):
            await w.way.call()
        await w.settle()
        _, server = w.sides()
        assert failed(server)
        assert status(server) == "UNAVAILABLE"


@both
@pytest.mark.asyncio
async def test_at_the_clients_deadline_both_spans_say_so(way: str) -> None:
    async with world(way) as w:
        with pytest.raises((errors.RequestTimedOutError, grpc.aio.AioRpcError)):
            await w.way.call(timeout_ms=200)
        await w.settle()
        client, server = w.sides()
        assert error_type(client) in ("REQUEST_TIMED_OUT", "DEADLINE_EXCEEDED")
        assert failed(server)
        assert status(server) == "DEADLINE_EXCEEDED"


@both
@pytest.mark.asyncio
async def test_a_cancelled_task_leaves_no_span_open(way: str) -> None:
    async with world(way) as w:
        task = asyncio.create_task(w.way.call())
        await w.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await w.settle()
        client, server = w.sides()
        assert error_type(client) == "CANCELLED"
        assert status(server) == "CANCELLED"
        assert not failed(server)


@both
@pytest.mark.asyncio
async def test_a_broken_connection_ends_both_spans(way: str) -> None:
    async with world(way) as w:
        task = asyncio.create_task(w.way.call())
        await w.began.wait()
        await w.proxy.cut()
        with pytest.raises((errors.NetworkError, grpc.aio.AioRpcError)):
            await task
        await w.settle()
        client, server = w.sides()
        assert error_type(client) in ("NETWORK_ERROR", "UNAVAILABLE")
        assert status(server) == "CANCELLED"


@both
@pytest.mark.asyncio
async def test_a_server_that_stops_ends_both_spans(way: str) -> None:
    async with world(way) as w:
        task = asyncio.create_task(w.way.call())
        await w.began.wait()
        await w.server.stop(0)
        with pytest.raises((errors.OncelogError, grpc.aio.AioRpcError)):
            await task
        await w.settle()
        client, _ = w.sides()
        assert failed(client)


@both
@pytest.mark.asyncio
async def test_what_is_not_sampled_makes_no_spans_and_is_said_to_the_server(way: str) -> None:
    async with world(way) as w:
        TRACEPARENT.set(NOT_SAMPLED)
        w.go_on.set()
        await w.way.call()
        assert w.spans.ended == []
        assert w.seen == NOT_SAMPLED


@both
@pytest.mark.asyncio
async def test_a_call_that_would_be_a_root_and_is_not_sampled_says_so_to_the_server(way: str) -> None:
    async with world(way, "always_off") as w:
        w.go_on.set()
        await w.way.call()
        assert w.spans.ended == []
        if way == "link":
            assert w.seen == tracing.NOBODY
        else:  # metadata is for everybody to read
            assert tracing.parse_traceparent(w.seen) is not None
            assert not tracing.is_sampled(w.seen)


@both
@pytest.mark.asyncio
async def test_a_root_that_is_not_sampled_stays_unsampled_at_the_server(way: str) -> None:
    async with world(way, "parentbased_traceidratio") as w:
        tracer, spans = recording_tracer("parentbased_always_on")
        assert isinstance(tracer.start("x", tracing.Kind.INTERNAL, NOT_SAMPLED), tracing.Unsampled)
        w.go_on.set()
        never, _ = recording_tracer("always_off")
        root = never.start("root", tracing.Kind.INTERNAL, "")
        TRACEPARENT.set(root.traceparent)
        await w.way.call()
        assert w.spans.ended == []
        assert w.seen == root.traceparent
        assert spans.ended == []


@both
@pytest.mark.asyncio
async def test_a_sampled_context_goes_on(way: str) -> None:
    async with world(way) as w:
        TRACEPARENT.set(PARENT)
        w.go_on.set()
        await w.way.call()
        await w.settle()
        client, server = w.sides()
        assert f"{client.context.trace_id:032x}" == "a" * 32
        assert f"{client.parent.span_id:016x}" == "b" * 16
        assert server.context.trace_id == client.context.trace_id


@pytest.mark.parametrize("parent", ["", NOT_SAMPLED])
@pytest.mark.asyncio
async def test_high_rate_calls_make_no_traces_of_their_own(parent: str) -> None:
    async with world("link", more={methods.PING.name: _echo}) as w:
        TRACEPARENT.set(parent)
        await methods.PING.call(w.way.transport, w.way._address, pb.PingRequest(), LONG_MS)
        assert w.spans.ended == []
        TRACEPARENT.set(PARENT)
        await methods.PING.call(w.way.transport, w.way._address, pb.PingRequest(), LONG_MS)
        await w.settle()
        assert w.spans.names() == ["oncelog.v1.PartitionLeader/Ping"] * 2


async def _echo(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
    return b"", b""


@pytest.mark.asyncio
async def test_an_open_link_has_no_span() -> None:
    async with world("link") as w:
        w.go_on.set()
        await w.way.call()
        await w.settle()
        assert w.spans.open == {}
        assert "Connect" not in " ".join(w.spans.names())


@contextlib.asynccontextmanager
async def health_stub(tracer: tracing.Tracer) -> AsyncIterator[Any]:
    from grpc_health.v1 import health_pb2_grpc

    state = HealthState()
    server = HealthServer(state, "127.0.0.1", 0)
    address = await server.start()
    async with grpc.aio.insecure_channel(address, interceptors=[ClientTracing(tracer)]) as channel:
        yield health_pb2_grpc.HealthStub(channel)
    await server.stop()


@pytest.mark.asyncio
async def test_health_probes_make_no_spans() -> None:
    from grpc_health.v1 import health_pb2

    tracer, spans = recording_tracer()
    async with health_stub(tracer) as stub:
        await stub.Check(health_pb2.HealthCheckRequest(service=""))
    assert spans.ended == []
    assert spans.open == {}
