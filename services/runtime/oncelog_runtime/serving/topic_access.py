"""What is closed to clients whatever access rules say: every handler that names a topic or a partition asks here first.

Rule 1: the caller is whoever came in by a listener (`CALL`), or the client for whom another broker asks (`adopt_caller`).
        What is passed on is judged twice by the same caller: before it is passed on, and where it arrives.
Rule 2: the cluster's own topics are closed to clients, reading included. Open is where their replicas are and how far their
        logs go (`PLACEMENT`): an operator who restarts brokers needs it, and it tells nothing of what stands in them.
Rule 3: a handler asks before anything is written, and before it says whether the broker leads the partition.
Rule 4: without a listener for clients, services and clients share the internal one, and nobody can tell them apart there.
Rule 5: access rules (`security.gate`) come on top: they are asked before, and none of them opens what is closed here.
"""

from __future__ import annotations

import enum

from oncelog.errors import TopicAuthorizationError
from oncelog.v1 import types_pb2
from oncelog_runtime.core.listeners import INTERNAL, NAMES
from oncelog_runtime.core.security.acl import ANONYMOUS
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from oncelog_runtime.serving.call_context import CALL, CallInfo


class TopicOperation(enum.Enum):
    """Kafka's operations on a topic, and `PLACEMENT`: what operators see of replicas (Kafka: DESCRIBE)."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    DESCRIBE_CONFIGS = "describe the options of"
    PLACEMENT = "see the placement of"


_OPEN = (TopicOperation.PLACEMENT, TopicOperation.DESCRIBE_CONFIGS)
"""What clients may do with the cluster's own topics."""


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


def forwarded_for() -> types_pb2.ForwardedCaller:
    """What a request must carry that is passed on to another broker."""
    call = CALL.get()
    if call is None:
        return types_pb2.ForwardedCaller()
    claim = types_pb2.ForwardedCaller(listener=call.listener, peer=call.peer, principals=call.principals)
    if call.access is not None:
        claim.principal, claim.host = call.access.principal, call.access.host
    return claim


def adopt_caller(claim: types_pb2.ForwardedCaller) -> None:
    """From here on the running handler works for the client that another broker named, with that client's rights.

    Only a service may say so (`_is_service`): a client that names somebody else is taken for what it is. Where access rules
    are on, a client of whom no name is known is anonymous. Raises `MetadataUnavailableError` before the rules were read.
    """
    call = CALL.get()
    if call is None or not _is_service(call) or claim.listener not in NAMES:
        return
    access = None
    if call.access_of is not None and claim.listener != INTERNAL:
        access = call.access_of(claim.principal or ANONYMOUS, claim.host)
    CALL.set(CallInfo(claim.peer, tuple(claim.principals), claim.listener, access))


def _is_service(call: CallInfo) -> bool:
    """It came by the internal listener, nobody who has a name and rights of his own did that, and where `service_rules` say
    which certificates are services', its own is one.
    """
    return call.listener == INTERNAL and call.access is None and call.methods != frozenset()
