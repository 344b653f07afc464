from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FrameKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FRAME_KIND_UNSPECIFIED: _ClassVar[FrameKind]
    FRAME_KIND_HELLO: _ClassVar[FrameKind]
    FRAME_KIND_REQUEST: _ClassVar[FrameKind]
    FRAME_KIND_REPLY: _ClassVar[FrameKind]
    FRAME_KIND_ERROR: _ClassVar[FrameKind]
    FRAME_KIND_CANCEL: _ClassVar[FrameKind]
FRAME_KIND_UNSPECIFIED: FrameKind
FRAME_KIND_HELLO: FrameKind
FRAME_KIND_REQUEST: FrameKind
FRAME_KIND_REPLY: FrameKind
FRAME_KIND_ERROR: FrameKind
FRAME_KIND_CANCEL: FrameKind

class Envelope(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[Frame]
    def __init__(self, frames: _Optional[_Iterable[_Union[Frame, _Mapping]]] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("correlation_id", "kind", "method", "timeout_ms", "traceparent", "header", "hello", "throttle_ms", "payload")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    THROTTLE_MS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    kind: FrameKind
    method: str
    timeout_ms: int
    traceparent: str
    header: bytes
    hello: Hello
    throttle_ms: int
    payload: bytes
    def __init__(self, correlation_id: _Optional[int] = ..., kind: _Optional[_Union[FrameKind, str]] = ..., method: _Optional[str] = ..., timeout_ms: _Optional[int] = ..., traceparent: _Optional[str] = ..., header: _Optional[bytes] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., throttle_ms: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_min", "protocol_max", "software", "cluster_id", "features", "mechanism", "authentication")
    PROTOCOL_MIN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MAX_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATION_FIELD_NUMBER: _ClassVar[int]
    protocol_min: int
    protocol_max: int
    software: str
    cluster_id: str
    features: _containers.RepeatedScalarFieldContainer[str]
    mechanism: str
    authentication: bytes
    def __init__(self, protocol_min: _Optional[int] = ..., protocol_max: _Optional[int] = ..., software: _Optional[str] = ..., cluster_id: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ..., mechanism: _Optional[str] = ..., authentication: _Optional[bytes] = ...) -> None: ...
