"""The one table of remote methods: name -> request type, reply type, and which bulk field travels beside the message.

Both worlds use it: links carry `header` (the message without its bulk field) and `payload`; unary gRPC carries the
whole message.  `MethodSpec` converts between the two, so a handler is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import DecodeError, Message

from oncelog import errors
from oncelog.ports import Transport
from oncelog.types import Buffer
from oncelog.v1 import channel_pb2 as ch
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import pid_allocator_pb2 as al
from oncelog.v1 import placement_pb2 as pl
from oncelog.v1 import security_pb2 as se

Req = TypeVar("Req", bound=Message)
Rep = TypeVar("Rep", bound=Message)


@dataclass(frozen=True, slots=True)
class MethodSpec(Generic[Req, Rep]):
    """One remote method. `bulk` names the `bytes` field that travels as payload, or is empty."""

    service: str
    method: str
    request: type[Req]
    reply: type[Rep]
    request_bulk: str = ""
    reply_bulk: str = ""

    @property
    def name(self) -> str:
        """`Service.Method`, as it stands in a frame."""
        return f"{self.service}.{self.method}"

    async def call(
        self, transport: Transport, address: str, request: Req, timeout_ms: int, payload: Buffer = b""
    ) -> tuple[Rep, Buffer]:
        """Calls the method at `address`. Raises as `Transport.call` does, and `InvalidResponseError`."""
        header, bulk = await transport.call(address, self.name, request.SerializeToString(), payload, timeout_ms)
        try:
            return self.reply.FromString(header), bulk
        except DecodeError as error:
            raise errors.InvalidResponseError(f"the answer to {self.name} cannot be parsed", address=address) from error

    def decode_request(self, header: bytes) -> Req:
        """Raises `InvalidRequestError` when the bytes are no such message."""
        try:
            return self.request.FromString(header)
        except DecodeError as error:
            raise errors.InvalidRequestError(f"the request of {self.name} cannot be parsed") from error


def _leader(method: str, request: type[Req], reply: type[Rep], rb: str = "", pb: str = "") -> MethodSpec[Req, Rep]:
    return MethodSpec("PartitionLeader", method, request, reply, rb, pb)


def _coordinator(method: str, request: type[Req], reply: type[Rep]) -> MethodSpec[Req, Rep]:
    return MethodSpec("Coordinator", method, request, reply)


def _security(method: str, request: type[Req], reply: type[Rep]) -> MethodSpec[Req, Rep]:
    return MethodSpec("Security", method, request, reply)


def _channels(method: str, request: type[Req], reply: type[Rep], pb: str = "") -> MethodSpec[Req, Rep]:
    return MethodSpec("Channels", method, request, reply, "", pb)


PRODUCE: Final = _leader("Produce", pa.ProduceRequest, pa.ProduceReply, rb="batches")
FETCH: Final = _leader("Fetch", pa.FetchRequest, pa.FetchReply, pb="batches")
PRODUCE_RECORDS: Final = _leader("ProduceRecords", pa.ProduceRecordsRequest, pa.ProduceRecordsReply)
FETCH_RECORDS: Final = _leader("FetchRecords", pa.FetchRecordsRequest, pa.FetchRecordsReply)
LIST_OFFSETS: Final = _leader("ListOffsets", pa.ListOffsetsRequest, pa.ListOffsetsReply)
OFFSET_FOR_LEADER_EPOCH: Final = _leader(
    "OffsetForLeaderEpoch", pa.OffsetForLeaderEpochRequest, pa.OffsetForLeaderEpochReply
)
GET_PRODUCER_STATE: Final = _leader("GetProducerState", pa.GetProducerStateRequest, pa.GetProducerStateReply)
DESCRIBE_PRODUCERS: Final = _leader("DescribeProducers", pa.DescribeProducersRequest, pa.DescribeProducersReply)
DELETE_RECORDS: Final = _leader("DeleteRecords", pa.DeleteRecordsRequest, pa.DeleteRecordsReply)
CANCEL_DELAYED: Final = _leader("CancelDelayed", pa.CancelDelayedRequest, pa.CancelDelayedReply)
DESCRIBE_DELAYED: Final = _leader("DescribeDelayed", pa.DescribeDelayedRequest, pa.DescribeDelayedReply)
GET_METADATA: Final = _leader("GetMetadata", pa.GetMetadataRequest, pa.GetMetadataReply)
CREATE_TOPIC: Final = _leader("CreateTopic", pa.CreateTopicRequest, pa.CreateTopicReply)
DELETE_TOPIC: Final = _leader("DeleteTopic", pa.DeleteTopicRequest, pa.DeleteTopicReply)
ALTER_TOPIC: Final = _leader("AlterTopic", pa.AlterTopicRequest, pa.AlterTopicReply)
DESCRIBE_TOPIC_CONFIGS: Final = _leader(
    "DescribeTopicConfigs", pa.DescribeTopicConfigsRequest, pa.DescribeTopicConfigsReply
)
DESCRIBE_PARTITIONS: Final = _leader("DescribePartitions", pa.DescribePartitionsRequest, pa.DescribePartitionsReply)
DRAIN_BROKER: Final = _leader("DrainBroker", pa.DrainBrokerRequest, pa.DrainBrokerReply)
REASSIGN_PARTITIONS: Final = _leader("ReassignPartitions", pl.ReassignPartitionsRequest, pl.ReassignPartitionsReply)
LIST_REASSIGNMENTS: Final = _leader("ListReassignments", pl.ListReassignmentsRequest, pl.ListReassignmentsReply)
SURVEY_REPLICAS: Final = _leader("SurveyReplicas", pl.SurveyReplicasRequest, pl.SurveyReplicasReply)
ELECT_UNCLEAN: Final = _leader("ElectUnclean", pl.ElectUncleanRequest, pl.ElectUncleanReply)
TRANSFER_LEADERSHIP: Final = _leader("TransferLeadership", pl.TransferLeadershipRequest, pl.TransferLeadershipReply)
DECOMMISSION_BROKERS: Final = _leader("DecommissionBrokers", pl.DecommissionBrokersRequest, pl.DecommissionBrokersReply)
REPLICATE: Final = _leader("Replicate", pa.ReplicateRequest, pa.ReplicateReply, rb="batches")
WRITE_TXN_MARKERS: Final = _leader("WriteTxnMarkers", pa.WriteTxnMarkersRequest, pa.WriteTxnMarkersReply)
SYNC_REPLICA: Final = _leader("SyncReplica", pa.SyncReplicaRequest, pa.SyncReplicaReply)
REPORT_BROKER: Final = _leader("ReportBroker", pa.ReportBrokerRequest, pa.ReportBrokerReply)
PING: Final = _leader("Ping", pa.PingRequest, pa.PingReply)
REPLICA_STATUS: Final = _leader("ReplicaStatus", pa.ReplicaStatusRequest, pa.ReplicaStatusReply)

INIT_PRODUCER_ID: Final = _coordinator("InitProducerId", co.InitProducerIdRequest, co.InitProducerIdReply)
ENROL_PARTITIONS: Final = _coordinator("EnrolPartitions", co.EnrolPartitionsRequest, co.EnrolPartitionsReply)
END_TRANSACTION: Final = _coordinator("EndTransaction", co.EndTransactionRequest, co.EndTransactionReply)
GET_OUTCOME: Final = _coordinator("GetOutcome", co.GetOutcomeRequest, co.GetOutcomeReply)
JOIN_TRANSACTION: Final = _coordinator("JoinTransaction", co.JoinTransactionRequest, co.JoinTransactionReply)
RENEW_TRANSACTION: Final = _coordinator("RenewTransaction", co.RenewTransactionRequest, co.RenewTransactionReply)
COMMIT_TRANSACTION: Final = _coordinator("CommitTransaction", co.CommitTransactionRequest, co.CommitTransactionReply)
ABORT_TRANSACTION: Final = _coordinator("AbortTransaction", co.AbortTransactionRequest, co.AbortTransactionReply)
RESOLVE_TRANSACTION: Final = _coordinator(
    "ResolveTransaction", co.ResolveTransactionRequest, co.ResolveTransactionReply
)
COMMIT_OFFSETS: Final = _coordinator("CommitOffsets", co.CommitOffsetsRequest, co.CommitOffsetsReply)
FETCH_OFFSETS: Final = _coordinator("FetchOffsets", co.FetchOffsetsRequest, co.FetchOffsetsReply)
SEND_OFFSETS: Final = _coordinator("SendOffsets", co.SendOffsetsRequest, co.SendOffsetsReply)
GROUP_HEARTBEAT: Final = _coordinator("GroupHeartbeat", co.GroupHeartbeatRequest, co.GroupHeartbeatReply)
WRITE_GROUP_MARKERS: Final = _coordinator("WriteGroupMarkers", co.WriteGroupMarkersRequest, co.WriteGroupMarkersReply)
OPEN_CHANNEL_PARTITION: Final = _coordinator(
    "OpenChannelPartition", co.OpenChannelPartitionRequest, co.OpenChannelPartitionReply
)
WRITE_CHANNEL_STATE: Final = _coordinator("WriteChannelState", co.WriteChannelStateRequest, co.WriteChannelStateReply)
SEND_CHANNEL_ACKS: Final = _coordinator("SendChannelAcks", co.SendChannelAcksRequest, co.SendChannelAcksReply)
LIST_TRANSACTIONS: Final = _coordinator("ListTransactions", co.ListTransactionsRequest, co.ListTransactionsReply)
DESCRIBE_TRANSACTION: Final = _coordinator(
    "DescribeTransaction", co.DescribeTransactionRequest, co.DescribeTransactionReply
)
FORCE_ABORT: Final = _coordinator("ForceAbort", co.ForceAbortRequest, co.ForceAbortReply)
LIST_GROUPS: Final = _coordinator("ListGroups", co.ListGroupsRequest, co.ListGroupsReply)
DESCRIBE_GROUP: Final = _coordinator("DescribeGroup", co.DescribeGroupRequest, co.DescribeGroupReply)
DELETE_OFFSETS: Final = _coordinator("DeleteOffsets", co.DeleteOffsetsRequest, co.DeleteOffsetsReply)
DRAIN_COORDINATOR: Final = _coordinator("DrainCoordinator", co.DrainCoordinatorRequest, co.DrainCoordinatorReply)

CREATE_ACLS: Final = _security("CreateAcls", se.CreateAclsRequest, se.CreateAclsReply)
DELETE_ACLS: Final = _security("DeleteAcls", se.DeleteAclsRequest, se.DeleteAclsReply)
LIST_ACLS: Final = _security("ListAcls", se.ListAclsRequest, se.ListAclsReply)
CHECK_ACL: Final = _security("CheckAcl", se.CheckAclRequest, se.CheckAclReply)
ALTER_USER: Final = _security("AlterUser", se.AlterUserRequest, se.AlterUserReply)
DELETE_USER: Final = _security("DeleteUser", se.DeleteUserRequest, se.DeleteUserReply)
LIST_USERS: Final = _security("ListUsers", se.ListUsersRequest, se.ListUsersReply)
ALTER_QUOTAS: Final = _security("AlterQuotas", se.AlterQuotasRequest, se.AlterQuotasReply)
LIST_QUOTAS: Final = _security("ListQuotas", se.ListQuotasRequest, se.ListQuotasReply)
DESCRIBE_QUOTA: Final = _security("DescribeQuota", se.DescribeQuotaRequest, se.DescribeQuotaReply)

CREATE_CHANNEL: Final = _channels("CreateChannel", ch.CreateChannelRequest, ch.CreateChannelReply)
ALTER_CHANNEL: Final = _channels("AlterChannel", ch.AlterChannelRequest, ch.AlterChannelReply)
DELETE_CHANNEL: Final = _channels("DeleteChannel", ch.DeleteChannelRequest, ch.DeleteChannelReply)
LIST_CHANNELS: Final = _channels("ListChannels", ch.ListChannelsRequest, ch.ListChannelsReply)
RECEIVE: Final = _channels("Receive", ch.ReceiveRequest, ch.ReceiveReply, pb="batches")
SETTLE: Final = _channels("Settle", ch.SettleRequest, ch.SettleReply)
CLAIM: Final = _channels("Claim", ch.ClaimRequest, ch.ReceiveReply, pb="batches")
DESCRIBE_CHANNEL: Final = _channels("DescribeChannel", ch.DescribeChannelRequest, ch.DescribeChannelReply)
SEEK_CHANNEL: Final = _channels("SeekChannel", ch.SeekChannelRequest, ch.SeekChannelReply)

ALLOCATE_PRODUCER_IDS: Final = MethodSpec(
    "PidAllocator", "AllocateProducerIds", al.AllocateProducerIdsRequest, al.AllocateProducerIdsReply
)

AnyMethod = MethodSpec[Any, Any]
"""One of several methods, where their types differ."""
ALL: Final[dict[str, AnyMethod]] = {
    spec.name: spec for spec in list(globals().values()) if isinstance(spec, MethodSpec)
}
