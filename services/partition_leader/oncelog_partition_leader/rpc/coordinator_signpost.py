"""The Coordinator's methods for clients, as a broker answers them: with the address of the coordinator to call.

Rule 1: a client may start at any address of the cluster: a caller with generated stubs follows `go_to` from there, and
        never computes the shard of a transactional id or a group.
Rule 2: nothing is forwarded: the caller gets each outcome from the process that decided it, and keeps the address for its
        next calls.
Rule 3: methods about one coordinator process itself (lists, drain) are not served here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from oncelog.core.batch.hashing import shard_for
from oncelog.core.names import check_group_id, check_transactional_id
from oncelog.errors import CoordinatorNotAvailableError, NotCoordinatorError
from oncelog.types import Buffer
from oncelog.wire import methods
from oncelog.wire.methods import MethodSpec
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import Serve, handler_of
from oncelog_runtime.serving.signpost import Signpost

Place = tuple[str, str]
"""(kind of shard, the name that determines the shard); an empty name: any coordinator."""


def _transactional_id(request: Any) -> Place:
    return KIND_TXN, check_transactional_id(request.transactional_id)


def _any_or_transactional_id(request: Any) -> Place:
    return _transactional_id(request) if request.transactional_id else (KIND_TXN, "")


def _named_transaction(request: Any) -> Place:
    return KIND_TXN, check_transactional_id(request.name.transactional_id)


def _group(request: Any) -> Place:
    return KIND_GROUP, check_group_id(request.group_id)


def _member(request: Any) -> Place:
    return KIND_GROUP, check_group_id(request.member.group_id)


PLACES: Final[tuple[tuple[MethodSpec[Any, Any], Callable[[Any], Place]], ...]] = (
    (methods.INIT_PRODUCER_ID, _any_or_transactional_id),
    (methods.ENROL_PARTITIONS, _named_transaction),
    (methods.END_TRANSACTION, _named_transaction),
    (methods.RENEW_TRANSACTION, _named_transaction),
    (methods.GET_OUTCOME, _transactional_id),
    (methods.JOIN_TRANSACTION, _transactional_id),
    (methods.COMMIT_TRANSACTION, _transactional_id),
    (methods.ABORT_TRANSACTION, _transactional_id),
    (methods.DESCRIBE_TRANSACTION, _transactional_id),
    (methods.FORCE_ABORT, _transactional_id),
    (methods.COMMIT_OFFSETS, _member),
    (methods.SEND_OFFSETS, _member),
    (methods.FETCH_OFFSETS, _group),
    (methods.GROUP_HEARTBEAT, _group),
    (methods.DESCRIBE_GROUP, _group),
    (methods.DELETE_OFFSETS, _group),
)


class CoordinatorSignpost:
    """Answers the Coordinator's methods with an address."""

    def __init__(self, view: ClusterView, signpost: Signpost) -> None:
        self._view = view
        self._signpost = signpost

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        for spec, place_of in PLACES:
            server.register(spec.name, handler_of(spec, self._serve(place_of)))

    def _serve(self, place_of: Callable[[Any], Place]) -> Serve:
        async def serve(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            raise self._elsewhere(*place_of(request))

        return serve

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
