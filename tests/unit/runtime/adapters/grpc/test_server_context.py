"""The protocols have the names that gRPC's own classes have."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from oncelog_runtime.adapters.grpc.server_context import CallDetails, ServerContext


def names_of(protocol: type) -> list[str]:
    return [name for name in vars(protocol) if not name.startswith("_")]


@pytest.mark.parametrize("name", names_of(ServerContext))
def test_a_context_of_grpc_has_each_name(name: str) -> None:
    assert hasattr(grpc.aio.ServicerContext, name)


def test_a_call_that_begins_has_a_method_and_metadata() -> None:
    assert names_of(CallDetails) == ["method", "invocation_metadata"]
    assert "method" in grpc.HandlerCallDetails.__doc__
    assert "invocation_metadata" in grpc.HandlerCallDetails.__doc__
