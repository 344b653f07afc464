"""A caller without any .proto file learns from the server what it serves, and calls it, as grpcurl does."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha import reflection_pb2 as pb
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from oncelog import errors
from oncelog.types import Buffer
from oncelog.v1 import errors_pb2, partition_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_runtime.adapters.grpc import reflection
from oncelog_runtime.adapters.grpc.authentication import Authentication
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener
from oncelog_runtime.adapters.grpc.grpc_status import ERROR_TRAILER
from oncelog_runtime.adapters.system import SystemClock
from oncelog_runtime.core.listeners import CLIENT
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.serving.call_context import CallInfo

METADATA = methods.GET_METADATA.name


async def tell(header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
    request = partition_pb2.GetMetadataRequest.FromString(header)
    topics = [partition_pb2.TopicInfo(name=name, topic_id="t") for name in request.topics]
    return partition_pb2.GetMetadataReply(cluster_id="c", topics=topics).SerializeToString(), b""


@contextlib.asynccontextmanager
async def server(**options: Any) -> AsyncIterator[str]:
    running = GrpcServer(Listener.internal("127.0.0.1", 0), **{"reflects": True, **options})
    running.register(METADATA, tell)
    address = await running.start()
    try:
        yield address
    finally:
        await running.stop(0)


async def ask(
    address: str,
    *questions: pb.ServerReflectionRequest,
    service: str = reflection.SERVICES[0],
    metadata: tuple[tuple[str, str], ...] = (),
) -> list[Any]:
    """The answers, without a generated stub. Raises what the server refuses with."""
    return await asyncio.to_thread(_ask, address, questions, service, metadata)


def _ask(address: str, questions: Iterable[Any], service: str, metadata: tuple[tuple[str, str], ...]) -> list[Any]:
    """Not with `grpc.aio`: refused in the middle of a write, it reports INTERNAL instead of the refusal."""
    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream(f"/{service}/ServerReflectionInfo")
        written = (question.SerializeToString() for question in questions)
        try:
            return [pb.ServerReflectionResponse.FromString(answer) for answer in call(written, metadata=metadata)]
        except grpc.RpcError as error:
            trailer = {str(key): value for key, value in error.trailing_metadata() or ()}
            if ERROR_TRAILER not in trailer:
                raise
            raise from_detail(errors_pb2.ErrorDetail.FromString(trailer[ERROR_TRAILER])) from error


LIST = pb.ServerReflectionRequest(list_services="")


def by_json(address: str, service: str, method: str, request: dict[str, Any]) -> dict[str, Any]:
    """One call as grpcurl makes it: descriptors from the server, JSON in, JSON out."""
    with grpc.insecure_channel(address) as channel:
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        found = pool.FindServiceByName(service).FindMethodByName(method)
        kinds = [message_factory.GetMessageClass(kind) for kind in (found.input_type, found.output_type)]
        call = channel.unary_unary(f"/{service}/{method}", lambda m: m.SerializeToString(), kinds[1].FromString)
        reply = call(json_format.ParseDict(request, kinds[0]()), timeout=10)
        return dict(json_format.MessageToDict(reply, preserving_proto_field_name=True))


def test_a_method_is_called_by_its_name_alone() -> None:
    """Regression: reflection was UNIMPLEMENTED, so grpcurl needed the .proto files."""

    async def main() -> dict[str, Any]:
        async with server() as address:
            call = ("oncelog.v1.PartitionLeader", "GetMetadata", {"topics": ["orders"]})
            return await asyncio.to_thread(by_json, address, *call)

    assert asyncio.run(main()) == {"cluster_id": "c", "topics": [{"name": "orders", "topic_id": "t"}]}


@pytest.mark.parametrize("service", reflection.SERVICES)
def test_services_are_listed_and_nothing_but_the_contract_is_described(service: str) -> None:
    async def main() -> list[Any]:
        async with server() as address:
            symbols = ("oncelog.v1.ErrorDetail", "google.protobuf.FileDescriptorProto", "oncelog.v1.Nothing")
            questions = [pb.ServerReflectionRequest(file_containing_symbol=symbol) for symbol in symbols]
            return await ask(address, LIST, *questions, pb.ServerReflectionRequest(), service=service)

    listed, known, foreign, unknown, empty = asyncio.run(main())
    names = [found.name for found in listed.list_services_response.service]
    assert names == ["grpc.reflection.v1alpha.ServerReflection", "oncelog.v1.PartitionLeader"]
    assert len(known.file_descriptor_response.file_descriptor_proto) == 1
    assert {a.error_response.error_code for a in (foreign, unknown)} == {grpc.StatusCode.NOT_FOUND.value[0]}
    assert empty.error_response.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


def test_it_can_be_switched_off() -> None:
    async def main() -> None:
        async with server(reflects=False) as address:
            await ask(address, LIST)

    with pytest.raises(grpc.RpcError) as raised:
        asyncio.run(main())
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_process_without_the_library_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "oncelog_runtime.adapters.grpc.reflection", None)

    async def main() -> None:
        async with server():
            pass

    with pytest.raises(errors.ConfigError, match=r"pip install 'oncelog\[server\]', or set reflection=false"):
        asyncio.run(main())


class Doorkeeper:
    """Stands in for `Authentication`: refuses, or says what a certificate may."""

    def __init__(self, refusal: errors.OncelogError | None, may_call: frozenset[str] | None) -> None:
        self._refusal, self._may_call = refusal, may_call

    async def caller(self, _context: Any, call: CallInfo) -> CallInfo:
        if self._refusal is not None:
            raise self._refusal
        return replace(call, methods=self._may_call)


@pytest.mark.parametrize(
    ("refusal", "may_call", "raised"),
    [
        (errors.AuthenticationError("no such token"), None, errors.AuthenticationError),
        (None, frozenset(), errors.ClusterAuthorizationError),
        (None, frozenset({METADATA}), None),
    ],
)
def test_who_asks_is_authenticated_as_for_any_call(refusal: Any, may_call: Any, raised: Any) -> None:
    async def main() -> list[Any]:
        async with server(authentication=Doorkeeper(refusal, may_call)) as address:
            return await ask(address, LIST)

    with pytest.raises(raised) if raised is not None else contextlib.nullcontext():
        assert asyncio.run(main())


def test_at_the_clients_door_a_token_that_is_not_good_makes_nobody_anonymous() -> None:
    authorizer = Authorizer(Policy())
    authorizer.is_loaded = True
    running = GrpcServer(
        Listener.internal("127.0.0.1", 0),
        Listener(CLIENT, "127.0.0.1", 0),
        authentication=Authentication(authorizer, SystemClock()),
        reflects=True,
    )
    running.register(METADATA, tell)

    async def main() -> None:
        await running.start()
        try:
            door = running.listening[CLIENT]
            assert len(await ask(door, LIST)) == 1
            with pytest.raises(errors.AuthenticationError):
                await ask(door, LIST, metadata=(("authorization", "Bearer x.y.z"),))
        finally:
            await running.stop(0)

    asyncio.run(main())


def test_a_question_is_short_and_a_message() -> None:
    async def main(data: bytes) -> None:
        async with server() as address, grpc.aio.insecure_channel(address) as channel:
            async for _ in channel.stream_stream(f"/{reflection.SERVICES[0]}/ServerReflectionInfo")(iter([data])):
                pass

    for data in (pb.ServerReflectionRequest(file_by_filename="x" * 5000).SerializeToString(), b"\xff\xff"):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            asyncio.run(main(data))
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_callers_and_their_questions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflection, "_CALLERS_MAX", 1)
    monkeypatch.setattr(reflection, "_QUESTIONS_MAX", 2)

    async def main() -> None:
        async with server() as address, grpc.aio.insecure_channel(address) as channel:
            first = channel.stream_stream(f"/{reflection.SERVICES[0]}/ServerReflectionInfo")()
            await first.write(LIST.SerializeToString())
            assert await first.read()
            with pytest.raises(errors.ResourceExhaustedError, match="too many callers"):
                await ask(address, LIST)
            await first.write(LIST.SerializeToString())
            assert await first.read()
            assert await first.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert len(await ask(address, LIST)) == 1  # the place is free again

    asyncio.run(main())


def test_callers_of_one_peer_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflection, "_CALLERS_PER_PEER_MAX", 1)

    async def main() -> None:
        async with server() as address, grpc.aio.insecure_channel(address) as channel:
            first = channel.stream_stream(f"/{reflection.SERVICES[0]}/ServerReflectionInfo")()
            await first.write(LIST.SerializeToString())
            assert await first.read()
            with pytest.raises(errors.ResourceExhaustedError, match="from this address"):
                await ask(address, LIST)
            await first.done_writing()
            assert await first.read() is grpc.aio.EOF
            assert len(await ask(address, LIST)) == 1  # the place is free again

    asyncio.run(main())


def test_who_goes_on_asking_keeps_his_place_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is one for the whole call, and no question begins it anew."""
    limits: list[asyncio.Timeout] = []

    def timeout(delay_s: float) -> asyncio.Timeout:
        limits.append(asyncio.timeout(delay_s))
        return limits[-1]

    monkeypatch.setattr(reflection, "asyncio", SimpleNamespace(timeout=timeout))

    async def main() -> None:
        async with server() as address, grpc.aio.insecure_channel(address) as channel:
            call = channel.stream_stream(f"/{reflection.SERVICES[0]}/ServerReflectionInfo")()
            for _ in range(3):
                await call.write(LIST.SerializeToString())
                assert await call.read()
            (limit,) = limits
            limit.reschedule(0)  # its time is over
            assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED

    asyncio.run(main())
