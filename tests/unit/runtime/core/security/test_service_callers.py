"""One of the cluster's services is no principal; it may name the client for whom it asks, once the rules were read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog_runtime.adapters.grpc.authentication import Authentication
from oncelog_runtime.adapters.system import SystemClock
from oncelog_runtime.core.listeners import CLIENT
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import ANONYMOUS
from oncelog_runtime.core.security.certificate_rules import parse_service_rules
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.serving.call_context import CallInfo


class Context:
    """Of a call without certificate and without headers."""

    def auth_context(self) -> dict[str, Any]:
        return {}

    def invocation_metadata(self) -> tuple[()]:
        return ()


def caller(authentication: Authentication, call: CallInfo) -> CallInfo:
    return asyncio.run(authentication.caller(Context(), call))


def test_a_service_may_ask_for_a_client_and_a_client_may_not() -> None:
    authorizer = Authorizer(Policy())
    authentication = Authentication(authorizer, SystemClock())
    service = caller(authentication, CallInfo("ipv4:10.0.0.1:1"))
    assert service.access is None
    assert service.access_of is not None
    with pytest.raises(MetadataUnavailableError):
        service.access_of("User:ann", "10.0.0.7")
    with pytest.raises(MetadataUnavailableError):
        caller(authentication, CallInfo("ipv4:10.0.0.7:1", listener=CLIENT))
    authorizer.is_loaded = True
    ann = service.access_of("User:ann", "10.0.0.7")
    assert (ann.principal, ann.host) == ("User:ann", "10.0.0.7")
    client = caller(authentication, CallInfo("ipv4:10.0.0.7:1", listener=CLIENT))
    assert (client.principal, client.access_of) == (ANONYMOUS, None)


def test_whoever_shows_no_services_certificate_is_none() -> None:
    rules = parse_service_rules("dns:.+[.]brokers=>partition_leader", "service_rules")
    stranger = caller(Authentication(None, SystemClock(), service_rules=rules), CallInfo("ipv4:10.0.0.1:1"))
    assert (stranger.methods, stranger.access_of) == (frozenset(), None)
