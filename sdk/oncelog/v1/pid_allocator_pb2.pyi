from oncelog.v1 import link_pb2 as _link_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AllocateProducerIdsRequest(_message.Message):
    __slots__ = ("count", "requester")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_FIELD_NUMBER: _ClassVar[int]
    count: int
    requester: str
    def __init__(self, count: _Optional[int] = ..., requester: _Optional[str] = ...) -> None: ...

class AllocateProducerIdsReply(_message.Message):
    __slots__ = ("ranges",)
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[ProducerIdRange]
    def __init__(self, ranges: _Optional[_Iterable[_Union[ProducerIdRange, _Mapping]]] = ...) -> None: ...

class ProducerIdRange(_message.Message):
    __slots__ = ("first", "count")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first: int
    count: int
    def __init__(self, first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...
