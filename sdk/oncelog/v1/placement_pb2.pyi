from oncelog.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReplicaStanding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLICA_STANDING_UNKNOWN: _ClassVar[ReplicaStanding]
    REPLICA_STANDING_INTACT: _ClassVar[ReplicaStanding]
    REPLICA_STANDING_UNCLEAN: _ClassVar[ReplicaStanding]
    REPLICA_STANDING_LOST: _ClassVar[ReplicaStanding]

class DecommissionAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECOMMISSION_ACTION_STATUS: _ClassVar[DecommissionAction]
    DECOMMISSION_ACTION_START: _ClassVar[DecommissionAction]
    DECOMMISSION_ACTION_CANCEL: _ClassVar[DecommissionAction]
REPLICA_STANDING_UNKNOWN: ReplicaStanding
REPLICA_STANDING_INTACT: ReplicaStanding
REPLICA_STANDING_UNCLEAN: ReplicaStanding
REPLICA_STANDING_LOST: ReplicaStanding
DECOMMISSION_ACTION_STATUS: DecommissionAction
DECOMMISSION_ACTION_START: DecommissionAction
DECOMMISSION_ACTION_CANCEL: DecommissionAction

class ReassignPartitionsRequest(_message.Message):
    __slots__ = ("partitions", "call")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionReplicas]
    call: _types_pb2.CallIdentity
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionReplicas, _Mapping]]] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class PartitionReplicas(_message.Message):
    __slots__ = ("topic_id", "partition", "replicas")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class ReassignPartitionsReply(_message.Message):
    __slots__ = ("errors",)
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedCompositeFieldContainer[_types_pb2.PartitionError]
    def __init__(self, errors: _Optional[_Iterable[_Union[_types_pb2.PartitionError, _Mapping]]] = ...) -> None: ...

class ListReassignmentsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReassignmentsReply(_message.Message):
    __slots__ = ("moves",)
    MOVES_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[PartitionMove]
    def __init__(self, moves: _Optional[_Iterable[_Union[PartitionMove, _Mapping]]] = ...) -> None: ...

class PartitionMove(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "original", "target", "replicas", "isr")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    partition: int
    original: _containers.RepeatedScalarFieldContainer[int]
    target: _containers.RepeatedScalarFieldContainer[int]
    replicas: _containers.RepeatedScalarFieldContainer[int]
    isr: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., original: _Optional[_Iterable[int]] = ..., target: _Optional[_Iterable[int]] = ..., replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[int]] = ...) -> None: ...

class TransferLeadershipRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "broker_id", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    broker_id: int
    leader_epoch: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., broker_id: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class TransferLeadershipReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SurveyReplicasRequest(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class SurveyReplicasReply(_message.Message):
    __slots__ = ("leader_epoch", "has_leader", "replicas")
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HAS_LEADER_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    leader_epoch: int
    has_leader: bool
    replicas: _containers.RepeatedCompositeFieldContainer[SurveyedReplica]
    def __init__(self, leader_epoch: _Optional[int] = ..., has_leader: bool = ..., replicas: _Optional[_Iterable[_Union[SurveyedReplica, _Mapping]]] = ...) -> None: ...

class SurveyedReplica(_message.Message):
    __slots__ = ("broker_id", "answered", "holder", "standing", "last_epoch", "log_end_offset", "high_watermark")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    answered: bool
    holder: bool
    standing: ReplicaStanding
    last_epoch: int
    log_end_offset: int
    high_watermark: int
    def __init__(self, broker_id: _Optional[int] = ..., answered: bool = ..., holder: bool = ..., standing: _Optional[_Union[ReplicaStanding, str]] = ..., last_epoch: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ...) -> None: ...

class ElectUncleanRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "broker_id", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    broker_id: int
    leader_epoch: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., broker_id: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class ElectUncleanReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DecommissionBrokersRequest(_message.Message):
    __slots__ = ("action", "broker_ids", "call")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    BROKER_IDS_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    action: DecommissionAction
    broker_ids: _containers.RepeatedScalarFieldContainer[int]
    call: _types_pb2.CallIdentity
    def __init__(self, action: _Optional[_Union[DecommissionAction, str]] = ..., broker_ids: _Optional[_Iterable[int]] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class DecommissionBrokersReply(_message.Message):
    __slots__ = ("brokers",)
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    brokers: _containers.RepeatedCompositeFieldContainer[BrokerLoad]
    def __init__(self, brokers: _Optional[_Iterable[_Union[BrokerLoad, _Mapping]]] = ...) -> None: ...

class BrokerLoad(_message.Message):
    __slots__ = ("broker_id", "registered", "decommissioned", "replicas", "leaderships", "moving")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSIONED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LEADERSHIPS_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    registered: bool
    decommissioned: bool
    replicas: int
    leaderships: int
    moving: int
    def __init__(self, broker_id: _Optional[int] = ..., registered: bool = ..., decommissioned: bool = ..., replicas: _Optional[int] = ..., leaderships: _Optional[int] = ..., moving: _Optional[int] = ...) -> None: ...
