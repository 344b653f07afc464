from oncelog.v1 import errors_pb2 as _errors_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IsolationLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ISOLATION_LEVEL_UNSPECIFIED: _ClassVar[IsolationLevel]
    ISOLATION_LEVEL_READ_COMMITTED: _ClassVar[IsolationLevel]
    ISOLATION_LEVEL_READ_UNCOMMITTED: _ClassVar[IsolationLevel]

class TransactionOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRANSACTION_OUTCOME_UNSPECIFIED: _ClassVar[TransactionOutcome]
    TRANSACTION_OUTCOME_COMMITTED: _ClassVar[TransactionOutcome]
    TRANSACTION_OUTCOME_ABORTED: _ClassVar[TransactionOutcome]
    TRANSACTION_OUTCOME_ONGOING: _ClassVar[TransactionOutcome]
    TRANSACTION_OUTCOME_NOT_BEGUN: _ClassVar[TransactionOutcome]

class DrainAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DRAIN_ACTION_STATUS: _ClassVar[DrainAction]
    DRAIN_ACTION_START: _ClassVar[DrainAction]
    DRAIN_ACTION_CANCEL: _ClassVar[DrainAction]

class DrainState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DRAIN_STATE_NOT_DRAINING: _ClassVar[DrainState]
    DRAIN_STATE_DRAINING: _ClassVar[DrainState]
    DRAIN_STATE_DRAINED: _ClassVar[DrainState]
    DRAIN_STATE_SKIPPED: _ClassVar[DrainState]
ISOLATION_LEVEL_UNSPECIFIED: IsolationLevel
ISOLATION_LEVEL_READ_COMMITTED: IsolationLevel
ISOLATION_LEVEL_READ_UNCOMMITTED: IsolationLevel
TRANSACTION_OUTCOME_UNSPECIFIED: TransactionOutcome
TRANSACTION_OUTCOME_COMMITTED: TransactionOutcome
TRANSACTION_OUTCOME_ABORTED: TransactionOutcome
TRANSACTION_OUTCOME_ONGOING: TransactionOutcome
TRANSACTION_OUTCOME_NOT_BEGUN: TransactionOutcome
DRAIN_ACTION_STATUS: DrainAction
DRAIN_ACTION_START: DrainAction
DRAIN_ACTION_CANCEL: DrainAction
DRAIN_STATE_NOT_DRAINING: DrainState
DRAIN_STATE_DRAINING: DrainState
DRAIN_STATE_DRAINED: DrainState
DRAIN_STATE_SKIPPED: DrainState

class TopicPartition(_message.Message):
    __slots__ = ("topic", "partition", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    topic_id: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., topic_id: _Optional[str] = ...) -> None: ...

class ForwardedCaller(_message.Message):
    __slots__ = ("listener", "peer", "principals", "principal", "host")
    LISTENER_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    PRINCIPALS_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    listener: str
    peer: str
    principals: _containers.RepeatedScalarFieldContainer[str]
    principal: str
    host: str
    def __init__(self, listener: _Optional[str] = ..., peer: _Optional[str] = ..., principals: _Optional[_Iterable[str]] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ...) -> None: ...

class BrokerRef(_message.Message):
    __slots__ = ("broker_id", "incarnation")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    incarnation: int
    def __init__(self, broker_id: _Optional[int] = ..., incarnation: _Optional[int] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("key", "value", "headers", "timestamp_ms", "offset")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    timestamp_ms: int
    offset: int
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., timestamp_ms: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class AbortedTransaction(_message.Message):
    __slots__ = ("txn_producer_id", "txn_no", "first_offset", "marker_offset", "all", "winners", "data_loss")
    TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_NO_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MARKER_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    WINNERS_FIELD_NUMBER: _ClassVar[int]
    DATA_LOSS_FIELD_NUMBER: _ClassVar[int]
    txn_producer_id: int
    txn_no: int
    first_offset: int
    marker_offset: int
    all: bool
    winners: _containers.RepeatedScalarFieldContainer[int]
    data_loss: bool
    def __init__(self, txn_producer_id: _Optional[int] = ..., txn_no: _Optional[int] = ..., first_offset: _Optional[int] = ..., marker_offset: _Optional[int] = ..., all: bool = ..., winners: _Optional[_Iterable[int]] = ..., data_loss: bool = ...) -> None: ...

class PartitionError(_message.Message):
    __slots__ = ("partition", "error")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    partition: TopicPartition
    error: _errors_pb2.ErrorDetail
    def __init__(self, partition: _Optional[_Union[TopicPartition, _Mapping]] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class CallIdentity(_message.Message):
    __slots__ = ("nonce", "term")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    nonce: str
    term: int
    def __init__(self, nonce: _Optional[str] = ..., term: _Optional[int] = ...) -> None: ...
