"""Who may do what with a topic: every handler that names a topic or a partition asks here first.

Rule 1: the caller is whoever came in by a listener (`CALL`), or the client for whom another broker asks (`adopt_caller`).
        What is passed on is judged twice by the same caller: before it is passed on, and where it arrives.
Rule 2: the cluster's own topics are closed to clients, reading included. Open is where their replicas are and how far their
        logs go (`PLACEMENT`): an operator who restarts brokers needs it, and it tells nothing of what stands in them.
Rule 3: a handler asks before anything is written, and before it says whether the broker leads the partition.
Rule 4: without a listener for clients, services and clients share the internal one, and nobody can tell them apart there.

This is the one place where more may be asked, by topic and operation, when there are access control lists.
"""

from __future__ import annotations

import enum

from oncelog.errors import TopicAuthorizationError
from oncelog.v1 import types_pb2
from oncelog_runtime.call_context import CALL, CallInfo
from oncelog_runtime.cluster import INTERNAL_TOPICS
from oncelog_runtime.listeners import INTERNAL, NAMES


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
    return types_pb2.ForwardedCaller(listener=call.listener, peer=call.peer, principals=call.principals)


def adopt_caller(claim: types_pb2.ForwardedCaller) -> None:
    """From here on the running handler works for the client that another broker named.

    Only a service may say so, and only a claim by the internal listener is one: a client that names somebody else is
    taken for what it is. Call it for requests that have the field (`HasField`). Whoever gives rights to principals must ask
    first whether the caller is a service where clients share the internal listener (rule 4).
    """
    call = CALL.get()
    if call is not None and call.listener == INTERNAL and claim.listener in NAMES:
        CALL.set(CallInfo(claim.peer, tuple(claim.principals), claim.listener))
