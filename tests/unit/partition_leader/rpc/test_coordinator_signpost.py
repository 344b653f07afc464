"""A broker answers a coordinator's methods with the coordinator to ask, whichever name decides it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.core.batch.hashing import shard_for
from oncelog.errors import CoordinatorNotAvailableError, InvalidRequestError, NotCoordinatorError
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from oncelog.wire.method_audience import CLIENT
from oncelog_partition_leader.rpc.coordinator_signpost import PLACES, CoordinatorSignpost
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN, Cluster, ShardOwner
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.serving.signpost import Signpost

OF_WHOM_IS_ASKED = {methods.LIST_TRANSACTIONS.name, methods.LIST_GROUPS.name, methods.DRAIN_COORDINATOR.name}
SHARDS = {KIND_TXN: 5, KIND_GROUP: 7}


class Server:
    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}

    def register(self, method: str, handler: Any) -> None:
        self.handlers[method] = handler


def serving(*, owned: bool = True) -> dict[str, Any]:
    view = ClusterView()
    view.cluster = Cluster("c", SHARDS[KIND_TXN], SHARDS[KIND_GROUP])
    if owned:
        for kind, count in SHARDS.items():
            for number in range(count):
                view.shard_owners[kind, number] = ShardOwner(f"{kind}-{number}:1", "n", 1)
    server: Any = Server()
    CoordinatorSignpost(view, Signpost(view, client_listener=False, broker_id=0)).register(server)
    return server.handlers  # type: ignore[no-any-return]


def refusal(handlers: dict[str, Any], spec: Any, request: Any) -> Any:
    with pytest.raises((NotCoordinatorError, CoordinatorNotAvailableError, InvalidRequestError)) as raised:
        asyncio.run(handlers[spec.name](request.SerializeToString(), b""))
    return raised.value


def test_every_method_that_clients_have_is_answered_but_those_about_the_coordinator_that_is_asked() -> None:
    of_clients = {name for name in CLIENT if name.startswith("Coordinator.")}
    assert {spec.name for spec, _ in PLACES} == of_clients - OF_WHOM_IS_ASKED
    assert set(serving()) == of_clients - OF_WHOM_IS_ASKED


def request_about(spec: Any, name: str) -> tuple[Any, str]:
    """A request about a transactional id or a group of this name, and which of them it is about."""
    fields = spec.request.DESCRIPTOR.fields_by_name
    if "member" in fields:
        return spec.request(member=co.GroupMember(group_id=name)), KIND_GROUP
    if "group_id" in fields:
        return spec.request(group_id=name), KIND_GROUP
    if "name" in fields:
        return spec.request(name=co.TransactionName(transactional_id=name)), KIND_TXN
    return spec.request(transactional_id=name), KIND_TXN


@pytest.mark.parametrize("spec", [spec for spec, _ in PLACES], ids=lambda spec: spec.method)
def test_the_name_decides(spec: Any) -> None:
    handlers = serving()
    for name in ("a", "b", "orders-7"):
        request, kind = request_about(spec, name)
        assert refusal(handlers, spec, request).go_to == f"{kind}-{shard_for(name, SHARDS[kind])}:1"


def test_a_plain_producer_may_go_to_any_coordinator() -> None:
    assert refusal(serving(), methods.INIT_PRODUCER_ID, co.InitProducerIdRequest(nonce="n")).go_to


def test_a_request_without_a_name_is_nobodys() -> None:
    assert isinstance(refusal(serving(), methods.END_TRANSACTION, co.EndTransactionRequest()), InvalidRequestError)


@pytest.mark.parametrize("name", ["", "a"])
def test_while_nobody_owns_the_shard_the_caller_is_told_to_come_again(name: str) -> None:
    error = refusal(serving(owned=False), methods.INIT_PRODUCER_ID, co.InitProducerIdRequest(transactional_id=name))
    assert isinstance(error, CoordinatorNotAvailableError)
    assert error.go_to == ""
