from oncelog.v1 import errors_pb2 as _errors_pb2
from oncelog.v1 import link_pb2 as _link_pb2
from oncelog.v1 import placement_pb2 as _placement_pb2
from oncelog.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProduceRequest(_message.Message):
    __slots__ = ("acks", "timeout_ms", "partitions", "forwarded_for", "batches")
    ACKS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FOR_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    acks: int
    timeout_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[ProducePartition]
    forwarded_for: _types_pb2.ForwardedCaller
    batches: bytes
    def __init__(self, acks: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[ProducePartition, _Mapping]]] = ..., forwarded_for: _Optional[_Union[_types_pb2.ForwardedCaller, _Mapping]] = ..., batches: _Optional[bytes] = ...) -> None: ...

class ProducePartition(_message.Message):
    __slots__ = ("topic_id", "partition", "length", "transactional_id", "session_token")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    length: int
    transactional_id: str
    session_token: bytes
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., length: _Optional[int] = ..., transactional_id: _Optional[str] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class ProduceReply(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[ProducePartitionReply]
    def __init__(self, partitions: _Optional[_Iterable[_Union[ProducePartitionReply, _Mapping]]] = ...) -> None: ...

class ProducePartitionReply(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "base_offset", "append_timestamp_ms", "log_start_offset", "duplicate")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    APPEND_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    error: _errors_pb2.ErrorDetail
    base_offset: int
    append_timestamp_ms: int
    log_start_offset: int
    duplicate: bool
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., base_offset: _Optional[int] = ..., append_timestamp_ms: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class ProduceRecordsRequest(_message.Message):
    __slots__ = ("topic", "partition", "records", "acks", "timeout_ms", "producer_id", "producer_epoch", "base_sequence", "transactional_id", "txn_no", "session_token")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BASE_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    records: _containers.RepeatedCompositeFieldContainer[_types_pb2.Record]
    acks: int
    timeout_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional_id: str
    txn_no: int
    session_token: bytes
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., records: _Optional[_Iterable[_Union[_types_pb2.Record, _Mapping]]] = ..., acks: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., base_sequence: _Optional[int] = ..., transactional_id: _Optional[str] = ..., txn_no: _Optional[int] = ..., session_token: _Optional[bytes] = ...) -> None: ...

class ProduceRecordsReply(_message.Message):
    __slots__ = ("partition", "base_offset", "duplicate")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    partition: int
    base_offset: int
    duplicate: bool
    def __init__(self, partition: _Optional[int] = ..., base_offset: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("isolation_level", "max_wait_ms", "min_bytes", "max_bytes", "partitions", "skip_lost_transactions", "forwarded_for", "follower_may_answer")
    ISOLATION_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SKIP_LOST_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FOR_FIELD_NUMBER: _ClassVar[int]
    FOLLOWER_MAY_ANSWER_FIELD_NUMBER: _ClassVar[int]
    isolation_level: _types_pb2.IsolationLevel
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: _containers.RepeatedCompositeFieldContainer[FetchPartition]
    skip_lost_transactions: bool
    forwarded_for: _types_pb2.ForwardedCaller
    follower_may_answer: bool
    def __init__(self, isolation_level: _Optional[_Union[_types_pb2.IsolationLevel, str]] = ..., max_wait_ms: _Optional[int] = ..., min_bytes: _Optional[int] = ..., max_bytes: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[FetchPartition, _Mapping]]] = ..., skip_lost_transactions: bool = ..., forwarded_for: _Optional[_Union[_types_pb2.ForwardedCaller, _Mapping]] = ..., follower_may_answer: bool = ...) -> None: ...

class FetchPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "fetch_offset", "max_bytes", "leader_epoch", "read_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FETCH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    READ_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    read_epoch: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., fetch_offset: _Optional[int] = ..., max_bytes: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., read_epoch: _Optional[int] = ...) -> None: ...

class FetchReply(_message.Message):
    __slots__ = ("partitions", "batches")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[FetchedPartition]
    batches: bytes
    def __init__(self, partitions: _Optional[_Iterable[_Union[FetchedPartition, _Mapping]]] = ..., batches: _Optional[bytes] = ...) -> None: ...

class FetchedPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "length", "high_watermark", "last_stable_offset", "log_start_offset", "next_offset", "aborted", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    error: _errors_pb2.ErrorDetail
    length: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    next_offset: int
    aborted: _containers.RepeatedCompositeFieldContainer[_types_pb2.AbortedTransaction]
    leader_epoch: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., length: _Optional[int] = ..., high_watermark: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., aborted: _Optional[_Iterable[_Union[_types_pb2.AbortedTransaction, _Mapping]]] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class FetchRecordsRequest(_message.Message):
    __slots__ = ("topic", "partition", "offset", "isolation_level", "max_wait_ms", "max_bytes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    isolation_level: _types_pb2.IsolationLevel
    max_wait_ms: int
    max_bytes: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., isolation_level: _Optional[_Union[_types_pb2.IsolationLevel, str]] = ..., max_wait_ms: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class FetchRecordsReply(_message.Message):
    __slots__ = ("records", "next_offset", "high_watermark", "last_stable_offset", "log_start_offset")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[_types_pb2.Record]
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    def __init__(self, records: _Optional[_Iterable[_Union[_types_pb2.Record, _Mapping]]] = ..., next_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., log_start_offset: _Optional[int] = ...) -> None: ...

class ListOffsetsRequest(_message.Message):
    __slots__ = ("isolation_level", "partitions")
    ISOLATION_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    isolation_level: _types_pb2.IsolationLevel
    partitions: _containers.RepeatedCompositeFieldContainer[ListOffsetsPartition]
    def __init__(self, isolation_level: _Optional[_Union[_types_pb2.IsolationLevel, str]] = ..., partitions: _Optional[_Iterable[_Union[ListOffsetsPartition, _Mapping]]] = ...) -> None: ...

class ListOffsetsPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "timestamp_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    timestamp_ms: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class ListOffsetsReply(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[ListedOffset]
    def __init__(self, partitions: _Optional[_Iterable[_Union[ListedOffset, _Mapping]]] = ...) -> None: ...

class ListedOffset(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "offset", "timestamp_ms", "leader_epoch", "data_end_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DATA_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    error: _errors_pb2.ErrorDetail
    offset: int
    timestamp_ms: int
    leader_epoch: int
    data_end_offset: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., data_end_offset: _Optional[int] = ...) -> None: ...

class OffsetForLeaderEpochRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    leader_epoch: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class OffsetForLeaderEpochReply(_message.Message):
    __slots__ = ("leader_epoch", "end_offset")
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    leader_epoch: int
    end_offset: int
    def __init__(self, leader_epoch: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class GetProducerStateRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "producer_id", "producer_epoch", "base_sequence", "last_sequence", "settle", "session_token")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BASE_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    settle: bool
    session_token: bytes
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., base_sequence: _Optional[int] = ..., last_sequence: _Optional[int] = ..., settle: bool = ..., session_token: _Optional[bytes] = ...) -> None: ...

class GetProducerStateReply(_message.Message):
    __slots__ = ("known", "written", "base_offset", "producer_epoch", "last_sequence")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    known: bool
    written: bool
    base_offset: int
    producer_epoch: int
    last_sequence: int
    def __init__(self, known: bool = ..., written: bool = ..., base_offset: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., last_sequence: _Optional[int] = ...) -> None: ...

class DescribeProducersRequest(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class DescribeProducersReply(_message.Message):
    __slots__ = ("producers", "transactions")
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    producers: _containers.RepeatedCompositeFieldContainer[ActiveProducer]
    transactions: _containers.RepeatedCompositeFieldContainer[OpenTransaction]
    def __init__(self, producers: _Optional[_Iterable[_Union[ActiveProducer, _Mapping]]] = ..., transactions: _Optional[_Iterable[_Union[OpenTransaction, _Mapping]]] = ...) -> None: ...

class ActiveProducer(_message.Message):
    __slots__ = ("producer_id", "producer_epoch", "last_sequence", "last_timestamp_ms", "txn_producer_id", "txn_no", "txn_start_offset", "coordinator_epoch")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    TXN_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    txn_producer_id: int
    txn_no: int
    txn_start_offset: int
    coordinator_epoch: int
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., last_sequence: _Optional[int] = ..., last_timestamp_ms: _Optional[int] = ..., txn_producer_id: _Optional[int] = ..., txn_no: _Optional[int] = ..., txn_start_offset: _Optional[int] = ..., coordinator_epoch: _Optional[int] = ...) -> None: ...

class OpenTransaction(_message.Message):
    __slots__ = ("txn_producer_id", "txn_no", "first_offset", "txn_shard", "open_since_ms", "session_epoch", "records")
    TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TXN_SHARD_FIELD_NUMBER: _ClassVar[int]
    OPEN_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    txn_producer_id: int
    txn_no: int
    first_offset: int
    txn_shard: int
    open_since_ms: int
    session_epoch: int
    records: int
    def __init__(self, txn_producer_id: _Optional[int] = ..., txn_no: _Optional[int] = ..., first_offset: _Optional[int] = ..., txn_shard: _Optional[int] = ..., open_since_ms: _Optional[int] = ..., session_epoch: _Optional[int] = ..., records: _Optional[int] = ...) -> None: ...

class DeleteRecordsRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "before_offset", "writer_id", "writer_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BEFORE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WRITER_ID_FIELD_NUMBER: _ClassVar[int]
    WRITER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    before_offset: int
    writer_id: int
    writer_epoch: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., before_offset: _Optional[int] = ..., writer_id: _Optional[int] = ..., writer_epoch: _Optional[int] = ...) -> None: ...

class DeleteRecordsReply(_message.Message):
    __slots__ = ("log_start_offset",)
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    log_start_offset: int
    def __init__(self, log_start_offset: _Optional[int] = ...) -> None: ...

class GetMetadataRequest(_message.Message):
    __slots__ = ("topics", "all_topics")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ALL_TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    all_topics: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., all_topics: bool = ...) -> None: ...

class GetMetadataReply(_message.Message):
    __slots__ = ("cluster_id", "revision", "brokers", "topics", "controller", "transaction_shards", "group_shards", "transaction_shard_count", "group_shard_count", "pid_allocators", "controller_term", "searches_logs")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_SHARDS_FIELD_NUMBER: _ClassVar[int]
    GROUP_SHARDS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_SHARD_COUNT_FIELD_NUMBER: _ClassVar[int]
    GROUP_SHARD_COUNT_FIELD_NUMBER: _ClassVar[int]
    PID_ALLOCATORS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_TERM_FIELD_NUMBER: _ClassVar[int]
    SEARCHES_LOGS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    revision: int
    brokers: _containers.RepeatedCompositeFieldContainer[BrokerInfo]
    topics: _containers.RepeatedCompositeFieldContainer[TopicInfo]
    controller: _types_pb2.BrokerRef
    transaction_shards: _containers.RepeatedCompositeFieldContainer[ShardOwner]
    group_shards: _containers.RepeatedCompositeFieldContainer[ShardOwner]
    transaction_shard_count: int
    group_shard_count: int
    pid_allocators: _containers.RepeatedScalarFieldContainer[str]
    controller_term: int
    searches_logs: bool
    def __init__(self, cluster_id: _Optional[str] = ..., revision: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[BrokerInfo, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[TopicInfo, _Mapping]]] = ..., controller: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ..., transaction_shards: _Optional[_Iterable[_Union[ShardOwner, _Mapping]]] = ..., group_shards: _Optional[_Iterable[_Union[ShardOwner, _Mapping]]] = ..., transaction_shard_count: _Optional[int] = ..., group_shard_count: _Optional[int] = ..., pid_allocators: _Optional[_Iterable[str]] = ..., controller_term: _Optional[int] = ..., searches_logs: bool = ...) -> None: ...

class BrokerInfo(_message.Message):
    __slots__ = ("broker", "address", "rack")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    broker: _types_pb2.BrokerRef
    address: str
    rack: str
    def __init__(self, broker: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ...) -> None: ...

class TopicInfo(_message.Message):
    __slots__ = ("name", "topic_id", "error", "internal", "partitions", "config")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: str
    error: _errors_pb2.ErrorDetail
    internal: bool
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionInfo]
    config: _containers.RepeatedCompositeFieldContainer[ConfigEntry]
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[str] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., internal: bool = ..., partitions: _Optional[_Iterable[_Union[PartitionInfo, _Mapping]]] = ..., config: _Optional[_Iterable[_Union[ConfigEntry, _Mapping]]] = ...) -> None: ...

class PartitionInfo(_message.Message):
    __slots__ = ("partition", "leader", "leader_epoch", "replicas", "isr", "adding")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    ADDING_FIELD_NUMBER: _ClassVar[int]
    partition: int
    leader: _types_pb2.BrokerRef
    leader_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    isr: _containers.RepeatedCompositeFieldContainer[_types_pb2.BrokerRef]
    adding: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., leader: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ..., leader_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[_Union[_types_pb2.BrokerRef, _Mapping]]] = ..., adding: _Optional[_Iterable[int]] = ...) -> None: ...

class ConfigEntry(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class ShardOwner(_message.Message):
    __slots__ = ("shard", "address", "epoch", "trouble")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    shard: int
    address: str
    epoch: int
    trouble: str
    def __init__(self, shard: _Optional[int] = ..., address: _Optional[str] = ..., epoch: _Optional[int] = ..., trouble: _Optional[str] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("topic", "partitions", "replication_factor", "config", "timeout_ms", "if_not_exists", "nonce")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    IF_NOT_EXISTS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: int
    replication_factor: int
    config: _containers.RepeatedCompositeFieldContainer[ConfigEntry]
    timeout_ms: int
    if_not_exists: bool
    nonce: str
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., config: _Optional[_Iterable[_Union[ConfigEntry, _Mapping]]] = ..., timeout_ms: _Optional[int] = ..., if_not_exists: bool = ..., nonce: _Optional[str] = ...) -> None: ...

class CreateTopicReply(_message.Message):
    __slots__ = ("topic_id", "created")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    created: bool
    def __init__(self, topic_id: _Optional[str] = ..., created: bool = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("topic", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ...) -> None: ...

class DeleteTopicReply(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    def __init__(self, topic_id: _Optional[str] = ...) -> None: ...

class CancelDelayedRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    offset: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class CancelDelayedReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeDelayedRequest(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribeDelayedReply(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[DelayedPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[DelayedPartition, _Mapping]]] = ...) -> None: ...

class DelayedPartition(_message.Message):
    __slots__ = ("partition", "error", "waiting", "next_due_ms", "moved", "cancelled")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    NEXT_DUE_MS_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    partition: int
    error: _errors_pb2.ErrorDetail
    waiting: int
    next_due_ms: int
    moved: int
    cancelled: int
    def __init__(self, partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., waiting: _Optional[int] = ..., next_due_ms: _Optional[int] = ..., moved: _Optional[int] = ..., cancelled: _Optional[int] = ...) -> None: ...

class ReplicateRequest(_message.Message):
    __slots__ = ("leader", "follower", "partitions", "batches")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    FOLLOWER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    leader: _types_pb2.BrokerRef
    follower: _types_pb2.BrokerRef
    partitions: _containers.RepeatedCompositeFieldContainer[ReplicatePartition]
    batches: bytes
    def __init__(self, leader: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ..., follower: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[ReplicatePartition, _Mapping]]] = ..., batches: _Optional[bytes] = ...) -> None: ...

class ReplicatePartition(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "session", "hello", "truncate_to", "base_offset", "length", "high_watermark", "log_start_offset", "reset", "epoch_start_offset", "fsync", "held_everywhere")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_TO_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FSYNC_FIELD_NUMBER: _ClassVar[int]
    HELD_EVERYWHERE_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    leader_epoch: int
    session: int
    hello: bool
    truncate_to: int
    base_offset: int
    length: int
    high_watermark: int
    log_start_offset: int
    reset: bool
    epoch_start_offset: int
    fsync: bool
    held_everywhere: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., session: _Optional[int] = ..., hello: bool = ..., truncate_to: _Optional[int] = ..., base_offset: _Optional[int] = ..., length: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., reset: bool = ..., epoch_start_offset: _Optional[int] = ..., fsync: bool = ..., held_everywhere: _Optional[int] = ...) -> None: ...

class ReplicateReply(_message.Message):
    __slots__ = ("follower", "partitions")
    FOLLOWER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    follower: _types_pb2.BrokerRef
    partitions: _containers.RepeatedCompositeFieldContainer[ReplicatePartitionReply]
    def __init__(self, follower: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[ReplicatePartitionReply, _Mapping]]] = ...) -> None: ...

class ReplicatePartitionReply(_message.Message):
    __slots__ = ("topic_id", "partition", "session", "error", "log_end_offset", "last_epoch", "last_epoch_start", "readers_wait", "synced_end_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_START_FIELD_NUMBER: _ClassVar[int]
    READERS_WAIT_FIELD_NUMBER: _ClassVar[int]
    SYNCED_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    session: int
    error: _errors_pb2.ErrorDetail
    log_end_offset: int
    last_epoch: int
    last_epoch_start: int
    readers_wait: bool
    synced_end_offset: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., session: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., log_end_offset: _Optional[int] = ..., last_epoch: _Optional[int] = ..., last_epoch_start: _Optional[int] = ..., readers_wait: bool = ..., synced_end_offset: _Optional[int] = ...) -> None: ...

class WriteTxnMarkersRequest(_message.Message):
    __slots__ = ("txn_shard", "coordinator_epoch", "markers", "on_disk")
    TXN_SHARD_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    ON_DISK_FIELD_NUMBER: _ClassVar[int]
    txn_shard: int
    coordinator_epoch: int
    markers: _containers.RepeatedCompositeFieldContainer[TxnMarker]
    on_disk: bool
    def __init__(self, txn_shard: _Optional[int] = ..., coordinator_epoch: _Optional[int] = ..., markers: _Optional[_Iterable[_Union[TxnMarker, _Mapping]]] = ..., on_disk: bool = ...) -> None: ...

class TxnMarker(_message.Message):
    __slots__ = ("topic_id", "partition", "txn_producer_id", "txn_no", "session_epoch", "outcome", "has_winners", "winners", "expected_records")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    HAS_WINNERS_FIELD_NUMBER: _ClassVar[int]
    WINNERS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    txn_producer_id: int
    txn_no: int
    session_epoch: int
    outcome: _types_pb2.TransactionOutcome
    has_winners: bool
    winners: _containers.RepeatedScalarFieldContainer[int]
    expected_records: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., txn_producer_id: _Optional[int] = ..., txn_no: _Optional[int] = ..., session_epoch: _Optional[int] = ..., outcome: _Optional[_Union[_types_pb2.TransactionOutcome, str]] = ..., has_winners: bool = ..., winners: _Optional[_Iterable[int]] = ..., expected_records: _Optional[int] = ...) -> None: ...

class WriteTxnMarkersReply(_message.Message):
    __slots__ = ("markers",)
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    markers: _containers.RepeatedCompositeFieldContainer[TxnMarkerReply]
    def __init__(self, markers: _Optional[_Iterable[_Union[TxnMarkerReply, _Mapping]]] = ...) -> None: ...

class TxnMarkerReply(_message.Message):
    __slots__ = ("topic_id", "partition", "txn_producer_id", "txn_no", "error", "marker_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MARKER_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    txn_producer_id: int
    txn_no: int
    error: _errors_pb2.ErrorDetail
    marker_offset: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., txn_producer_id: _Optional[int] = ..., txn_no: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., marker_offset: _Optional[int] = ...) -> None: ...

class SyncReplicaRequest(_message.Message):
    __slots__ = ("follower", "partitions")
    FOLLOWER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    follower: _types_pb2.BrokerRef
    partitions: _containers.RepeatedCompositeFieldContainer[SyncPartition]
    def __init__(self, follower: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[SyncPartition, _Mapping]]] = ...) -> None: ...

class SyncPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "end_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    leader_epoch: int
    end_offset: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class SyncReplicaReply(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[SyncPartitionReply]
    def __init__(self, partitions: _Optional[_Iterable[_Union[SyncPartitionReply, _Mapping]]] = ...) -> None: ...

class SyncPartitionReply(_message.Message):
    __slots__ = ("topic_id", "partition", "error")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    error: _errors_pb2.ErrorDetail
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class ReportBrokerRequest(_message.Message):
    __slots__ = ("suspect", "reporter")
    SUSPECT_FIELD_NUMBER: _ClassVar[int]
    REPORTER_FIELD_NUMBER: _ClassVar[int]
    suspect: _types_pb2.BrokerRef
    reporter: _types_pb2.BrokerRef
    def __init__(self, suspect: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ..., reporter: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ...) -> None: ...

class ReportBrokerReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingRequest(_message.Message):
    __slots__ = ("hold_ms", "suspect")
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    SUSPECT_FIELD_NUMBER: _ClassVar[int]
    hold_ms: int
    suspect: _types_pb2.BrokerRef
    def __init__(self, hold_ms: _Optional[int] = ..., suspect: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ...) -> None: ...

class PingReply(_message.Message):
    __slots__ = ("broker", "hears_suspect", "now_ms")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    HEARS_SUSPECT_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    broker: _types_pb2.BrokerRef
    hears_suspect: bool
    now_ms: int
    def __init__(self, broker: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ..., hears_suspect: bool = ..., now_ms: _Optional[int] = ...) -> None: ...

class ReplicaStatusRequest(_message.Message):
    __slots__ = ("broker", "partitions", "kept_logs", "restored_at")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    KEPT_LOGS_FIELD_NUMBER: _ClassVar[int]
    RESTORED_AT_FIELD_NUMBER: _ClassVar[int]
    broker: _types_pb2.BrokerRef
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    kept_logs: bool
    restored_at: int
    def __init__(self, broker: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., kept_logs: bool = ..., restored_at: _Optional[int] = ...) -> None: ...

class ReplicaStatusReply(_message.Message):
    __slots__ = ("partitions", "kept")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[ReplicaState]
    kept: KeptLogs
    def __init__(self, partitions: _Optional[_Iterable[_Union[ReplicaState, _Mapping]]] = ..., kept: _Optional[_Union[KeptLogs, _Mapping]] = ...) -> None: ...

class KeptLogs(_message.Message):
    __slots__ = ("partitions", "brokers_seen")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BROKERS_SEEN_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    brokers_seen: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., brokers_seen: _Optional[_Iterable[int]] = ...) -> None: ...

class ReplicaState(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "last_epoch", "log_end_offset", "intact_since", "known_since", "high_watermark", "known_epoch", "seal")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    INTACT_SINCE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_SINCE_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    KNOWN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    error: _errors_pb2.ErrorDetail
    last_epoch: int
    log_end_offset: int
    intact_since: int
    known_since: int
    high_watermark: int
    known_epoch: int
    seal: LogSeal
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., last_epoch: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., intact_since: _Optional[int] = ..., known_since: _Optional[int] = ..., high_watermark: _Optional[int] = ..., known_epoch: _Optional[int] = ..., seal: _Optional[_Union[LogSeal, _Mapping]] = ...) -> None: ...

class LogSeal(_message.Message):
    __slots__ = ("incarnation", "leader_epoch", "end_offset")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    leader_epoch: int
    end_offset: int
    def __init__(self, incarnation: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class AlterTopicRequest(_message.Message):
    __slots__ = ("topic", "set", "unset", "partitions", "timeout_ms", "validate_only", "topic_id", "call")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    UNSET_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    topic: str
    set: _containers.RepeatedCompositeFieldContainer[ConfigEntry]
    unset: _containers.RepeatedScalarFieldContainer[str]
    partitions: int
    timeout_ms: int
    validate_only: bool
    topic_id: str
    call: _types_pb2.CallIdentity
    def __init__(self, topic: _Optional[str] = ..., set: _Optional[_Iterable[_Union[ConfigEntry, _Mapping]]] = ..., unset: _Optional[_Iterable[str]] = ..., partitions: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., validate_only: bool = ..., topic_id: _Optional[str] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class AlterTopicReply(_message.Message):
    __slots__ = ("topic_id", "partitions", "config", "changed")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partitions: int
    config: _containers.RepeatedCompositeFieldContainer[ConfigEntry]
    changed: bool
    def __init__(self, topic_id: _Optional[str] = ..., partitions: _Optional[int] = ..., config: _Optional[_Iterable[_Union[ConfigEntry, _Mapping]]] = ..., changed: bool = ...) -> None: ...

class DescribeTopicConfigsRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeTopicConfigsReply(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicConfigs]
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicConfigs, _Mapping]]] = ...) -> None: ...

class TopicConfigs(_message.Message):
    __slots__ = ("topic", "error", "config")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    topic: str
    error: _errors_pb2.ErrorDetail
    config: _containers.RepeatedCompositeFieldContainer[ConfigValue]
    def __init__(self, topic: _Optional[str] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., config: _Optional[_Iterable[_Union[ConfigValue, _Mapping]]] = ...) -> None: ...

class ConfigValue(_message.Message):
    __slots__ = ("name", "value", "explicit", "default_value", "legal")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EXPLICIT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_VALUE_FIELD_NUMBER: _ClassVar[int]
    LEGAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    explicit: bool
    default_value: str
    legal: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., explicit: bool = ..., default_value: _Optional[str] = ..., legal: _Optional[str] = ...) -> None: ...

class DescribePartitionsRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[DescribePartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[DescribePartition, _Mapping]]] = ...) -> None: ...

class DescribePartition(_message.Message):
    __slots__ = ("topic_id", "partition", "count_from")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    COUNT_FROM_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    count_from: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., count_from: _Optional[int] = ...) -> None: ...

class DescribePartitionsReply(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[DescribedPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[DescribedPartition, _Mapping]]] = ...) -> None: ...

class DescribedPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "leader_epoch", "log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset", "size_bytes", "open_transactions", "min_insync_replicas", "records", "counted_to", "lagging")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    OPEN_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    MIN_INSYNC_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    COUNTED_TO_FIELD_NUMBER: _ClassVar[int]
    LAGGING_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    error: _errors_pb2.ErrorDetail
    leader_epoch: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    size_bytes: int
    open_transactions: int
    min_insync_replicas: int
    records: int
    counted_to: int
    lagging: _containers.RepeatedCompositeFieldContainer[LaggingReplica]
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., leader_epoch: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., size_bytes: _Optional[int] = ..., open_transactions: _Optional[int] = ..., min_insync_replicas: _Optional[int] = ..., records: _Optional[int] = ..., counted_to: _Optional[int] = ..., lagging: _Optional[_Iterable[_Union[LaggingReplica, _Mapping]]] = ...) -> None: ...

class LaggingReplica(_message.Message):
    __slots__ = ("broker_id", "log_end_offset")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    log_end_offset: int
    def __init__(self, broker_id: _Optional[int] = ..., log_end_offset: _Optional[int] = ...) -> None: ...

class DrainBrokerRequest(_message.Message):
    __slots__ = ("action", "broker_id", "call")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    action: _types_pb2.DrainAction
    broker_id: int
    call: _types_pb2.CallIdentity
    def __init__(self, action: _Optional[_Union[_types_pb2.DrainAction, str]] = ..., broker_id: _Optional[int] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class DrainBrokerReply(_message.Message):
    __slots__ = ("broker", "state", "leaderships", "needed", "reason", "in_sync", "controller")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LEADERSHIPS_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    broker: _types_pb2.BrokerRef
    state: _types_pb2.DrainState
    leaderships: int
    needed: int
    reason: str
    in_sync: bool
    controller: bool
    def __init__(self, broker: _Optional[_Union[_types_pb2.BrokerRef, _Mapping]] = ..., state: _Optional[_Union[_types_pb2.DrainState, str]] = ..., leaderships: _Optional[int] = ..., needed: _Optional[int] = ..., reason: _Optional[str] = ..., in_sync: bool = ..., controller: bool = ...) -> None: ...
