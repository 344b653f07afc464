"""A process over gRPC: unary callers get the same handlers and errors as links, and a port that cannot be had is explained."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from oncelog import errors
from oncelog.ports import Handler
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import Buffer
from oncelog.v1 import errors_pb2, partition_pb2, partition_pb2_grpc
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_runtime.adapters.grpc.grpc_server import (
    GrpcServer,
    Listener,
    ServerOptions,
    explain_bind_failure,
    join_bulk,
    split_bulk,
)
from oncelog_runtime.adapters.grpc.grpc_status import ERROR_TRAILER
from oncelog_runtime.config.startup_error import AddressInUseError
from tests.hostile.half_messages import HalfMessages

PRODUCE = "PartitionLeader.Produce"
FETCH = "PartitionLeader.Fetch"
PING = "PartitionLeader.Ping"


@contextlib.asynccontextmanager
async def stub(handlers: dict[str, Handler], options: ServerOptions | None = None) -> AsyncIterator[Any]:
    server = GrpcServer(Listener.internal("127.0.0.1", 0), options=options)
    for method, handler in handlers.items():
        server.register(method, handler)
    address = await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        yield partition_pb2_grpc.PartitionLeaderStub(channel)
    await server.stop(0)


def error_of(caught: grpc.aio.AioRpcError) -> errors.OncelogError:
    trailer = dict(caught.trailing_metadata())[ERROR_TRAILER]
    return from_detail(errors_pb2.ErrorDetail.FromString(trailer))


@pytest.mark.asyncio
async def test_bulk_bytes_travel_inside_the_message() -> None:
    async def produce(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        request = partition_pb2.ProduceRequest.FromString(header)
        assert request.batches == b""
        assert bytes(payload) == b"batch"
        partitions = [partition_pb2.ProducePartitionReply(topic_id=p.topic_id) for p in request.partitions]
        return partition_pb2.ProduceReply(partitions=partitions).SerializeToString(), b""

    async def fetch(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        item = partition_pb2.FetchedPartition(topic_id="t", length=5)
        return partition_pb2.FetchReply(partitions=[item]).SerializeToString(), memoryview(b"bytes")

    async with stub({PRODUCE: produce, FETCH: fetch}) as leader:
        request = partition_pb2.ProduceRequest(
            partitions=[partition_pb2.ProducePartition(topic_id="t")], batches=b"batch"
        )
        reply = await leader.Produce(request)
        assert reply.partitions[0].topic_id == "t"
        fetched = await leader.Fetch(partition_pb2.FetchRequest())
        assert fetched.batches == b"bytes"
        assert fetched.partitions[0].length == 5


@pytest.mark.asyncio
async def test_an_error_has_a_status_for_everybody_and_a_detail_for_us() -> None:
    async def refuse(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        raise errors.NotLeaderError("broker 2 leads", leader=2)

    async def fail(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        raise KeyError("/secret/path")

    async with stub({PRODUCE: refuse, PING: fail}) as leader:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await leader.Produce(partition_pb2.ProduceRequest())
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        error = error_of(caught.value)
        assert isinstance(error, errors.NotLeaderError)
        assert error.context == {"leader": "2"}
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await leader.Ping(partition_pb2.PingRequest())
        assert caught.value.code() is grpc.StatusCode.UNKNOWN
        assert isinstance(error_of(caught.value), errors.UnknownServerError)
        assert "secret" not in str(caught.value.details())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await leader.Fetch(partition_pb2.FetchRequest())
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.asyncio
async def test_a_request_that_is_no_message_is_the_callers_mistake() -> None:
    async def produce(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        raise AssertionError("not reached")

    async with stub({PRODUCE: produce}) as leader:
        leader.Produce._request_serializer = lambda data: data
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await leader.Produce(b"\xff\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.asyncio
async def test_a_caller_that_gives_up_does_not_cancel_the_handler() -> None:
    begun, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def mutate(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        begun.set()
        await release.wait()
        ended.set()
        return b"", b""

    async with stub({PING: mutate}) as leader:
        call = leader.Ping(partition_pb2.PingRequest())
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        release.set()
        async with asyncio.timeout(5):
            await ended.wait()


@pytest.mark.asyncio
async def test_unary_calls_are_bounded_and_traced() -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    traces: list[str] = []

    async def wait(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        traces.append(TRACEPARENT.get())
        begun.set()
        await release.wait()
        return b"", b""

    async with stub({PING: wait}, ServerOptions(max_unary_calls=1)) as leader:
        first = leader.Ping(partition_pb2.PingRequest(), metadata=(("traceparent", "00-a"),))
        await begun.wait()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await leader.Ping(partition_pb2.PingRequest())
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        release.set()
        await first
        await leader.Ping(partition_pb2.PingRequest())
    assert traces == ["00-a", ""]


@pytest.mark.asyncio
async def test_requests_that_do_not_arrive_keep_one_address_from_further_calls_until_they_are_gone() -> None:
    server = GrpcServer(
        Listener.internal("127.0.0.1", 0), options=ServerOptions(max_arriving_calls=2, max_arriving_calls_per_address=2)
    )
    server.register(PING, answer_nothing)
    address = await server.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel, asyncio.timeout(30):
            leader = partition_pb2_grpc.PartitionLeaderStub(channel)
            half = await half_messages(address)
            while not await is_refused(leader):  # a ping that came before the second one took its place: once more
                half.close()
                half = await half_messages(address)
            half.close()
            while await is_refused(leader):  # noqa: ASYNC110 (what the server notices has no event)
                await asyncio.sleep(0.01)
    finally:
        await server.stop(0)


async def half_messages(address: str) -> HalfMessages:
    """Two of them, which the server has probably noticed."""
    half = await HalfMessages.connect(address)
    await half.send(streams=2, size=100)
    await asyncio.sleep(0.1)
    return half


async def answer_nothing(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
    return b"", b""


async def is_refused(leader: Any) -> bool:
    try:
        await leader.Ping(partition_pb2.PingRequest())
    except grpc.aio.AioRpcError as error:
        return isinstance(error_of(error), errors.ResourceExhaustedError)
    return False


@pytest.mark.asyncio
async def test_a_handler_that_nobody_ever_answers_gives_its_slot_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog_runtime.adapters.grpc.grpc_server._UNARY_MAX_S", 0.2)

    async def wait(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        await asyncio.Event().wait()
        raise AssertionError("not reached")

    async def answer(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        return b"", b""

    async with stub({PING: wait, FETCH: answer}, ServerOptions(max_unary_calls=1)) as leader:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await leader.Ping(partition_pb2.PingRequest())
        assert isinstance(error_of(caught.value), errors.RequestTimedOutError)
        await leader.Fetch(partition_pb2.FetchRequest())


# ------------------------------------------------------------ what is no call


def test_a_method_that_the_contract_does_not_know_is_not_served() -> None:
    async def never(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        raise AssertionError("not reached")

    with pytest.raises(errors.ConfigError, match="Dance is not in oncelog"):
        GrpcServer(Listener.internal("127.0.0.1", 0)).register("PartitionLeader.Dance", never)


@pytest.mark.parametrize(
    ("host", "port", "error", "says"),
    [
        ("no.such.host.invalid", 0, errors.ConfigError, "cannot be resolved"),
        ("192.0.2.1", 0, errors.ConfigError, "192.0.2.1 is no address of this machine: see --listen-host"),
        ("127.0.0.1", 0, errors.ConfigError, "gRPC cannot listen on 127.0.0.1:0"),
    ],
)
def test_a_port_that_cannot_be_had_is_explained(
    host: str, port: int, error: type[errors.OncelogError], says: str
) -> None:
    explained = explain_bind_failure(host, port)
    assert type(explained) is error
    assert says in explained.message


def test_a_port_that_another_process_has_names_the_flag_that_changes_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        explained = explain_bind_failure("127.0.0.1", port, "--client-listen-port")
        assert isinstance(explained, AddressInUseError)
        assert f"port {port} of 127.0.0.1 is in use" in explained.message
        assert "choose another --client-listen-port" in explained.message


def test_two_listeners_on_one_port_are_an_error_and_neither_listens() -> None:
    async def test() -> None:
        first = GrpcServer(Listener.internal("127.0.0.1", 0))
        address = await first.start()
        port = int(address.rpartition(":")[2])
        second = GrpcServer(
            Listener.internal("127.0.0.1", 0), Listener("client", "127.0.0.1", port, None, "--client-listen-port")
        )
        with pytest.raises(AddressInUseError, match="choose another --client-listen-port"):
            await second.start()
        assert second.listening == {}
        for _ in range(2):
            await first.stop(0)

    asyncio.run(test())


def test_bounds_that_nobody_set_follow_from_the_largest_message() -> None:
    limits = ServerOptions(max_message_bytes=1 << 20, max_bytes_per_link=1).memory_limits()
    assert (limits.request_bytes, limits.answer_bytes) == (8 << 20, 4 << 20)
    assert (limits.request_bytes_per_connection, limits.answer_bytes_per_connection) == (1 << 20, 1 << 20)
    arriving = ServerOptions(max_message_bytes=1 << 20).arriving_limits()
    assert (arriving.process_bytes, arriving.connection_bytes) == (4 << 20, 2 << 20)
    assert ServerOptions(message_timeout_ms=1_000).arriving_limits().patience >= 2


PRODUCE_SPEC, PING_SPEC = methods.ALL[PRODUCE], methods.ALL[PING]


def test_bulk_bytes_are_taken_out_of_a_request_and_put_into_a_reply() -> None:
    whole = partition_pb2.ProduceRequest(acks=-1, batches=b"batch")
    header, payload = split_bulk(PRODUCE_SPEC, whole.SerializeToString())
    assert (partition_pb2.ProduceRequest.FromString(header), payload) == (
        partition_pb2.ProduceRequest(acks=-1),
        b"batch",
    )
    assert split_bulk(PING_SPEC, b"\xff") == (b"\xff", b""), "a message without bulk is the handler's to read"
    with pytest.raises(errors.InvalidRequestError, match=PRODUCE):
        split_bulk(PRODUCE_SPEC, b"\xff")
    reply = partition_pb2.FetchReply(partitions=[partition_pb2.FetchedPartition(topic_id="t")])
    joined = join_bulk(methods.ALL[FETCH], reply.SerializeToString(), memoryview(b"bytes"))
    assert partition_pb2.FetchReply.FromString(joined) == partition_pb2.FetchReply(
        partitions=reply.partitions, batches=b"bytes"
    )
    assert join_bulk(PING_SPEC, b"header", b"") == b"header"
