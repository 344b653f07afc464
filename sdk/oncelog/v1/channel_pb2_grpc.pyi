"""Types of oncelog/v1/channel.proto, written by scripts/gen_protos.py: not to be edited.

`XStub(channel)` of a `grpc.Channel` answers at once. With a `grpc.aio.Channel` each call is awaited: then say so with
`cast("XAsyncStub", XStub(channel))`; `XAsyncStub` exists for type checkers only.
"""

from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from oncelog.v1 import channel_pb2

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

class ChannelsStub:
    def __init__(self, channel: Any) -> None: ...
    CreateChannel: _Call[channel_pb2.CreateChannelRequest, channel_pb2.CreateChannelReply]
    AlterChannel: _Call[channel_pb2.AlterChannelRequest, channel_pb2.AlterChannelReply]
    DeleteChannel: _Call[channel_pb2.DeleteChannelRequest, channel_pb2.DeleteChannelReply]
    ListChannels: _Call[channel_pb2.ListChannelsRequest, channel_pb2.ListChannelsReply]
    Receive: _Call[channel_pb2.ReceiveRequest, channel_pb2.ReceiveReply]
    Settle: _Call[channel_pb2.SettleRequest, channel_pb2.SettleReply]
    Claim: _Call[channel_pb2.ClaimRequest, channel_pb2.ReceiveReply]
    DescribeChannel: _Call[channel_pb2.DescribeChannelRequest, channel_pb2.DescribeChannelReply]
    SeekChannel: _Call[channel_pb2.SeekChannelRequest, channel_pb2.SeekChannelReply]

class ChannelsAsyncStub:
    def __init__(self, channel: Any) -> None: ...
    CreateChannel: _AsyncCall[channel_pb2.CreateChannelRequest, channel_pb2.CreateChannelReply]
    AlterChannel: _AsyncCall[channel_pb2.AlterChannelRequest, channel_pb2.AlterChannelReply]
    DeleteChannel: _AsyncCall[channel_pb2.DeleteChannelRequest, channel_pb2.DeleteChannelReply]
    ListChannels: _AsyncCall[channel_pb2.ListChannelsRequest, channel_pb2.ListChannelsReply]
    Receive: _AsyncCall[channel_pb2.ReceiveRequest, channel_pb2.ReceiveReply]
    Settle: _AsyncCall[channel_pb2.SettleRequest, channel_pb2.SettleReply]
    Claim: _AsyncCall[channel_pb2.ClaimRequest, channel_pb2.ReceiveReply]
    DescribeChannel: _AsyncCall[channel_pb2.DescribeChannelRequest, channel_pb2.DescribeChannelReply]
    SeekChannel: _AsyncCall[channel_pb2.SeekChannelRequest, channel_pb2.SeekChannelReply]

class ChannelsServicer:
    def CreateChannel(self, request: channel_pb2.CreateChannelRequest, context: Any) -> Any: ...
    def AlterChannel(self, request: channel_pb2.AlterChannelRequest, context: Any) -> Any: ...
    def DeleteChannel(self, request: channel_pb2.DeleteChannelRequest, context: Any) -> Any: ...
    def ListChannels(self, request: channel_pb2.ListChannelsRequest, context: Any) -> Any: ...
    def Receive(self, request: channel_pb2.ReceiveRequest, context: Any) -> Any: ...
    def Settle(self, request: channel_pb2.SettleRequest, context: Any) -> Any: ...
    def Claim(self, request: channel_pb2.ClaimRequest, context: Any) -> Any: ...
    def DescribeChannel(self, request: channel_pb2.DescribeChannelRequest, context: Any) -> Any: ...
    def SeekChannel(self, request: channel_pb2.SeekChannelRequest, context: Any) -> Any: ...

def add_ChannelsServicer_to_server(servicer: Any, server: Any) -> None: ...
