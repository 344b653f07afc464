"""Operations that are closed to clients whatever the access rules say: every handler that names a topic checks here
first.

Rule 1: the caller is the one that was accepted by a listener (`CALL`), or the client for whom another broker calls
        (`adopt_caller`). A forwarded request is checked twice for the same caller: before it is forwarded, and where it
        arrives.
Rule 2: the cluster's own topics are closed to clients, for reading too. Open are the placement of their replicas and
        the ends of their logs (`PLACEMENT`): an operator who restarts brokers needs them, and they reveal nothing of
        the content.
Rule 3: a handler checks before anything is written, and before it reveals whether the broker leads the partition.
Rule 4: without a listener for clients, services and clients share the internal one, and cannot be distinguished there.
Rule 5: the transactional ids of the schedulers of delayed records are closed to clients: a client that began a session of one
        would fence its scheduler.
Rule 6: access rules (`security.gate`) are checked in addition, before this; no rule opens what is closed here.
"""

from __future__ import annotations

import enum

from oncelog.core.names import WAITING_PREFIX
from oncelog.errors import TopicAuthorizationError, TransactionalIdAuthorizationError
from oncelog.v1 import types_pb2
from oncelog_runtime.core.listeners import INTERNAL, NAMES
from oncelog_runtime.core.security.acl import ANONYMOUS
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from oncelog_runtime.serving.call_context import CALL, CallInfo


class TopicOperation(enum.Enum):
    """Kafka's operations on a topic, and `PLACEMENT`: the replicas as shown to operators (Kafka: DESCRIBE)."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    DESCRIBE_CONFIGS = "describe the options of"
    PLACEMENT = "see the placement of"


_OPEN = (TopicOperation.PLACEMENT, TopicOperation.DESCRIBE_CONFIGS)
"""The operations that clients may use on the cluster's own topics."""


def require_access(topic: str, operation: TopicOperation) -> None:
    """Raises `TopicAuthorizationError` unless the caller of the running handler may do this with the topic."""
    if topic not in INTERNAL_TOPICS or operation in _OPEN:
        return
    call = CALL.get()
    if call is not None and call.listener != INTERNAL:
        raise TopicAuthorizationError(
            f"clients may not {operation.value} the cluster's own topics: use the groups, offsets and transactions of the "
            "client library, or `oncelog group` and `oncelog txn`",
            topic=topic,
            operation=operation.name,
        )


def require_transactional_id(transactional_id: str) -> None:
    """Raises `TransactionalIdAuthorizationError` unless the caller of the running handler may begin a session of this id."""
    call = CALL.get()
    if transactional_id.startswith(WAITING_PREFIX) and call is not None and call.listener != INTERNAL:
        raise TransactionalIdAuthorizationError(
            "transactional ids that begin with __delayed. are the cluster's own: choose another one",
            transactional_id=transactional_id,
        )


def forwarded_for() -> types_pb2.ForwardedCaller:
    """Returns the caller, for a request that is forwarded to another broker."""
    call = CALL.get()
    if call is None:
        return types_pb2.ForwardedCaller()
    claim = types_pb2.ForwardedCaller(listener=call.listener, peer=call.peer, principals=call.principals)
    if call.access is not None:
        claim.principal, claim.host = call.access.principal, call.access.host
    return claim


def adopt_caller(claim: types_pb2.ForwardedCaller) -> None:
    """Makes the running handler work for the client that another broker named, with that client's rights.

    Only a service may name a client (`_is_service`): a client that names another one is still treated as itself. Where
    access rules are on, a client without a known name is anonymous. Raises `MetadataUnavailableError` before the rules
    were read.
    """
    call = CALL.get()
    if call is None or not _is_service(call) or claim.listener not in NAMES:
        return
    access = None
    if call.access_of is not None and claim.listener != INTERNAL:
        access = call.access_of(claim.principal or ANONYMOUS, claim.host)
    CALL.set(CallInfo(claim.peer, tuple(claim.principals), claim.listener, access))


def _is_service(call: CallInfo) -> bool:
    """True for a call at the internal listener, without a principal that has rights of its own, and with a certificate
    that `service_rules`, where set, assign to a service.
    """
    return call.listener == INTERNAL and call.access is None and call.methods != frozenset()
