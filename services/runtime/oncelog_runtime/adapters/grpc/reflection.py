"""gRPC server reflection: lists the services of a process, for tools such as grpcurl and for callers without .proto
files.

Rule 1: it shows only the wire contract, never anything of the cluster: its pool of descriptors holds nothing else.
Rule 2: callers are authenticated as for any other call; at the internal listener, a certificate that `service_rules`
        assign to no service is refused.
Rule 3: limits: the number of callers, of callers per peer, of questions per call, and the time of a call.
Rule 4: served as v1alpha, and as v1, which has the same messages: tools begin with either.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection, reflection_pb2
from grpc_reflection.v1alpha._async import ReflectionServicer

from oncelog import errors
from oncelog_runtime.adapters.grpc import grpc_status
from oncelog_runtime.adapters.grpc.half_messages import connection_of
from oncelog_runtime.adapters.grpc.link.link_host import LinkHost
from oncelog_runtime.adapters.grpc.server_context import ServerContext
from oncelog_runtime.serving.call_context import CallInfo
from oncelog_runtime.serving.peer_key import peer_of

T = TypeVar("T")

SERVICES: Final = (reflection.SERVICE_NAME, "grpc.reflection.v1.ServerReflection")
_CALLERS_MAX: Final = 32
_CALLERS_PER_PEER_MAX: Final = 8
_QUESTIONS_MAX: Final = 1_000
_STREAM_S: Final = 60.0
_QUESTION_BYTES_MAX: Final = 4_096


class Reflection:
    """Serves reflection for one process. `services`: full names of its services, whose files this process has imported."""

    def __init__(self, host: LinkHost, services: Iterable[str]) -> None:
        names = sorted(services)
        self._host = host
        self._servicer = ReflectionServicer((*names, reflection.SERVICE_NAME), pool=_pool(names))
        self._callers: Counter[str] = Counter()
        """Calls in progress, by peer."""

    def handlers(self, caller_of: Callable[[ServerContext], CallInfo]) -> list[grpc.GenericRpcHandler]:
        """Returns the handlers for one listener, whose callers `caller_of(context)` identifies."""

        async def serve(_requests: object, context: ServerContext) -> None:
            caller = caller_of(context)
            try:
                await self._serve(context, caller, await self._admit(context, caller))
            except errors.OncelogError as error:
                await grpc_status.abort(context, error)

        table = {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(serve)}
        return [grpc.method_handlers_generic_handler(name, table) for name in SERVICES]

    async def _admit(self, context: ServerContext, caller: CallInfo) -> str:
        """Returns the peer to count the call under. Raises the refusal."""
        if self._host.stopping:
            raise errors.ShuttingDownError()
        if self._host.authentication is not None:
            caller = await self._host.authentication.caller(context, caller)
        if caller.methods is not None and not caller.methods:
            raise errors.ClusterAuthorizationError("this certificate is no service's")
        if self._callers.total() >= _CALLERS_MAX:
            raise errors.ResourceExhaustedError(
                "too many callers of reflection", limit=_CALLERS_MAX, retry_after_ms=500
            )
        peer = peer_of(caller)
        if self._callers[peer] >= _CALLERS_PER_PEER_MAX:
            raise errors.ResourceExhaustedError(
                "too many callers of reflection from this address, or of this principal",
                limit=_CALLERS_PER_PEER_MAX,
                retry_after_ms=500,
            )
        return peer

    async def _serve(self, context: ServerContext, caller: CallInfo, peer: str) -> None:
        meter = self._host.meter(connection_of(caller.peer))
        self._callers[peer] += 1
        try:
            async with asyncio.timeout(_STREAM_S):
                for _ in range(_QUESTIONS_MAX):
                    data = await context.read()
                    if data is grpc.aio.EOF:
                        return
                    meter.messages += 1
                    meter.delivered_bytes += len(data)
                    async for answer in self._servicer.ServerReflectionInfo(_only(_question(data)), context):
                        found = answer.SerializeToString()
                        meter.answered_bytes += len(found)
                        await context.write(found)
            raise errors.ResourceExhaustedError("too many questions in one call: begin another", limit=_QUESTIONS_MAX)
        except TimeoutError:
            raise errors.RequestTimedOutError("a call of reflection ends after a minute: begin another") from None
        finally:
            self._callers[peer] -= 1
            self._callers += Counter()  # drops peers with no call left


def _question(data: bytes) -> reflection_pb2.ServerReflectionRequest:
    """Parses a question. Raises `InvalidRequestError`, also for a long one, since the answer repeats it."""
    if len(data) > _QUESTION_BYTES_MAX:
        raise errors.InvalidRequestError("no name is so long", bytes=len(data), limit=_QUESTION_BYTES_MAX)
    try:
        return reflection_pb2.ServerReflectionRequest.FromString(data)
    except DecodeError as error:
        raise errors.InvalidRequestError("the question cannot be parsed") from error


async def _only(question: T) -> AsyncIterator[T]:
    yield question


def _pool(services: Iterable[str]) -> descriptor_pool.DescriptorPool:
    """Returns a pool with the files of these services and of reflection, with all their imports."""
    known, pool = descriptor_pool.Default(), descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(file: FileDescriptor) -> None:
        if file.name not in added:
            added.add(file.name)
            for dependency in file.dependencies:
                add(dependency)
            pool.AddSerializedFile(file.serialized_pb)

    for name in (*services, reflection.SERVICE_NAME):
        add(known.FindFileContainingSymbol(name))
    return pool
