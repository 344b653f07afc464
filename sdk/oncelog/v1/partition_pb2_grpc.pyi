"""Types of oncelog/v1/partition.proto, written by scripts/gen_protos.py: not to be edited.

`XStub(channel)` of a `grpc.Channel` answers at once. With a `grpc.aio.Channel` each call is awaited: then say so with
`cast("XAsyncStub", XStub(channel))`; `XAsyncStub` exists for type checkers only.
"""

from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from oncelog.v1 import link_pb2
from oncelog.v1 import partition_pb2
from oncelog.v1 import placement_pb2

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

class PartitionLeaderStub:
    def __init__(self, channel: Any) -> None: ...
    Produce: _Call[partition_pb2.ProduceRequest, partition_pb2.ProduceReply]
    Fetch: _Call[partition_pb2.FetchRequest, partition_pb2.FetchReply]
    ProduceRecords: _Call[partition_pb2.ProduceRecordsRequest, partition_pb2.ProduceRecordsReply]
    FetchRecords: _Call[partition_pb2.FetchRecordsRequest, partition_pb2.FetchRecordsReply]
    ListOffsets: _Call[partition_pb2.ListOffsetsRequest, partition_pb2.ListOffsetsReply]
    OffsetForLeaderEpoch: _Call[partition_pb2.OffsetForLeaderEpochRequest, partition_pb2.OffsetForLeaderEpochReply]
    GetProducerState: _Call[partition_pb2.GetProducerStateRequest, partition_pb2.GetProducerStateReply]
    DescribeProducers: _Call[partition_pb2.DescribeProducersRequest, partition_pb2.DescribeProducersReply]
    DeleteRecords: _Call[partition_pb2.DeleteRecordsRequest, partition_pb2.DeleteRecordsReply]
    CancelDelayed: _Call[partition_pb2.CancelDelayedRequest, partition_pb2.CancelDelayedReply]
    DescribeDelayed: _Call[partition_pb2.DescribeDelayedRequest, partition_pb2.DescribeDelayedReply]
    GetMetadata: _Call[partition_pb2.GetMetadataRequest, partition_pb2.GetMetadataReply]
    CreateTopic: _Call[partition_pb2.CreateTopicRequest, partition_pb2.CreateTopicReply]
    DeleteTopic: _Call[partition_pb2.DeleteTopicRequest, partition_pb2.DeleteTopicReply]
    AlterTopic: _Call[partition_pb2.AlterTopicRequest, partition_pb2.AlterTopicReply]
    DescribeTopicConfigs: _Call[partition_pb2.DescribeTopicConfigsRequest, partition_pb2.DescribeTopicConfigsReply]
    DescribePartitions: _Call[partition_pb2.DescribePartitionsRequest, partition_pb2.DescribePartitionsReply]
    DrainBroker: _Call[partition_pb2.DrainBrokerRequest, partition_pb2.DrainBrokerReply]
    ReassignPartitions: _Call[placement_pb2.ReassignPartitionsRequest, placement_pb2.ReassignPartitionsReply]
    ListReassignments: _Call[placement_pb2.ListReassignmentsRequest, placement_pb2.ListReassignmentsReply]
    TransferLeadership: _Call[placement_pb2.TransferLeadershipRequest, placement_pb2.TransferLeadershipReply]
    SurveyReplicas: _Call[placement_pb2.SurveyReplicasRequest, placement_pb2.SurveyReplicasReply]
    ElectUnclean: _Call[placement_pb2.ElectUncleanRequest, placement_pb2.ElectUncleanReply]
    DecommissionBrokers: _Call[placement_pb2.DecommissionBrokersRequest, placement_pb2.DecommissionBrokersReply]
    Replicate: _Call[partition_pb2.ReplicateRequest, partition_pb2.ReplicateReply]
    WriteTxnMarkers: _Call[partition_pb2.WriteTxnMarkersRequest, partition_pb2.WriteTxnMarkersReply]
    SyncReplica: _Call[partition_pb2.SyncReplicaRequest, partition_pb2.SyncReplicaReply]
    ReportBroker: _Call[partition_pb2.ReportBrokerRequest, partition_pb2.ReportBrokerReply]
    Ping: _Call[partition_pb2.PingRequest, partition_pb2.PingReply]
    ReplicaStatus: _Call[partition_pb2.ReplicaStatusRequest, partition_pb2.ReplicaStatusReply]
    Connect: _Stream[link_pb2.Envelope, link_pb2.Envelope]

class PartitionLeaderAsyncStub:
    def __init__(self, channel: Any) -> None: ...
    Produce: _AsyncCall[partition_pb2.ProduceRequest, partition_pb2.ProduceReply]
    Fetch: _AsyncCall[partition_pb2.FetchRequest, partition_pb2.FetchReply]
    ProduceRecords: _AsyncCall[partition_pb2.ProduceRecordsRequest, partition_pb2.ProduceRecordsReply]
    FetchRecords: _AsyncCall[partition_pb2.FetchRecordsRequest, partition_pb2.FetchRecordsReply]
    ListOffsets: _AsyncCall[partition_pb2.ListOffsetsRequest, partition_pb2.ListOffsetsReply]
    OffsetForLeaderEpoch: _AsyncCall[partition_pb2.OffsetForLeaderEpochRequest, partition_pb2.OffsetForLeaderEpochReply]
    GetProducerState: _AsyncCall[partition_pb2.GetProducerStateRequest, partition_pb2.GetProducerStateReply]
    DescribeProducers: _AsyncCall[partition_pb2.DescribeProducersRequest, partition_pb2.DescribeProducersReply]
    DeleteRecords: _AsyncCall[partition_pb2.DeleteRecordsRequest, partition_pb2.DeleteRecordsReply]
    CancelDelayed: _AsyncCall[partition_pb2.CancelDelayedRequest, partition_pb2.CancelDelayedReply]
    DescribeDelayed: _AsyncCall[partition_pb2.DescribeDelayedRequest, partition_pb2.DescribeDelayedReply]
    GetMetadata: _AsyncCall[partition_pb2.GetMetadataRequest, partition_pb2.GetMetadataReply]
    CreateTopic: _AsyncCall[partition_pb2.CreateTopicRequest, partition_pb2.CreateTopicReply]
    DeleteTopic: _AsyncCall[partition_pb2.DeleteTopicRequest, partition_pb2.DeleteTopicReply]
    AlterTopic: _AsyncCall[partition_pb2.AlterTopicRequest, partition_pb2.AlterTopicReply]
    DescribeTopicConfigs: _AsyncCall[partition_pb2.DescribeTopicConfigsRequest, partition_pb2.DescribeTopicConfigsReply]
    DescribePartitions: _AsyncCall[partition_pb2.DescribePartitionsRequest, partition_pb2.DescribePartitionsReply]
    DrainBroker: _AsyncCall[partition_pb2.DrainBrokerRequest, partition_pb2.DrainBrokerReply]
    ReassignPartitions: _AsyncCall[placement_pb2.ReassignPartitionsRequest, placement_pb2.ReassignPartitionsReply]
    ListReassignments: _AsyncCall[placement_pb2.ListReassignmentsRequest, placement_pb2.ListReassignmentsReply]
    TransferLeadership: _AsyncCall[placement_pb2.TransferLeadershipRequest, placement_pb2.TransferLeadershipReply]
    SurveyReplicas: _AsyncCall[placement_pb2.SurveyReplicasRequest, placement_pb2.SurveyReplicasReply]
    ElectUnclean: _AsyncCall[placement_pb2.ElectUncleanRequest, placement_pb2.ElectUncleanReply]
    DecommissionBrokers: _AsyncCall[placement_pb2.DecommissionBrokersRequest, placement_pb2.DecommissionBrokersReply]
    Replicate: _AsyncCall[partition_pb2.ReplicateRequest, partition_pb2.ReplicateReply]
    WriteTxnMarkers: _AsyncCall[partition_pb2.WriteTxnMarkersRequest, partition_pb2.WriteTxnMarkersReply]
    SyncReplica: _AsyncCall[partition_pb2.SyncReplicaRequest, partition_pb2.SyncReplicaReply]
    ReportBroker: _AsyncCall[partition_pb2.ReportBrokerRequest, partition_pb2.ReportBrokerReply]
    Ping: _AsyncCall[partition_pb2.PingRequest, partition_pb2.PingReply]
    ReplicaStatus: _AsyncCall[partition_pb2.ReplicaStatusRequest, partition_pb2.ReplicaStatusReply]
    Connect: _AsyncStream[link_pb2.Envelope, link_pb2.Envelope]

class PartitionLeaderServicer:
    def Produce(self, request: partition_pb2.ProduceRequest, context: Any) -> Any: ...
    def Fetch(self, request: partition_pb2.FetchRequest, context: Any) -> Any: ...
    def ProduceRecords(self, request: partition_pb2.ProduceRecordsRequest, context: Any) -> Any: ...
    def FetchRecords(self, request: partition_pb2.FetchRecordsRequest, context: Any) -> Any: ...
    def ListOffsets(self, request: partition_pb2.ListOffsetsRequest, context: Any) -> Any: ...
    def OffsetForLeaderEpoch(self, request: partition_pb2.OffsetForLeaderEpochRequest, context: Any) -> Any: ...
    def GetProducerState(self, request: partition_pb2.GetProducerStateRequest, context: Any) -> Any: ...
    def DescribeProducers(self, request: partition_pb2.DescribeProducersRequest, context: Any) -> Any: ...
    def DeleteRecords(self, request: partition_pb2.DeleteRecordsRequest, context: Any) -> Any: ...
    def CancelDelayed(self, request: partition_pb2.CancelDelayedRequest, context: Any) -> Any: ...
    def DescribeDelayed(self, request: partition_pb2.DescribeDelayedRequest, context: Any) -> Any: ...
    def GetMetadata(self, request: partition_pb2.GetMetadataRequest, context: Any) -> Any: ...
    def CreateTopic(self, request: partition_pb2.CreateTopicRequest, context: Any) -> Any: ...
    def DeleteTopic(self, request: partition_pb2.DeleteTopicRequest, context: Any) -> Any: ...
    def AlterTopic(self, request: partition_pb2.AlterTopicRequest, context: Any) -> Any: ...
    def DescribeTopicConfigs(self, request: partition_pb2.DescribeTopicConfigsRequest, context: Any) -> Any: ...
    def DescribePartitions(self, request: partition_pb2.DescribePartitionsRequest, context: Any) -> Any: ...
    def DrainBroker(self, request: partition_pb2.DrainBrokerRequest, context: Any) -> Any: ...
    def ReassignPartitions(self, request: placement_pb2.ReassignPartitionsRequest, context: Any) -> Any: ...
    def ListReassignments(self, request: placement_pb2.ListReassignmentsRequest, context: Any) -> Any: ...
    def TransferLeadership(self, request: placement_pb2.TransferLeadershipRequest, context: Any) -> Any: ...
    def SurveyReplicas(self, request: placement_pb2.SurveyReplicasRequest, context: Any) -> Any: ...
    def ElectUnclean(self, request: placement_pb2.ElectUncleanRequest, context: Any) -> Any: ...
    def DecommissionBrokers(self, request: placement_pb2.DecommissionBrokersRequest, context: Any) -> Any: ...
    def Replicate(self, request: partition_pb2.ReplicateRequest, context: Any) -> Any: ...
    def WriteTxnMarkers(self, request: partition_pb2.WriteTxnMarkersRequest, context: Any) -> Any: ...
    def SyncReplica(self, request: partition_pb2.SyncReplicaRequest, context: Any) -> Any: ...
    def ReportBroker(self, request: partition_pb2.ReportBrokerRequest, context: Any) -> Any: ...
    def Ping(self, request: partition_pb2.PingRequest, context: Any) -> Any: ...
    def ReplicaStatus(self, request: partition_pb2.ReplicaStatusRequest, context: Any) -> Any: ...
    def Connect(self, request_iterator: Any, context: Any) -> Any: ...

def add_PartitionLeaderServicer_to_server(servicer: Any, server: Any) -> None: ...
