"""The cluster's own topics are closed to clients, whoever passes their requests on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.errors import MetadataUnavailableError, TopicAuthorizationError, TransactionalIdAuthorizationError
from oncelog.v1 import types_pb2
from oncelog_runtime.core import listeners
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import ANONYMOUS, Operation, ResourceType
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.serving.call_context import CALL, CallInfo
from oncelog_runtime.serving.topic_access import (
    TopicOperation,
    adopt_caller,
    forwarded_for,
    require_access,
    require_transactional_id,
)

OPEN_TO_CLIENTS = {TopicOperation.PLACEMENT, TopicOperation.DESCRIBE_CONFIGS}


@pytest.fixture(autouse=True)
def caller() -> Iterator[None]:
    token = CALL.set(None)
    yield
    CALL.reset(token)


def came_by(listener: str) -> CallInfo:
    call = CallInfo("10.0.0.7:1234", ("spiffe://a/b",), listener)
    CALL.set(call)
    return call


def is_allowed(topic: str, operation: TopicOperation) -> bool:
    try:
        require_access(topic, operation)
    except TopicAuthorizationError:
        return False
    return True


@pytest.mark.parametrize("listener", listeners.NAMES)
@pytest.mark.parametrize("operation", TopicOperation)
def test_the_clusters_own_topics_are_open_to_services_alone(listener: str, operation: TopicOperation) -> None:
    came_by(listener)
    inside = listener == listeners.INTERNAL
    for topic in INTERNAL_TOPICS:
        assert is_allowed(topic, operation) is (inside or operation in OPEN_TO_CLIENTS)
    assert is_allowed("orders", operation)


@pytest.mark.parametrize("listener", listeners.NAMES)
def test_the_ids_of_schedulers_are_open_to_services_alone(listener: str) -> None:
    came_by(listener)
    require_transactional_id("billing")
    own = f"__delayed.{'a' * 32}.0"
    if listener == listeners.INTERNAL:
        require_transactional_id(own)
        return
    with pytest.raises(TransactionalIdAuthorizationError):
        require_transactional_id(own)


def test_what_a_broker_passes_on_is_judged_by_the_client_that_asked() -> None:
    client = came_by(listeners.CLIENT)
    claim = forwarded_for()
    came_by(listeners.INTERNAL)
    assert is_allowed(INTERNAL_TOPICS[0], TopicOperation.WRITE), "the broker itself"
    adopt_caller(claim)
    assert CALL.get() == client
    assert not is_allowed(INTERNAL_TOPICS[0], TopicOperation.WRITE)


@pytest.mark.parametrize("listener", [listeners.CLIENT, listeners.EXTERNAL])
def test_a_client_that_claims_to_speak_for_a_service_stays_a_client(listener: str) -> None:
    client = came_by(listener)
    adopt_caller(types_pb2.ForwardedCaller(listener=listeners.INTERNAL, peer="broker-0"))
    assert CALL.get() == client
    assert not is_allowed(INTERNAL_TOPICS[0], TopicOperation.READ)


def test_a_claim_without_a_listener_is_none() -> None:
    broker = came_by(listeners.INTERNAL)
    adopt_caller(types_pb2.ForwardedCaller(peer="somewhere"))
    assert CALL.get() == broker


def rules_of(*super_users: str, is_loaded: bool = True) -> Authorizer:
    """One process's access rules: these may do everything, nobody else anything."""
    authorizer = Authorizer(Policy(super_users))
    authorizer.is_loaded = is_loaded
    return authorizer


def passed_on_to(rules: Authorizer, claim: types_pb2.ForwardedCaller) -> CallInfo:
    CALL.set(CallInfo("broker-0", listener=listeners.INTERNAL, access_of=rules.access))
    adopt_caller(claim)
    call = CALL.get()
    assert call is not None
    return call


def may_write(call: CallInfo) -> bool:
    assert call.access is not None, "a client is judged"
    call.access.look()
    return call.access.allows(Operation.WRITE, ResourceType.TOPIC, "orders")


def test_the_leader_asks_its_own_rules_about_the_principal_that_asked() -> None:
    here, there = rules_of("User:ann"), rules_of("User:bob")
    ann = CallInfo("ipv4:10.0.0.7:1", (), listeners.CLIENT, here.access("User:ann", "10.0.0.7"))
    assert may_write(ann)
    CALL.set(ann)
    call = passed_on_to(there, forwarded_for())
    assert call.access is not None
    assert (call.access.principal, call.access.host) == ("User:ann", "10.0.0.7")
    assert (call.peer, call.listener) == (ann.peer, ann.listener), "for the audit log"
    assert not may_write(call)
    assert may_write(passed_on_to(rules_of("User:ann"), forwarded_for_ann()))


def forwarded_for_ann() -> types_pb2.ForwardedCaller:
    return types_pb2.ForwardedCaller(
        listener=listeners.CLIENT, peer="10.0.0.7:1", principal="User:ann", host="10.0.0.7"
    )


def test_a_client_whose_name_a_broker_without_rules_does_not_know_is_anonymous() -> None:
    claim = types_pb2.ForwardedCaller(listener=listeners.CLIENT, peer="10.0.0.7:1")
    call = passed_on_to(rules_of("User:ann"), claim)
    assert call.principal == ANONYMOUS
    assert not may_write(call)


def test_nobody_is_judged_by_rules_that_were_not_read() -> None:
    with pytest.raises(MetadataUnavailableError):
        passed_on_to(rules_of("User:ann", is_loaded=False), forwarded_for_ann())


RULES = rules_of("User:ann")
BOB = RULES.access("User:bob", "10.0.0.8")


@pytest.mark.parametrize(
    "caller_info",
    [
        CallInfo("10.0.0.8:1", (), listeners.CLIENT, BOB),
        CallInfo("10.0.0.8:1", (), listeners.EXTERNAL, BOB),
        CallInfo("10.0.0.8:1", (), listeners.INTERNAL, BOB, RULES.access),
        CallInfo("10.0.0.8:1", (), listeners.INTERNAL, None, RULES.access, frozenset()),
    ],
    ids=["client", "external", "a client with a name at a shared listener", "no service's certificate"],
)
@pytest.mark.parametrize("listener", listeners.NAMES)
def test_a_client_cannot_claim_to_be_somebody_else(caller_info: CallInfo, listener: str) -> None:
    CALL.set(caller_info)
    claim = forwarded_for_ann()
    claim.listener = listener
    adopt_caller(claim)
    assert CALL.get() is caller_info
