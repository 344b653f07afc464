"""The Coordinator's methods for clients, as a broker answers them: with the address of the coordinator to call.

Rule 1: a client may start at any address of the cluster: a caller with generated stubs follows `go_to` from there, and
        never computes the shard of a transactional id or a group.
Rule 2: nothing is forwarded: the caller gets each outcome from the process that decided it, and keeps the address for its
        next calls.
Rule 3: methods about one coordinator process itself (lists, drain) are not served here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

from google.protobuf.message import Message

from oncelog.core.batch.hashing import shard_for
from oncelog.core.names import check_group_id, check_transactional_id
from oncelog.errors import CoordinatorNotAvailableError, NotCoordinatorError
from oncelog.types import Buffer
from oncelog.wire import methods
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register
from oncelog_runtime.serving.signpost import Signpost


class Place(NamedTuple):
    """Says which shard a request is for: the kind, and the field with the name that determines it."""

    kind: str
    field: str
    check: Callable[[str], str]
    may_be_empty: bool = False
    """Without a name any coordinator answers."""


_TRANSACTIONAL_ID: Final = Place(KIND_TXN, "transactional_id", check_transactional_id)
_ANY_OR_TRANSACTIONAL_ID: Final = _TRANSACTIONAL_ID._replace(may_be_empty=True)
_NAMED_TRANSACTION: Final = Place(KIND_TXN, "name.transactional_id", check_transactional_id)
_GROUP: Final = Place(KIND_GROUP, "group_id", check_group_id)
_MEMBER: Final = Place(KIND_GROUP, "member.group_id", check_group_id)

PLACES: Final[tuple[tuple[methods.AnyMethod, Place], ...]] = (
    (methods.INIT_PRODUCER_ID, _ANY_OR_TRANSACTIONAL_ID),
    (methods.ENROL_PARTITIONS, _NAMED_TRANSACTION),
    (methods.END_TRANSACTION, _NAMED_TRANSACTION),
    (methods.RENEW_TRANSACTION, _NAMED_TRANSACTION),
    (methods.GET_OUTCOME, _TRANSACTIONAL_ID),
    (methods.JOIN_TRANSACTION, _TRANSACTIONAL_ID),
    (methods.COMMIT_TRANSACTION, _TRANSACTIONAL_ID),
    (methods.ABORT_TRANSACTION, _TRANSACTIONAL_ID),
    (methods.DESCRIBE_TRANSACTION, _TRANSACTIONAL_ID),
    (methods.FORCE_ABORT, _TRANSACTIONAL_ID),
    (methods.COMMIT_OFFSETS, _MEMBER),
    (methods.SEND_OFFSETS, _MEMBER),
    (methods.FETCH_OFFSETS, _GROUP),
    (methods.GROUP_HEARTBEAT, _GROUP),
    (methods.DESCRIBE_GROUP, _GROUP),
    (methods.DELETE_OFFSETS, _GROUP),
)


class CoordinatorSignpost:
    """Answers the Coordinator's methods with an address."""

    def __init__(self, view: ClusterView, signpost: Signpost) -> None:
        self._view = view
        self._signpost = signpost

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        for spec, place in PLACES:
            register(server, spec, partial(self._serve, attrgetter(place.field), place))

    async def _serve(
        self, name_of: Callable[[Message], str], place: Place, request: Message, _payload: Buffer
    ) -> tuple[Message, Buffer]:
        name = name_of(request)
        raise self._elsewhere(place.kind, name if place.may_be_empty and not name else place.check(name))

    def _elsewhere(self, kind: str, name: str) -> NotCoordinatorError | CoordinatorNotAvailableError:
        known = self._view.cluster
        if known is None:
            return CoordinatorNotAvailableError("the cluster is not set up yet", retry_after_ms=100)
        if not name:
            address = self._signpost.any_coordinator()
        else:
            count = known.transaction_shards if kind == KIND_TXN else known.group_shards
            address = self._signpost.owner(kind, shard_for(name, count))
        if not address:
            return CoordinatorNotAvailableError("nobody owns the shard at the moment", kind=kind)
        return NotCoordinatorError("this is a broker, and a coordinator must answer", kind=kind, go_to=address)
