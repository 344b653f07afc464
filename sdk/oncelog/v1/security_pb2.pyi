from oncelog.v1 import link_pb2 as _link_pb2
from oncelog.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Acl(_message.Message):
    __slots__ = ("principal", "host", "resource_type", "pattern_type", "resource_name", "operation", "permission")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    principal: str
    host: str
    resource_type: str
    pattern_type: str
    resource_name: str
    operation: str
    permission: str
    def __init__(self, principal: _Optional[str] = ..., host: _Optional[str] = ..., resource_type: _Optional[str] = ..., pattern_type: _Optional[str] = ..., resource_name: _Optional[str] = ..., operation: _Optional[str] = ..., permission: _Optional[str] = ...) -> None: ...

class RoleRule(_message.Message):
    __slots__ = ("resource_type", "operations", "pattern_type", "resource_name")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    resource_type: str
    operations: _containers.RepeatedScalarFieldContainer[str]
    pattern_type: str
    resource_name: str
    def __init__(self, resource_type: _Optional[str] = ..., operations: _Optional[_Iterable[str]] = ..., pattern_type: _Optional[str] = ..., resource_name: _Optional[str] = ...) -> None: ...

class Role(_message.Message):
    __slots__ = ("name", "rules", "built_in")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    BUILT_IN_FIELD_NUMBER: _ClassVar[int]
    name: str
    rules: _containers.RepeatedCompositeFieldContainer[RoleRule]
    built_in: bool
    def __init__(self, name: _Optional[str] = ..., rules: _Optional[_Iterable[_Union[RoleRule, _Mapping]]] = ..., built_in: bool = ...) -> None: ...

class RoleBinding(_message.Message):
    __slots__ = ("principal", "role", "pattern_type", "resource_name")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    principal: str
    role: str
    pattern_type: str
    resource_name: str
    def __init__(self, principal: _Optional[str] = ..., role: _Optional[str] = ..., pattern_type: _Optional[str] = ..., resource_name: _Optional[str] = ...) -> None: ...

class CreateAclsRequest(_message.Message):
    __slots__ = ("acls", "bindings", "roles", "call")
    ACLS_FIELD_NUMBER: _ClassVar[int]
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    bindings: _containers.RepeatedCompositeFieldContainer[RoleBinding]
    roles: _containers.RepeatedCompositeFieldContainer[Role]
    call: _types_pb2.CallIdentity
    def __init__(self, acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., bindings: _Optional[_Iterable[_Union[RoleBinding, _Mapping]]] = ..., roles: _Optional[_Iterable[_Union[Role, _Mapping]]] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class CreateAclsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteAclsRequest(_message.Message):
    __slots__ = ("acls", "bindings", "roles", "call")
    ACLS_FIELD_NUMBER: _ClassVar[int]
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    bindings: _containers.RepeatedCompositeFieldContainer[RoleBinding]
    roles: _containers.RepeatedScalarFieldContainer[str]
    call: _types_pb2.CallIdentity
    def __init__(self, acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., bindings: _Optional[_Iterable[_Union[RoleBinding, _Mapping]]] = ..., roles: _Optional[_Iterable[str]] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class DeleteAclsReply(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    def __init__(self, deleted: _Optional[int] = ...) -> None: ...

class ListAclsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAclsReply(_message.Message):
    __slots__ = ("acls", "bindings", "roles")
    ACLS_FIELD_NUMBER: _ClassVar[int]
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    bindings: _containers.RepeatedCompositeFieldContainer[RoleBinding]
    roles: _containers.RepeatedCompositeFieldContainer[Role]
    def __init__(self, acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., bindings: _Optional[_Iterable[_Union[RoleBinding, _Mapping]]] = ..., roles: _Optional[_Iterable[_Union[Role, _Mapping]]] = ...) -> None: ...

class CheckAclRequest(_message.Message):
    __slots__ = ("principal", "host", "operation", "resource_type", "resource_name")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    principal: str
    host: str
    operation: str
    resource_type: str
    resource_name: str
    def __init__(self, principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[str] = ..., resource_type: _Optional[str] = ..., resource_name: _Optional[str] = ...) -> None: ...

class CheckAclReply(_message.Message):
    __slots__ = ("allowed", "reason", "principal")
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    allowed: bool
    reason: str
    principal: str
    def __init__(self, allowed: bool = ..., reason: _Optional[str] = ..., principal: _Optional[str] = ...) -> None: ...

class ScramUser(_message.Message):
    __slots__ = ("name", "salt", "iterations", "stored_key", "server_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    STORED_KEY_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes
    def __init__(self, name: _Optional[str] = ..., salt: _Optional[bytes] = ..., iterations: _Optional[int] = ..., stored_key: _Optional[bytes] = ..., server_key: _Optional[bytes] = ...) -> None: ...

class AlterUserRequest(_message.Message):
    __slots__ = ("user", "must_exist", "must_not_exist", "call")
    USER_FIELD_NUMBER: _ClassVar[int]
    MUST_EXIST_FIELD_NUMBER: _ClassVar[int]
    MUST_NOT_EXIST_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    user: ScramUser
    must_exist: bool
    must_not_exist: bool
    call: _types_pb2.CallIdentity
    def __init__(self, user: _Optional[_Union[ScramUser, _Mapping]] = ..., must_exist: bool = ..., must_not_exist: bool = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class AlterUserReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteUserRequest(_message.Message):
    __slots__ = ("name", "call")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    name: str
    call: _types_pb2.CallIdentity
    def __init__(self, name: _Optional[str] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class DeleteUserReply(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: bool = ...) -> None: ...

class ListUsersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListUsersReply(_message.Message):
    __slots__ = ("users",)
    USERS_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[ScramUser]
    def __init__(self, users: _Optional[_Iterable[_Union[ScramUser, _Mapping]]] = ...) -> None: ...

class QuotaLimit(_message.Message):
    __slots__ = ("kind", "limit")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    limit: int
    def __init__(self, kind: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class Quota(_message.Message):
    __slots__ = ("subject", "limits")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    subject: str
    limits: _containers.RepeatedCompositeFieldContainer[QuotaLimit]
    def __init__(self, subject: _Optional[str] = ..., limits: _Optional[_Iterable[_Union[QuotaLimit, _Mapping]]] = ...) -> None: ...

class QuotaRemoval(_message.Message):
    __slots__ = ("subject", "kinds")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    subject: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, subject: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ...) -> None: ...

class AlterQuotasRequest(_message.Message):
    __slots__ = ("set", "remove", "call")
    SET_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    set: _containers.RepeatedCompositeFieldContainer[Quota]
    remove: _containers.RepeatedCompositeFieldContainer[QuotaRemoval]
    call: _types_pb2.CallIdentity
    def __init__(self, set: _Optional[_Iterable[_Union[Quota, _Mapping]]] = ..., remove: _Optional[_Iterable[_Union[QuotaRemoval, _Mapping]]] = ..., call: _Optional[_Union[_types_pb2.CallIdentity, _Mapping]] = ...) -> None: ...

class AlterQuotasReply(_message.Message):
    __slots__ = ("removed",)
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    removed: int
    def __init__(self, removed: _Optional[int] = ...) -> None: ...

class ListQuotasRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListQuotasReply(_message.Message):
    __slots__ = ("quotas",)
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    quotas: _containers.RepeatedCompositeFieldContainer[Quota]
    def __init__(self, quotas: _Optional[_Iterable[_Union[Quota, _Mapping]]] = ...) -> None: ...

class DescribeQuotaRequest(_message.Message):
    __slots__ = ("subject",)
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    def __init__(self, subject: _Optional[str] = ...) -> None: ...

class EffectiveLimit(_message.Message):
    __slots__ = ("kind", "limit", "source")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    limit: int
    source: str
    def __init__(self, kind: _Optional[str] = ..., limit: _Optional[int] = ..., source: _Optional[str] = ...) -> None: ...

class DescribeQuotaReply(_message.Message):
    __slots__ = ("subject", "limits")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    subject: str
    limits: _containers.RepeatedCompositeFieldContainer[EffectiveLimit]
    def __init__(self, subject: _Optional[str] = ..., limits: _Optional[_Iterable[_Union[EffectiveLimit, _Mapping]]] = ...) -> None: ...
