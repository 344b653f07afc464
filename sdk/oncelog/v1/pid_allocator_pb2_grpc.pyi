"""Types of oncelog/v1/pid_allocator.proto, written by scripts/gen_protos.py: not to be edited.

`XStub(channel)` of a `grpc.Channel` answers at once. With a `grpc.aio.Channel` each call is awaited: then say so with
`cast("XAsyncStub", XStub(channel))`; `XAsyncStub` exists for type checkers only.
"""

from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from oncelog.v1 import link_pb2
from oncelog.v1 import pid_allocator_pb2

_Req = TypeVar("_Req", contravariant=True)
_Rep = TypeVar("_Rep", covariant=True)
_Metadata = Sequence[tuple[str, str | bytes]]

class _Call(Protocol[_Req, _Rep]):
    def __call__(
        self,
        request: _Req,
        timeout: float | None = ...,
        metadata: _Metadata | None = ...,
        credentials: Any = ...,
        wait_for_ready: bool | None = ...,
        compression: Any = ...,
    ) -> _Rep: ...

class _AsyncCall(Protocol[_Req, _Rep]):
    def __call__(
        self,
        request: _Req,
        *,
        timeout: float | None = ...,
        metadata: _Metadata | None = ...,
        credentials: Any = ...,
        wait_for_ready: bool | None = ...,
        compression: Any = ...,
    ) -> Awaitable[_Rep]: ...

class _Stream(Protocol[_Req, _Rep]):
    def __call__(
        self, request_iterator: Iterator[_Req], timeout: float | None = ..., metadata: _Metadata | None = ...
    ) -> Iterator[_Rep]: ...

class _AsyncStream(Protocol[_Req, _Rep]):
    """What it returns can be read, and written to, as grpc.aio has it."""

    def __call__(
        self,
        request_iterator: AsyncIterator[_Req] | None = ...,
        *,
        timeout: float | None = ...,
        metadata: _Metadata | None = ...,
    ) -> Any: ...

class PidAllocatorStub:
    def __init__(self, channel: Any) -> None: ...
    AllocateProducerIds: _Call[pid_allocator_pb2.AllocateProducerIdsRequest, pid_allocator_pb2.AllocateProducerIdsReply]
    Connect: _Stream[link_pb2.Envelope, link_pb2.Envelope]

class PidAllocatorAsyncStub:
    def __init__(self, channel: Any) -> None: ...
    AllocateProducerIds: _AsyncCall[pid_allocator_pb2.AllocateProducerIdsRequest, pid_allocator_pb2.AllocateProducerIdsReply]
    Connect: _AsyncStream[link_pb2.Envelope, link_pb2.Envelope]

class PidAllocatorServicer:
    def AllocateProducerIds(self, request: pid_allocator_pb2.AllocateProducerIdsRequest, context: Any) -> Any: ...
    def Connect(self, request_iterator: Any, context: Any) -> Any: ...

def add_PidAllocatorServicer_to_server(servicer: Any, server: Any) -> None: ...
