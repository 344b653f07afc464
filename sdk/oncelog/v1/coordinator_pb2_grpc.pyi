"""Types of oncelog/v1/coordinator.proto, written by scripts/gen_protos.py: not to be edited.

`XStub(channel)` of a `grpc.Channel` answers at once. With a `grpc.aio.Channel` each call is awaited: then say so with
`cast("XAsyncStub", XStub(channel))`; `XAsyncStub` exists for type checkers only.
"""

from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from oncelog.v1 import coordinator_pb2
from oncelog.v1 import link_pb2

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

class CoordinatorStub:
    def __init__(self, channel: Any) -> None: ...
    InitProducerId: _Call[coordinator_pb2.InitProducerIdRequest, coordinator_pb2.InitProducerIdReply]
    EnrolPartitions: _Call[coordinator_pb2.EnrolPartitionsRequest, coordinator_pb2.EnrolPartitionsReply]
    EndTransaction: _Call[coordinator_pb2.EndTransactionRequest, coordinator_pb2.EndTransactionReply]
    GetOutcome: _Call[coordinator_pb2.GetOutcomeRequest, coordinator_pb2.GetOutcomeReply]
    JoinTransaction: _Call[coordinator_pb2.JoinTransactionRequest, coordinator_pb2.JoinTransactionReply]
    RenewTransaction: _Call[coordinator_pb2.RenewTransactionRequest, coordinator_pb2.RenewTransactionReply]
    CommitTransaction: _Call[coordinator_pb2.CommitTransactionRequest, coordinator_pb2.CommitTransactionReply]
    AbortTransaction: _Call[coordinator_pb2.AbortTransactionRequest, coordinator_pb2.AbortTransactionReply]
    ResolveTransaction: _Call[coordinator_pb2.ResolveTransactionRequest, coordinator_pb2.ResolveTransactionReply]
    CommitOffsets: _Call[coordinator_pb2.CommitOffsetsRequest, coordinator_pb2.CommitOffsetsReply]
    FetchOffsets: _Call[coordinator_pb2.FetchOffsetsRequest, coordinator_pb2.FetchOffsetsReply]
    SendOffsets: _Call[coordinator_pb2.SendOffsetsRequest, coordinator_pb2.SendOffsetsReply]
    GroupHeartbeat: _Call[coordinator_pb2.GroupHeartbeatRequest, coordinator_pb2.GroupHeartbeatReply]
    WriteGroupMarkers: _Call[coordinator_pb2.WriteGroupMarkersRequest, coordinator_pb2.WriteGroupMarkersReply]
    OpenChannelPartition: _Call[coordinator_pb2.OpenChannelPartitionRequest, coordinator_pb2.OpenChannelPartitionReply]
    WriteChannelState: _Call[coordinator_pb2.WriteChannelStateRequest, coordinator_pb2.WriteChannelStateReply]
    SendChannelAcks: _Call[coordinator_pb2.SendChannelAcksRequest, coordinator_pb2.SendChannelAcksReply]
    ListTransactions: _Call[coordinator_pb2.ListTransactionsRequest, coordinator_pb2.ListTransactionsReply]
    DescribeTransaction: _Call[coordinator_pb2.DescribeTransactionRequest, coordinator_pb2.DescribeTransactionReply]
    ForceAbort: _Call[coordinator_pb2.ForceAbortRequest, coordinator_pb2.ForceAbortReply]
    ListGroups: _Call[coordinator_pb2.ListGroupsRequest, coordinator_pb2.ListGroupsReply]
    DescribeGroup: _Call[coordinator_pb2.DescribeGroupRequest, coordinator_pb2.DescribeGroupReply]
    DeleteOffsets: _Call[coordinator_pb2.DeleteOffsetsRequest, coordinator_pb2.DeleteOffsetsReply]
    DrainCoordinator: _Call[coordinator_pb2.DrainCoordinatorRequest, coordinator_pb2.DrainCoordinatorReply]
    Connect: _Stream[link_pb2.Envelope, link_pb2.Envelope]

class CoordinatorAsyncStub:
    def __init__(self, channel: Any) -> None: ...
    InitProducerId: _AsyncCall[coordinator_pb2.InitProducerIdRequest, coordinator_pb2.InitProducerIdReply]
    EnrolPartitions: _AsyncCall[coordinator_pb2.EnrolPartitionsRequest, coordinator_pb2.EnrolPartitionsReply]
    EndTransaction: _AsyncCall[coordinator_pb2.EndTransactionRequest, coordinator_pb2.EndTransactionReply]
    GetOutcome: _AsyncCall[coordinator_pb2.GetOutcomeRequest, coordinator_pb2.GetOutcomeReply]
    JoinTransaction: _AsyncCall[coordinator_pb2.JoinTransactionRequest, coordinator_pb2.JoinTransactionReply]
    RenewTransaction: _AsyncCall[coordinator_pb2.RenewTransactionRequest, coordinator_pb2.RenewTransactionReply]
    CommitTransaction: _AsyncCall[coordinator_pb2.CommitTransactionRequest, coordinator_pb2.CommitTransactionReply]
    AbortTransaction: _AsyncCall[coordinator_pb2.AbortTransactionRequest, coordinator_pb2.AbortTransactionReply]
    ResolveTransaction: _AsyncCall[coordinator_pb2.ResolveTransactionRequest, coordinator_pb2.ResolveTransactionReply]
    CommitOffsets: _AsyncCall[coordinator_pb2.CommitOffsetsRequest, coordinator_pb2.CommitOffsetsReply]
    FetchOffsets: _AsyncCall[coordinator_pb2.FetchOffsetsRequest, coordinator_pb2.FetchOffsetsReply]
    SendOffsets: _AsyncCall[coordinator_pb2.SendOffsetsRequest, coordinator_pb2.SendOffsetsReply]
    GroupHeartbeat: _AsyncCall[coordinator_pb2.GroupHeartbeatRequest, coordinator_pb2.GroupHeartbeatReply]
    WriteGroupMarkers: _AsyncCall[coordinator_pb2.WriteGroupMarkersRequest, coordinator_pb2.WriteGroupMarkersReply]
    OpenChannelPartition: _AsyncCall[coordinator_pb2.OpenChannelPartitionRequest, coordinator_pb2.OpenChannelPartitionReply]
    WriteChannelState: _AsyncCall[coordinator_pb2.WriteChannelStateRequest, coordinator_pb2.WriteChannelStateReply]
    SendChannelAcks: _AsyncCall[coordinator_pb2.SendChannelAcksRequest, coordinator_pb2.SendChannelAcksReply]
    ListTransactions: _AsyncCall[coordinator_pb2.ListTransactionsRequest, coordinator_pb2.ListTransactionsReply]
    DescribeTransaction: _AsyncCall[coordinator_pb2.DescribeTransactionRequest, coordinator_pb2.DescribeTransactionReply]
    ForceAbort: _AsyncCall[coordinator_pb2.ForceAbortRequest, coordinator_pb2.ForceAbortReply]
    ListGroups: _AsyncCall[coordinator_pb2.ListGroupsRequest, coordinator_pb2.ListGroupsReply]
    DescribeGroup: _AsyncCall[coordinator_pb2.DescribeGroupRequest, coordinator_pb2.DescribeGroupReply]
    DeleteOffsets: _AsyncCall[coordinator_pb2.DeleteOffsetsRequest, coordinator_pb2.DeleteOffsetsReply]
    DrainCoordinator: _AsyncCall[coordinator_pb2.DrainCoordinatorRequest, coordinator_pb2.DrainCoordinatorReply]
    Connect: _AsyncStream[link_pb2.Envelope, link_pb2.Envelope]

class CoordinatorServicer:
    def InitProducerId(self, request: coordinator_pb2.InitProducerIdRequest, context: Any) -> Any: ...
    def EnrolPartitions(self, request: coordinator_pb2.EnrolPartitionsRequest, context: Any) -> Any: ...
    def EndTransaction(self, request: coordinator_pb2.EndTransactionRequest, context: Any) -> Any: ...
    def GetOutcome(self, request: coordinator_pb2.GetOutcomeRequest, context: Any) -> Any: ...
    def JoinTransaction(self, request: coordinator_pb2.JoinTransactionRequest, context: Any) -> Any: ...
    def RenewTransaction(self, request: coordinator_pb2.RenewTransactionRequest, context: Any) -> Any: ...
    def CommitTransaction(self, request: coordinator_pb2.CommitTransactionRequest, context: Any) -> Any: ...
    def AbortTransaction(self, request: coordinator_pb2.AbortTransactionRequest, context: Any) -> Any: ...
    def ResolveTransaction(self, request: coordinator_pb2.ResolveTransactionRequest, context: Any) -> Any: ...
    def CommitOffsets(self, request: coordinator_pb2.CommitOffsetsRequest, context: Any) -> Any: ...
    def FetchOffsets(self, request: coordinator_pb2.FetchOffsetsRequest, context: Any) -> Any: ...
    def SendOffsets(self, request: coordinator_pb2.SendOffsetsRequest, context: Any) -> Any: ...
    def GroupHeartbeat(self, request: coordinator_pb2.GroupHeartbeatRequest, context: Any) -> Any: ...
    def WriteGroupMarkers(self, request: coordinator_pb2.WriteGroupMarkersRequest, context: Any) -> Any: ...
    def OpenChannelPartition(self, request: coordinator_pb2.OpenChannelPartitionRequest, context: Any) -> Any: ...
    def WriteChannelState(self, request: coordinator_pb2.WriteChannelStateRequest, context: Any) -> Any: ...
    def SendChannelAcks(self, request: coordinator_pb2.SendChannelAcksRequest, context: Any) -> Any: ...
    def ListTransactions(self, request: coordinator_pb2.ListTransactionsRequest, context: Any) -> Any: ...
    def DescribeTransaction(self, request: coordinator_pb2.DescribeTransactionRequest, context: Any) -> Any: ...
    def ForceAbort(self, request: coordinator_pb2.ForceAbortRequest, context: Any) -> Any: ...
    def ListGroups(self, request: coordinator_pb2.ListGroupsRequest, context: Any) -> Any: ...
    def DescribeGroup(self, request: coordinator_pb2.DescribeGroupRequest, context: Any) -> Any: ...
    def DeleteOffsets(self, request: coordinator_pb2.DeleteOffsetsRequest, context: Any) -> Any: ...
    def DrainCoordinator(self, request: coordinator_pb2.DrainCoordinatorRequest, context: Any) -> Any: ...
    def Connect(self, request_iterator: Any, context: Any) -> Any: ...

def add_CoordinatorServicer_to_server(servicer: Any, server: Any) -> None: ...
