from oncelog.v1 import link_pb2 as _link_pb2
from oncelog.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EndWait(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    END_WAIT_UNSPECIFIED: _ClassVar[EndWait]
    END_WAIT_DECIDED: _ClassVar[EndWait]
    END_WAIT_VISIBLE: _ClassVar[EndWait]
END_WAIT_UNSPECIFIED: EndWait
END_WAIT_DECIDED: EndWait
END_WAIT_VISIBLE: EndWait

class InitProducerIdRequest(_message.Message):
    __slots__ = ("transactional_id", "transaction_timeout_ms", "nonce", "expected_producer_id", "expected_producer_epoch")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    transaction_timeout_ms: int
    nonce: str
    expected_producer_id: int
    expected_producer_epoch: int
    def __init__(self, transactional_id: _Optional[str] = ..., transaction_timeout_ms: _Optional[int] = ..., nonce: _Optional[str] = ..., expected_producer_id: _Optional[int] = ..., expected_producer_epoch: _Optional[int] = ...) -> None: ...

class InitProducerIdReply(_message.Message):
    __slots__ = ("producer_id", "producer_epoch", "next_txn_no", "txn_shard", "session_token")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NEXT_TXN_NO_FIELD_NUMBER: _ClassVar[int]
    TXN_SHARD_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    next_txn_no: int
    txn_shard: int
    session_token: bytes
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., next_txn_no: _Optional[int] = ..., txn_shard: _Optional[int] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class TransactionName(_message.Message):
    __slots__ = ("transactional_id", "txn_shard", "txn_producer_id", "txn_no", "producer_epoch", "session_token")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_SHARD_FIELD_NUMBER: _ClassVar[int]
    TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    txn_shard: int
    txn_producer_id: int
    txn_no: int
    producer_epoch: int
    session_token: bytes
    def __init__(self, transactional_id: _Optional[str] = ..., txn_shard: _Optional[int] = ..., txn_producer_id: _Optional[int] = ..., txn_no: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class EnrolPartitionsRequest(_message.Message):
    __slots__ = ("name", "partitions", "groups")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    name: TransactionName
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[_Union[TransactionName, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., groups: _Optional[_Iterable[str]] = ...) -> None: ...

class EnrolPartitionsReply(_message.Message):
    __slots__ = ("coordinator_epoch",)
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    coordinator_epoch: int
    def __init__(self, coordinator_epoch: _Optional[int] = ...) -> None: ...

class PartitionCount(_message.Message):
    __slots__ = ("topic_id", "partition", "records")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    records: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., records: _Optional[int] = ...) -> None: ...

class EndTransactionRequest(_message.Message):
    __slots__ = ("name", "outcome", "wait", "counts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    name: TransactionName
    outcome: _types_pb2.TransactionOutcome
    wait: EndWait
    counts: _containers.RepeatedCompositeFieldContainer[PartitionCount]
    def __init__(self, name: _Optional[_Union[TransactionName, _Mapping]] = ..., outcome: _Optional[_Union[_types_pb2.TransactionOutcome, str]] = ..., wait: _Optional[_Union[EndWait, str]] = ..., counts: _Optional[_Iterable[_Union[PartitionCount, _Mapping]]] = ...) -> None: ...

class EndTransactionReply(_message.Message):
    __slots__ = ("outcome", "visible")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_FIELD_NUMBER: _ClassVar[int]
    outcome: _types_pb2.TransactionOutcome
    visible: bool
    def __init__(self, outcome: _Optional[_Union[_types_pb2.TransactionOutcome, str]] = ..., visible: bool = ...) -> None: ...

class GetOutcomeRequest(_message.Message):
    __slots__ = ("transactional_id", "txn_no")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    txn_no: int
    def __init__(self, transactional_id: _Optional[str] = ..., txn_no: _Optional[int] = ...) -> None: ...

class GetOutcomeReply(_message.Message):
    __slots__ = ("outcome", "visible")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_FIELD_NUMBER: _ClassVar[int]
    outcome: _types_pb2.TransactionOutcome
    visible: bool
    def __init__(self, outcome: _Optional[_Union[_types_pb2.TransactionOutcome, str]] = ..., visible: bool = ...) -> None: ...

class CommitToken(_message.Message):
    __slots__ = ("app_id", "batch_id", "expires")
    APP_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    app_id: str
    batch_id: int
    expires: bool
    def __init__(self, app_id: _Optional[str] = ..., batch_id: _Optional[int] = ..., expires: bool = ...) -> None: ...

class JoinTransactionRequest(_message.Message):
    __slots__ = ("transactional_id", "owner_run", "token", "write_attempt", "task_attempt", "lease_ms", "max_duration_ms")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_RUN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WRITE_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TASK_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    owner_run: str
    token: CommitToken
    write_attempt: str
    task_attempt: str
    lease_ms: int
    max_duration_ms: int
    def __init__(self, transactional_id: _Optional[str] = ..., owner_run: _Optional[str] = ..., token: _Optional[_Union[CommitToken, _Mapping]] = ..., write_attempt: _Optional[str] = ..., task_attempt: _Optional[str] = ..., lease_ms: _Optional[int] = ..., max_duration_ms: _Optional[int] = ...) -> None: ...

class JoinTransactionReply(_message.Message):
    __slots__ = ("already_committed", "committed_rows", "producer_id", "producer_epoch", "txn_producer_id", "txn_no", "txn_shard", "session_token")
    ALREADY_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_ROWS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    TXN_SHARD_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    already_committed: bool
    committed_rows: int
    producer_id: int
    producer_epoch: int
    txn_producer_id: int
    txn_no: int
    txn_shard: int
    session_token: bytes
    def __init__(self, already_committed: bool = ..., committed_rows: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., txn_producer_id: _Optional[int] = ..., txn_no: _Optional[int] = ..., txn_shard: _Optional[int] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class RenewTransactionRequest(_message.Message):
    __slots__ = ("name", "owner_run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_RUN_FIELD_NUMBER: _ClassVar[int]
    name: TransactionName
    owner_run: str
    def __init__(self, name: _Optional[_Union[TransactionName, _Mapping]] = ..., owner_run: _Optional[str] = ...) -> None: ...

class RenewTransactionReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Winner(_message.Message):
    __slots__ = ("producer_id", "rows", "counts")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    rows: int
    counts: _containers.RepeatedCompositeFieldContainer[PartitionCount]
    def __init__(self, producer_id: _Optional[int] = ..., rows: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[PartitionCount, _Mapping]]] = ...) -> None: ...

class CommitTransactionRequest(_message.Message):
    __slots__ = ("transactional_id", "owner_run", "txn_no", "token", "winners", "wait", "write_attempt", "session_token")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_RUN_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WINNERS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    WRITE_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    owner_run: str
    txn_no: int
    token: CommitToken
    winners: _containers.RepeatedCompositeFieldContainer[Winner]
    wait: EndWait
    write_attempt: str
    session_token: bytes
    def __init__(self, transactional_id: _Optional[str] = ..., owner_run: _Optional[str] = ..., txn_no: _Optional[int] = ..., token: _Optional[_Union[CommitToken, _Mapping]] = ..., winners: _Optional[_Iterable[_Union[Winner, _Mapping]]] = ..., wait: _Optional[_Union[EndWait, str]] = ..., write_attempt: _Optional[str] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class CommitTransactionReply(_message.Message):
    __slots__ = ("already_committed", "committed_rows", "txn_no")
    ALREADY_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_ROWS_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    already_committed: bool
    committed_rows: int
    txn_no: int
    def __init__(self, already_committed: bool = ..., committed_rows: _Optional[int] = ..., txn_no: _Optional[int] = ...) -> None: ...

class AbortTransactionRequest(_message.Message):
    __slots__ = ("transactional_id", "owner_run", "txn_no", "token", "session_token")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_RUN_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    owner_run: str
    txn_no: int
    token: CommitToken
    session_token: bytes
    def __init__(self, transactional_id: _Optional[str] = ..., owner_run: _Optional[str] = ..., txn_no: _Optional[int] = ..., token: _Optional[_Union[CommitToken, _Mapping]] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class AbortTransactionReply(_message.Message):
    __slots__ = ("aborted",)
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    aborted: bool
    def __init__(self, aborted: bool = ...) -> None: ...

class ResolveTransactionRequest(_message.Message):
    __slots__ = ("txn_shard", "txn_producer_id", "txn_no", "topic_id", "partition", "known_coordinator_epoch")
    TXN_SHARD_FIELD_NUMBER: _ClassVar[int]
    TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    KNOWN_COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    txn_shard: int
    txn_producer_id: int
    txn_no: int
    topic_id: str
    partition: int
    known_coordinator_epoch: int
    def __init__(self, txn_shard: _Optional[int] = ..., txn_producer_id: _Optional[int] = ..., txn_no: _Optional[int] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., known_coordinator_epoch: _Optional[int] = ...) -> None: ...

class ResolveTransactionReply(_message.Message):
    __slots__ = ("outcome", "coordinator_epoch", "has_winners", "winners", "expected_records", "session_epoch")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HAS_WINNERS_FIELD_NUMBER: _ClassVar[int]
    WINNERS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    outcome: _types_pb2.TransactionOutcome
    coordinator_epoch: int
    has_winners: bool
    winners: _containers.RepeatedScalarFieldContainer[int]
    expected_records: int
    session_epoch: int
    def __init__(self, outcome: _Optional[_Union[_types_pb2.TransactionOutcome, str]] = ..., coordinator_epoch: _Optional[int] = ..., has_winners: bool = ..., winners: _Optional[_Iterable[int]] = ..., expected_records: _Optional[int] = ..., session_epoch: _Optional[int] = ...) -> None: ...

class OffsetEntry(_message.Message):
    __slots__ = ("topic_id", "topic", "partition", "offset", "leader_epoch", "metadata", "epoch_known")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    EPOCH_KNOWN_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    epoch_known: bool
    def __init__(self, topic_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., metadata: _Optional[str] = ..., epoch_known: bool = ...) -> None: ...

class GroupMember(_message.Message):
    __slots__ = ("group_id", "member_id", "member_epoch")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    member_epoch: int
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ...) -> None: ...

class CommitOffsetsRequest(_message.Message):
    __slots__ = ("member", "commit_sequence", "offsets", "call")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    COMMIT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    member: GroupMember
    commit_sequence: int
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetEntry]
    call: _types_pb2.CallIdentity
    def __init__(self, member: _Optional[_Union[GroupMember, _Mapping]] = ..., commit_sequence: _Optional[int] = ..., offsets: _Optional[_Iterable[_Union[OffsetEntry, _Mapping]]] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class CommitOffsetsReply(_message.Message):
    __slots__ = ("errors",)
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedCompositeFieldContainer[_types_pb2.PartitionError]
    def __init__(self, errors: _Optional[_Iterable[_Union[_types_pb2.PartitionError, _Mapping]]] = ...) -> None: ...

class FetchOffsetsRequest(_message.Message):
    __slots__ = ("group_id", "partitions", "require_stable")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_STABLE_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    require_stable: bool
    def __init__(self, group_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., require_stable: bool = ...) -> None: ...

class FetchOffsetsReply(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetEntry]
    def __init__(self, offsets: _Optional[_Iterable[_Union[OffsetEntry, _Mapping]]] = ...) -> None: ...

class SendOffsetsRequest(_message.Message):
    __slots__ = ("name", "member", "commit_sequence", "offsets")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    COMMIT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    name: TransactionName
    member: GroupMember
    commit_sequence: int
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetEntry]
    def __init__(self, name: _Optional[_Union[TransactionName, _Mapping]] = ..., member: _Optional[_Union[GroupMember, _Mapping]] = ..., commit_sequence: _Optional[int] = ..., offsets: _Optional[_Iterable[_Union[OffsetEntry, _Mapping]]] = ...) -> None: ...

class SendOffsetsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GroupHeartbeatRequest(_message.Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "assignment_received", "assignment_applied", "subscription", "max_wait_ms", "by_operator")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_APPLIED_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    BY_OPERATOR_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    member_epoch: int
    assignment_received: int
    assignment_applied: int
    subscription: GroupSubscription
    max_wait_ms: int
    by_operator: bool
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., assignment_received: _Optional[int] = ..., assignment_applied: _Optional[int] = ..., subscription: _Optional[_Union[GroupSubscription, _Mapping]] = ..., max_wait_ms: _Optional[int] = ..., by_operator: bool = ...) -> None: ...

class GroupSubscription(_message.Message):
    __slots__ = ("version", "topics", "pattern", "assignor", "rebalance_timeout_ms", "instance_id", "rack", "client_id")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    version: int
    topics: _containers.RepeatedScalarFieldContainer[str]
    pattern: str
    assignor: str
    rebalance_timeout_ms: int
    instance_id: str
    rack: str
    client_id: str
    def __init__(self, version: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ..., pattern: _Optional[str] = ..., assignor: _Optional[str] = ..., rebalance_timeout_ms: _Optional[int] = ..., instance_id: _Optional[str] = ..., rack: _Optional[str] = ..., client_id: _Optional[str] = ...) -> None: ...

class GroupHeartbeatReply(_message.Message):
    __slots__ = ("member_epoch", "heartbeat_interval_ms", "session_timeout_ms", "assignment")
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    member_epoch: int
    heartbeat_interval_ms: int
    session_timeout_ms: int
    assignment: GroupAssignment
    def __init__(self, member_epoch: _Optional[int] = ..., heartbeat_interval_ms: _Optional[int] = ..., session_timeout_ms: _Optional[int] = ..., assignment: _Optional[_Union[GroupAssignment, _Mapping]] = ...) -> None: ...

class GroupAssignment(_message.Message):
    __slots__ = ("number", "topics")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    number: int
    topics: _containers.RepeatedCompositeFieldContainer[AssignedTopic]
    def __init__(self, number: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[AssignedTopic, _Mapping]]] = ...) -> None: ...

class AssignedTopic(_message.Message):
    __slots__ = ("topic_id", "topic", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[str] = ..., topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class WriteGroupMarkersRequest(_message.Message):
    __slots__ = ("txn_shard", "coordinator_epoch", "group_id", "txn_producer_id", "txn_no", "outcome")
    TXN_SHARD_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    txn_shard: int
    coordinator_epoch: int
    group_id: str
    txn_producer_id: int
    txn_no: int
    outcome: _types_pb2.TransactionOutcome
    def __init__(self, txn_shard: _Optional[int] = ..., coordinator_epoch: _Optional[int] = ..., group_id: _Optional[str] = ..., txn_producer_id: _Optional[int] = ..., txn_no: _Optional[int] = ..., outcome: _Optional[_Union[_types_pb2.TransactionOutcome, str]] = ...) -> None: ...

class WriteGroupMarkersReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ("states", "shards")
    STATES_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[str]
    shards: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, states: _Optional[_Iterable[str]] = ..., shards: _Optional[_Iterable[int]] = ...) -> None: ...

class ListTransactionsReply(_message.Message):
    __slots__ = ("transactions", "answered")
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionInfo]
    answered: _containers.RepeatedCompositeFieldContainer[ShardAnswer]
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionInfo, _Mapping]]] = ..., answered: _Optional[_Iterable[_Union[ShardAnswer, _Mapping]]] = ...) -> None: ...

class ShardAnswer(_message.Message):
    __slots__ = ("shard", "epoch")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    shard: int
    epoch: int
    def __init__(self, shard: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class DescribeTransactionRequest(_message.Message):
    __slots__ = ("transactional_id",)
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    def __init__(self, transactional_id: _Optional[str] = ...) -> None: ...

class DescribeTransactionReply(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: TransactionInfo
    def __init__(self, transaction: _Optional[_Union[TransactionInfo, _Mapping]] = ...) -> None: ...

class TransactionInfo(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "txn_no", "state", "start_timestamp_ms", "timeout_ms", "partitions", "groups", "coordinator", "txn_shard", "owner_run", "tokens", "may_be_open")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    START_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    TXN_SHARD_FIELD_NUMBER: _ClassVar[int]
    OWNER_RUN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAY_BE_OPEN_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    txn_no: int
    state: str
    start_timestamp_ms: int
    timeout_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    groups: _containers.RepeatedScalarFieldContainer[str]
    coordinator: str
    txn_shard: int
    owner_run: str
    tokens: _containers.RepeatedCompositeFieldContainer[CommitToken]
    may_be_open: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., txn_no: _Optional[int] = ..., state: _Optional[str] = ..., start_timestamp_ms: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., groups: _Optional[_Iterable[str]] = ..., coordinator: _Optional[str] = ..., txn_shard: _Optional[int] = ..., owner_run: _Optional[str] = ..., tokens: _Optional[_Iterable[_Union[CommitToken, _Mapping]]] = ..., may_be_open: _Optional[int] = ...) -> None: ...

class ForceAbortRequest(_message.Message):
    __slots__ = ("transactional_id", "txn_no")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    txn_no: int
    def __init__(self, transactional_id: _Optional[str] = ..., txn_no: _Optional[int] = ...) -> None: ...

class ForceAbortReply(_message.Message):
    __slots__ = ("txn_no",)
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    txn_no: int
    def __init__(self, txn_no: _Optional[int] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("shards",)
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, shards: _Optional[_Iterable[int]] = ...) -> None: ...

class ListGroupsReply(_message.Message):
    __slots__ = ("groups", "answered")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupListing]
    answered: _containers.RepeatedCompositeFieldContainer[ShardAnswer]
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupListing, _Mapping]]] = ..., answered: _Optional[_Iterable[_Union[ShardAnswer, _Mapping]]] = ...) -> None: ...

class GroupListing(_message.Message):
    __slots__ = ("group_id", "group_shard", "state", "offsets", "open_transactions", "coordinator", "members")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_SHARD_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    OPEN_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    group_shard: int
    state: str
    offsets: int
    open_transactions: int
    coordinator: str
    members: int
    def __init__(self, group_id: _Optional[str] = ..., group_shard: _Optional[int] = ..., state: _Optional[str] = ..., offsets: _Optional[int] = ..., open_transactions: _Optional[int] = ..., coordinator: _Optional[str] = ..., members: _Optional[int] = ...) -> None: ...

class DescribeGroupRequest(_message.Message):
    __slots__ = ("group_id",)
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    def __init__(self, group_id: _Optional[str] = ...) -> None: ...

class DescribeGroupReply(_message.Message):
    __slots__ = ("group", "offsets", "pending", "group_epoch", "assignment_epoch", "assignor", "members", "expires_ms")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    GROUP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    group: GroupListing
    offsets: _containers.RepeatedCompositeFieldContainer[GroupOffset]
    pending: _containers.RepeatedCompositeFieldContainer[PendingGroupOffsets]
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: _containers.RepeatedCompositeFieldContainer[GroupMemberInfo]
    expires_ms: int
    def __init__(self, group: _Optional[_Union[GroupListing, _Mapping]] = ..., offsets: _Optional[_Iterable[_Union[GroupOffset, _Mapping]]] = ..., pending: _Optional[_Iterable[_Union[PendingGroupOffsets, _Mapping]]] = ..., group_epoch: _Optional[int] = ..., assignment_epoch: _Optional[int] = ..., assignor: _Optional[str] = ..., members: _Optional[_Iterable[_Union[GroupMemberInfo, _Mapping]]] = ..., expires_ms: _Optional[int] = ...) -> None: ...

class GroupMemberInfo(_message.Message):
    __slots__ = ("member_id", "instance_id", "client_id", "rack", "member_epoch", "state", "topics", "pattern", "assigned", "revoking", "target")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    REVOKING_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    instance_id: str
    client_id: str
    rack: str
    member_epoch: int
    state: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    pattern: str
    assigned: _containers.RepeatedCompositeFieldContainer[AssignedTopic]
    revoking: _containers.RepeatedCompositeFieldContainer[AssignedTopic]
    target: _containers.RepeatedCompositeFieldContainer[AssignedTopic]
    def __init__(self, member_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., client_id: _Optional[str] = ..., rack: _Optional[str] = ..., member_epoch: _Optional[int] = ..., state: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., pattern: _Optional[str] = ..., assigned: _Optional[_Iterable[_Union[AssignedTopic, _Mapping]]] = ..., revoking: _Optional[_Iterable[_Union[AssignedTopic, _Mapping]]] = ..., target: _Optional[_Iterable[_Union[AssignedTopic, _Mapping]]] = ...) -> None: ...

class GroupOffset(_message.Message):
    __slots__ = ("offset", "committed_ms", "member_id")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    offset: OffsetEntry
    committed_ms: int
    member_id: str
    def __init__(self, offset: _Optional[_Union[OffsetEntry, _Mapping]] = ..., committed_ms: _Optional[int] = ..., member_id: _Optional[str] = ...) -> None: ...

class PendingGroupOffsets(_message.Message):
    __slots__ = ("txn_producer_id", "txn_no", "txn_shard", "since_ms", "offsets")
    TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    TXN_SHARD_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    txn_producer_id: int
    txn_no: int
    txn_shard: int
    since_ms: int
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetEntry]
    def __init__(self, txn_producer_id: _Optional[int] = ..., txn_no: _Optional[int] = ..., txn_shard: _Optional[int] = ..., since_ms: _Optional[int] = ..., offsets: _Optional[_Iterable[_Union[OffsetEntry, _Mapping]]] = ...) -> None: ...

class DeleteOffsetsRequest(_message.Message):
    __slots__ = ("group_id", "partitions", "all", "call")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    all: bool
    call: _types_pb2.CallIdentity
    def __init__(self, group_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., all: bool = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class DeleteOffsetsReply(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    def __init__(self, deleted: _Optional[int] = ...) -> None: ...

class DrainCoordinatorRequest(_message.Message):
    __slots__ = ("action", "call")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    action: _types_pb2.DrainAction
    call: _types_pb2.CallIdentity
    def __init__(self, action: _Optional[_Union[_types_pb2.DrainAction, str]] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class DrainCoordinatorReply(_message.Message):
    __slots__ = ("address", "state", "shards", "loading", "reason", "term")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    LOADING_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    address: str
    state: _types_pb2.DrainState
    shards: int
    loading: int
    reason: str
    term: int
    def __init__(self, address: _Optional[str] = ..., state: _Optional[_Union[_types_pb2.DrainState, str]] = ..., shards: _Optional[int] = ..., loading: _Optional[int] = ..., reason: _Optional[str] = ..., term: _Optional[int] = ...) -> None: ...

class OffsetRange(_message.Message):
    __slots__ = ("first_offset", "last_offset")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    last_offset: int
    def __init__(self, first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ...) -> None: ...

class RetriedRecord(_message.Message):
    __slots__ = ("offset", "deliveries", "not_before_ms")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    deliveries: int
    not_before_ms: int
    def __init__(self, offset: _Optional[int] = ..., deliveries: _Optional[int] = ..., not_before_ms: _Optional[int] = ...) -> None: ...

class ChannelBlock(_message.Message):
    __slots__ = ("first_offset", "settled", "retried")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    settled: bytes
    retried: _containers.RepeatedCompositeFieldContainer[RetriedRecord]
    def __init__(self, first_offset: _Optional[int] = ..., settled: _Optional[bytes] = ..., retried: _Optional[_Iterable[_Union[RetriedRecord, _Mapping]]] = ...) -> None: ...

class ChannelPending(_message.Message):
    __slots__ = ("txn_producer_id", "txn_no", "txn_shard", "acknowledged")
    TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    TXN_SHARD_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    txn_producer_id: int
    txn_no: int
    txn_shard: int
    acknowledged: _containers.RepeatedCompositeFieldContainer[OffsetRange]
    def __init__(self, txn_producer_id: _Optional[int] = ..., txn_no: _Optional[int] = ..., txn_shard: _Optional[int] = ..., acknowledged: _Optional[_Iterable[_Union[OffsetRange, _Mapping]]] = ...) -> None: ...

class OpenChannelPartitionRequest(_message.Message):
    __slots__ = ("channel_id", "topic_id", "partition", "leader_epoch", "blocks")
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    channel_id: str
    topic_id: str
    partition: int
    leader_epoch: int
    blocks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, channel_id: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., blocks: _Optional[_Iterable[int]] = ...) -> None: ...

class OpenChannelPartitionReply(_message.Message):
    __slots__ = ("known", "settled_before", "write_no", "seeks", "blocks", "pending", "coordinator_epoch", "written_epoch")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    SETTLED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    WRITE_NO_FIELD_NUMBER: _ClassVar[int]
    SEEKS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    known: bool
    settled_before: int
    write_no: int
    seeks: int
    blocks: _containers.RepeatedCompositeFieldContainer[ChannelBlock]
    pending: _containers.RepeatedCompositeFieldContainer[ChannelPending]
    coordinator_epoch: int
    written_epoch: int
    def __init__(self, known: bool = ..., settled_before: _Optional[int] = ..., write_no: _Optional[int] = ..., seeks: _Optional[int] = ..., blocks: _Optional[_Iterable[_Union[ChannelBlock, _Mapping]]] = ..., pending: _Optional[_Iterable[_Union[ChannelPending, _Mapping]]] = ..., coordinator_epoch: _Optional[int] = ..., written_epoch: _Optional[int] = ...) -> None: ...

class WriteChannelStateRequest(_message.Message):
    __slots__ = ("channel_id", "topic_id", "partition", "leader_epoch", "write_no", "settled_before", "settled", "retried", "seek", "forget_from")
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    WRITE_NO_FIELD_NUMBER: _ClassVar[int]
    SETTLED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    SEEK_FIELD_NUMBER: _ClassVar[int]
    FORGET_FROM_FIELD_NUMBER: _ClassVar[int]
    channel_id: str
    topic_id: str
    partition: int
    leader_epoch: int
    write_no: int
    settled_before: int
    settled: _containers.RepeatedCompositeFieldContainer[OffsetRange]
    retried: _containers.RepeatedCompositeFieldContainer[RetriedRecord]
    seek: bool
    forget_from: int
    def __init__(self, channel_id: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., write_no: _Optional[int] = ..., settled_before: _Optional[int] = ..., settled: _Optional[_Iterable[_Union[OffsetRange, _Mapping]]] = ..., retried: _Optional[_Iterable[_Union[RetriedRecord, _Mapping]]] = ..., seek: bool = ..., forget_from: _Optional[int] = ...) -> None: ...

class WriteChannelStateReply(_message.Message):
    __slots__ = ("coordinator_epoch",)
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    coordinator_epoch: int
    def __init__(self, coordinator_epoch: _Optional[int] = ...) -> None: ...

class SendChannelAcksRequest(_message.Message):
    __slots__ = ("name", "channel_id", "topic_id", "partition", "leader_epoch", "seeks", "acknowledged")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEEKS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    name: TransactionName
    channel_id: str
    topic_id: str
    partition: int
    leader_epoch: int
    seeks: int
    acknowledged: _containers.RepeatedCompositeFieldContainer[OffsetRange]
    def __init__(self, name: _Optional[_Union[TransactionName, _Mapping]] = ..., channel_id: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., seeks: _Optional[int] = ..., acknowledged: _Optional[_Iterable[_Union[OffsetRange, _Mapping]]] = ...) -> None: ...

class SendChannelAcksReply(_message.Message):
    __slots__ = ("coordinator_epoch",)
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    coordinator_epoch: int
    def __init__(self, coordinator_epoch: _Optional[int] = ...) -> None: ...
