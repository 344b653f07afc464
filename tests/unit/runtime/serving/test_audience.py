"""What is served at which listener, and to which certificate of a service."""

from __future__ import annotations

from oncelog.errors import AuthenticationError, ClusterAuthorizationError
from oncelog_runtime.core.listeners import CLIENT, EXTERNAL, INTERNAL
from oncelog_runtime.serving.audience import refusal, refusal_of
from oncelog_runtime.serving.call_context import CallInfo


def test_methods_of_services_are_refused_to_clients_by_name() -> None:
    assert refusal(INTERNAL, "PartitionLeader.Replicate") is None
    assert refusal(CLIENT, "PartitionLeader.Produce") is None
    for listener in (CLIENT, EXTERNAL):
        refused = refusal(listener, "PartitionLeader.Replicate")
        assert isinstance(refused, ClusterAuthorizationError)
        assert "PartitionLeader.Replicate" in refused.message
        assert listener in refused.message
    assert refusal(CLIENT, "PartitionLeader.NobodyKnows") is not None


def test_a_service_calls_what_its_certificate_is_for() -> None:
    broker = CallInfo("b1", listener=INTERNAL, methods=frozenset({"PartitionLeader.Replicate"}))
    assert refusal_of(broker, "PartitionLeader.Replicate") is None
    refused = refusal_of(broker, "PidAllocator.Allocate")
    assert isinstance(refused, ClusterAuthorizationError)
    assert "PidAllocator.Allocate" in refused.message
    assert refusal_of(CallInfo("b1"), "PidAllocator.Allocate") is None, "no rules about certificates"


def test_what_a_caller_came_in_with_may_end() -> None:
    ended = AuthenticationError("the password was changed")
    assert refusal_of(CallInfo("c", listener=CLIENT, over=lambda: ended), "PartitionLeader.Produce") is ended
    assert refusal_of(CallInfo("c", listener=CLIENT, over=lambda: None), "PartitionLeader.Produce") is None
    shut = refusal_of(CallInfo("c", listener=CLIENT, over=lambda: None), "PartitionLeader.Replicate")
    assert isinstance(shut, ClusterAuthorizationError), "the door comes first"
