"""The cluster's own topics are closed to clients, whoever passes their requests on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.errors import TopicAuthorizationError
from oncelog.v1 import types_pb2
from oncelog_runtime import listeners
from oncelog_runtime.call_context import CALL, CallInfo
from oncelog_runtime.cluster import INTERNAL_TOPICS
from oncelog_runtime.topic_access import TopicOperation, adopt_caller, forwarded_for, require_access

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
