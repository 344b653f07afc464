"""Types of oncelog/v1/security.proto, written by scripts/gen_protos.py: not to be edited.

`XStub(channel)` of a `grpc.Channel` answers at once. With a `grpc.aio.Channel` each call is awaited: then say so with
`cast("XAsyncStub", XStub(channel))`; `XAsyncStub` exists for type checkers only.
"""

from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from oncelog.v1 import link_pb2
from oncelog.v1 import security_pb2

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

class SecurityStub:
    def __init__(self, channel: Any) -> None: ...
    CreateAcls: _Call[security_pb2.CreateAclsRequest, security_pb2.CreateAclsReply]
    DeleteAcls: _Call[security_pb2.DeleteAclsRequest, security_pb2.DeleteAclsReply]
    ListAcls: _Call[security_pb2.ListAclsRequest, security_pb2.ListAclsReply]
    CheckAcl: _Call[security_pb2.CheckAclRequest, security_pb2.CheckAclReply]
    AlterUser: _Call[security_pb2.AlterUserRequest, security_pb2.AlterUserReply]
    DeleteUser: _Call[security_pb2.DeleteUserRequest, security_pb2.DeleteUserReply]
    ListUsers: _Call[security_pb2.ListUsersRequest, security_pb2.ListUsersReply]
    AlterQuotas: _Call[security_pb2.AlterQuotasRequest, security_pb2.AlterQuotasReply]
    ListQuotas: _Call[security_pb2.ListQuotasRequest, security_pb2.ListQuotasReply]
    DescribeQuota: _Call[security_pb2.DescribeQuotaRequest, security_pb2.DescribeQuotaReply]
    Connect: _Stream[link_pb2.Envelope, link_pb2.Envelope]

class SecurityAsyncStub:
    def __init__(self, channel: Any) -> None: ...
    CreateAcls: _AsyncCall[security_pb2.CreateAclsRequest, security_pb2.CreateAclsReply]
    DeleteAcls: _AsyncCall[security_pb2.DeleteAclsRequest, security_pb2.DeleteAclsReply]
    ListAcls: _AsyncCall[security_pb2.ListAclsRequest, security_pb2.ListAclsReply]
    CheckAcl: _AsyncCall[security_pb2.CheckAclRequest, security_pb2.CheckAclReply]
    AlterUser: _AsyncCall[security_pb2.AlterUserRequest, security_pb2.AlterUserReply]
    DeleteUser: _AsyncCall[security_pb2.DeleteUserRequest, security_pb2.DeleteUserReply]
    ListUsers: _AsyncCall[security_pb2.ListUsersRequest, security_pb2.ListUsersReply]
    AlterQuotas: _AsyncCall[security_pb2.AlterQuotasRequest, security_pb2.AlterQuotasReply]
    ListQuotas: _AsyncCall[security_pb2.ListQuotasRequest, security_pb2.ListQuotasReply]
    DescribeQuota: _AsyncCall[security_pb2.DescribeQuotaRequest, security_pb2.DescribeQuotaReply]
    Connect: _AsyncStream[link_pb2.Envelope, link_pb2.Envelope]

class SecurityServicer:
    def CreateAcls(self, request: security_pb2.CreateAclsRequest, context: Any) -> Any: ...
    def DeleteAcls(self, request: security_pb2.DeleteAclsRequest, context: Any) -> Any: ...
    def ListAcls(self, request: security_pb2.ListAclsRequest, context: Any) -> Any: ...
    def CheckAcl(self, request: security_pb2.CheckAclRequest, context: Any) -> Any: ...
    def AlterUser(self, request: security_pb2.AlterUserRequest, context: Any) -> Any: ...
    def DeleteUser(self, request: security_pb2.DeleteUserRequest, context: Any) -> Any: ...
    def ListUsers(self, request: security_pb2.ListUsersRequest, context: Any) -> Any: ...
    def AlterQuotas(self, request: security_pb2.AlterQuotasRequest, context: Any) -> Any: ...
    def ListQuotas(self, request: security_pb2.ListQuotasRequest, context: Any) -> Any: ...
    def DescribeQuota(self, request: security_pb2.DescribeQuotaRequest, context: Any) -> Any: ...
    def Connect(self, request_iterator: Any, context: Any) -> Any: ...

def add_SecurityServicer_to_server(servicer: Any, server: Any) -> None: ...
