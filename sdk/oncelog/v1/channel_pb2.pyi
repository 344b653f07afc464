from oncelog.v1 import coordinator_pb2 as _coordinator_pb2
from oncelog.v1 import errors_pb2 as _errors_pb2
from oncelog.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_ACK: _ClassVar[Verdict]
    VERDICT_NACK: _ClassVar[Verdict]
    VERDICT_TOUCH: _ClassVar[Verdict]
    VERDICT_REJECT: _ClassVar[Verdict]
    VERDICT_RELEASE: _ClassVar[Verdict]
VERDICT_UNSPECIFIED: Verdict
VERDICT_ACK: Verdict
VERDICT_NACK: Verdict
VERDICT_TOUCH: Verdict
VERDICT_REJECT: Verdict
VERDICT_RELEASE: Verdict

class ChannelOptions(_message.Message):
    __slots__ = ("ack_wait_ms", "max_deliveries", "dead_letter_topic", "retry_backoff_ms", "retry_backoff_max_ms", "order_by_key", "ephemeral", "max_unsettled")
    ACK_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_TOPIC_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_KEY_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_FIELD_NUMBER: _ClassVar[int]
    MAX_UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    ack_wait_ms: int
    max_deliveries: int
    dead_letter_topic: str
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    order_by_key: bool
    ephemeral: bool
    max_unsettled: int
    def __init__(self, ack_wait_ms: _Optional[int] = ..., max_deliveries: _Optional[int] = ..., dead_letter_topic: _Optional[str] = ..., retry_backoff_ms: _Optional[int] = ..., retry_backoff_max_ms: _Optional[int] = ..., order_by_key: bool = ..., ephemeral: bool = ..., max_unsettled: _Optional[int] = ...) -> None: ...

class Channel(_message.Message):
    __slots__ = ("topic", "topic_id", "channel", "channel_id", "options", "paused", "start_timestamp_ms", "created_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    START_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    channel: str
    channel_id: str
    options: ChannelOptions
    paused: bool
    start_timestamp_ms: int
    created_ms: int
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., channel: _Optional[str] = ..., channel_id: _Optional[str] = ..., options: _Optional[_Union[ChannelOptions, _Mapping]] = ..., paused: bool = ..., start_timestamp_ms: _Optional[int] = ..., created_ms: _Optional[int] = ...) -> None: ...

class CreateChannelRequest(_message.Message):
    __slots__ = ("topic", "channel", "options", "start_timestamp_ms", "if_not_exists", "nonce")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    START_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    IF_NOT_EXISTS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    channel: str
    options: ChannelOptions
    start_timestamp_ms: int
    if_not_exists: bool
    nonce: str
    def __init__(self, topic: _Optional[str] = ..., channel: _Optional[str] = ..., options: _Optional[_Union[ChannelOptions, _Mapping]] = ..., start_timestamp_ms: _Optional[int] = ..., if_not_exists: bool = ..., nonce: _Optional[str] = ...) -> None: ...

class CreateChannelReply(_message.Message):
    __slots__ = ("channel", "created")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    channel: Channel
    created: bool
    def __init__(self, channel: _Optional[_Union[Channel, _Mapping]] = ..., created: bool = ...) -> None: ...

class AlterChannelRequest(_message.Message):
    __slots__ = ("topic", "channel", "channel_id", "options", "paused", "call")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    topic: str
    channel: str
    channel_id: str
    options: ChannelOptions
    paused: bool
    call: _types_pb2.CallIdentity
    def __init__(self, topic: _Optional[str] = ..., channel: _Optional[str] = ..., channel_id: _Optional[str] = ..., options: _Optional[_Union[ChannelOptions, _Mapping]] = ..., paused: bool = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class AlterChannelReply(_message.Message):
    __slots__ = ("channel", "changed")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    channel: Channel
    changed: bool
    def __init__(self, channel: _Optional[_Union[Channel, _Mapping]] = ..., changed: bool = ...) -> None: ...

class DeleteChannelRequest(_message.Message):
    __slots__ = ("topic", "channel", "channel_id", "call")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    topic: str
    channel: str
    channel_id: str
    call: _types_pb2.CallIdentity
    def __init__(self, topic: _Optional[str] = ..., channel: _Optional[str] = ..., channel_id: _Optional[str] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class DeleteChannelReply(_message.Message):
    __slots__ = ("channel_id",)
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    channel_id: str
    def __init__(self, channel_id: _Optional[str] = ...) -> None: ...

class ListChannelsRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class ListChannelsReply(_message.Message):
    __slots__ = ("channels",)
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedCompositeFieldContainer[Channel]
    def __init__(self, channels: _Optional[_Iterable[_Union[Channel, _Mapping]]] = ...) -> None: ...

class ReceiveRequest(_message.Message):
    __slots__ = ("topic_id", "channel", "channel_id", "worker_id", "partitions", "max_in_flight", "max_bytes", "max_wait_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    channel: str
    channel_id: str
    worker_id: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    max_in_flight: int
    max_bytes: int
    max_wait_ms: int
    def __init__(self, topic_id: _Optional[str] = ..., channel: _Optional[str] = ..., channel_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., max_in_flight: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_wait_ms: _Optional[int] = ...) -> None: ...

class ReceiveReply(_message.Message):
    __slots__ = ("records", "errors", "waited_ms", "batches")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    WAITED_MS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[ReceivedRecords]
    errors: _containers.RepeatedCompositeFieldContainer[_types_pb2.PartitionError]
    waited_ms: int
    batches: bytes
    def __init__(self, records: _Optional[_Iterable[_Union[ReceivedRecords, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[_types_pb2.PartitionError, _Mapping]]] = ..., waited_ms: _Optional[int] = ..., batches: _Optional[bytes] = ...) -> None: ...

class ReceivedRecords(_message.Message):
    __slots__ = ("partition", "first_offset", "last_offset", "delivery", "ack_wait_ms", "length", "leader_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    ACK_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    first_offset: int
    last_offset: int
    delivery: int
    ack_wait_ms: int
    length: int
    leader_epoch: int
    def __init__(self, partition: _Optional[int] = ..., first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., delivery: _Optional[int] = ..., ack_wait_ms: _Optional[int] = ..., length: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class SettleRequest(_message.Message):
    __slots__ = ("topic_id", "channel", "channel_id", "worker_id", "items", "transaction", "leaves")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    channel: str
    channel_id: str
    worker_id: str
    items: _containers.RepeatedCompositeFieldContainer[Settlement]
    transaction: _coordinator_pb2.TransactionName
    leaves: bool
    def __init__(self, topic_id: _Optional[str] = ..., channel: _Optional[str] = ..., channel_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., items: _Optional[_Iterable[_Union[Settlement, _Mapping]]] = ..., transaction: _Optional[_Union[_coordinator_pb2.TransactionName, _Mapping]] = ..., leaves: bool = ...) -> None: ...

class Settlement(_message.Message):
    __slots__ = ("partition", "first_offset", "last_offset", "delivery", "verdict", "delay_ms", "reason", "leader_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    first_offset: int
    last_offset: int
    delivery: int
    verdict: Verdict
    delay_ms: int
    reason: str
    leader_epoch: int
    def __init__(self, partition: _Optional[int] = ..., first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., delivery: _Optional[int] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., delay_ms: _Optional[int] = ..., reason: _Optional[str] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class SettleReply(_message.Message):
    __slots__ = ("errors",)
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedCompositeFieldContainer[SettlementError]
    def __init__(self, errors: _Optional[_Iterable[_Union[SettlementError, _Mapping]]] = ...) -> None: ...

class SettlementError(_message.Message):
    __slots__ = ("partition", "first_offset", "last_offset", "settled", "error")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    partition: int
    first_offset: int
    last_offset: int
    settled: bool
    error: _errors_pb2.ErrorDetail
    def __init__(self, partition: _Optional[int] = ..., first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., settled: bool = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("topic_id", "channel", "channel_id", "worker_id", "partition", "offsets", "min_idle_ms", "from_offset", "max_records", "names_only")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    MIN_IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    NAMES_ONLY_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    channel: str
    channel_id: str
    worker_id: str
    partition: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    min_idle_ms: int
    from_offset: int
    max_records: int
    names_only: bool
    def __init__(self, topic_id: _Optional[str] = ..., channel: _Optional[str] = ..., channel_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., partition: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ..., min_idle_ms: _Optional[int] = ..., from_offset: _Optional[int] = ..., max_records: _Optional[int] = ..., names_only: bool = ...) -> None: ...

class DescribeChannelRequest(_message.Message):
    __slots__ = ("topic_id", "channel", "partitions", "max_pending", "worker_id", "min_idle_ms", "from_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    channel: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    max_pending: int
    worker_id: str
    min_idle_ms: int
    from_offset: int
    def __init__(self, topic_id: _Optional[str] = ..., channel: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., max_pending: _Optional[int] = ..., worker_id: _Optional[str] = ..., min_idle_ms: _Optional[int] = ..., from_offset: _Optional[int] = ...) -> None: ...

class DescribeChannelReply(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[ChannelPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[ChannelPartition, _Mapping]]] = ...) -> None: ...

class ChannelPartition(_message.Message):
    __slots__ = ("partition", "error", "leader_epoch", "settled_before", "end_offset", "depth", "in_flight", "in_transaction", "waiting", "delivered", "redelivered", "acknowledged", "dead", "workers", "pending")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SETTLED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    IN_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    partition: int
    error: _errors_pb2.ErrorDetail
    leader_epoch: int
    settled_before: int
    end_offset: int
    depth: int
    in_flight: int
    in_transaction: int
    waiting: int
    delivered: int
    redelivered: int
    acknowledged: int
    dead: int
    workers: _containers.RepeatedCompositeFieldContainer[WorkerInfo]
    pending: _containers.RepeatedCompositeFieldContainer[PendingRecord]
    def __init__(self, partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., leader_epoch: _Optional[int] = ..., settled_before: _Optional[int] = ..., end_offset: _Optional[int] = ..., depth: _Optional[int] = ..., in_flight: _Optional[int] = ..., in_transaction: _Optional[int] = ..., waiting: _Optional[int] = ..., delivered: _Optional[int] = ..., redelivered: _Optional[int] = ..., acknowledged: _Optional[int] = ..., dead: _Optional[int] = ..., workers: _Optional[_Iterable[_Union[WorkerInfo, _Mapping]]] = ..., pending: _Optional[_Iterable[_Union[PendingRecord, _Mapping]]] = ...) -> None: ...

class WorkerInfo(_message.Message):
    __slots__ = ("worker_id", "client", "max_in_flight", "in_flight", "idle_ms")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    client: str
    max_in_flight: int
    in_flight: int
    idle_ms: int
    def __init__(self, worker_id: _Optional[str] = ..., client: _Optional[str] = ..., max_in_flight: _Optional[int] = ..., in_flight: _Optional[int] = ..., idle_ms: _Optional[int] = ...) -> None: ...

class PendingRecord(_message.Message):
    __slots__ = ("offset", "worker_id", "idle_ms", "deliveries", "due_ms", "in_transaction", "dead", "trouble")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    DUE_MS_FIELD_NUMBER: _ClassVar[int]
    IN_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    offset: int
    worker_id: str
    idle_ms: int
    deliveries: int
    due_ms: int
    in_transaction: bool
    dead: bool
    trouble: str
    def __init__(self, offset: _Optional[int] = ..., worker_id: _Optional[str] = ..., idle_ms: _Optional[int] = ..., deliveries: _Optional[int] = ..., due_ms: _Optional[int] = ..., in_transaction: bool = ..., dead: bool = ..., trouble: _Optional[str] = ...) -> None: ...

class SeekChannelRequest(_message.Message):
    __slots__ = ("topic_id", "channel", "channel_id", "partition", "offset", "timestamp_ms", "call")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    channel: str
    channel_id: str
    partition: int
    offset: int
    timestamp_ms: int
    call: _types_pb2.CallIdentity
    def __init__(self, topic_id: _Optional[str] = ..., channel: _Optional[str] = ..., channel_id: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class SeekChannelReply(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...
