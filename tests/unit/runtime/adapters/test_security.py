"""From settings to who may come in: parts are put together as the settings say, and what is unwise is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.errors import ConfigError
from oncelog_runtime.adapters.grpc.authentication import Authentication
from oncelog_runtime.adapters.security import build_security
from oncelog_runtime.adapters.system import SystemClock
from oncelog_runtime.config.serving_config import ServingConfig
from oncelog_runtime.config.settings import NodeConfig
from oncelog_runtime.core.listeners import CLIENT
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.serving.call_context import CallInfo
from oncelog_runtime.serving.quotas import Quotas

INSIDE = {"tls_cert_file": "c", "tls_key_file": "k", "tls_ca_file": "ca"}
OUTSIDE = {"client_tls_cert_file": "c", "client_tls_key_file": "k", "client_tls_ca_file": "ca"}
RULES = {"service_rules": "dns:.+=>partition_leader"}


def built(config: NodeConfig) -> tuple[Authorizer | None, Authentication | None]:
    return build_security(config, SystemClock(), NodeMetrics(), Quotas())


def acl(**more: Any) -> ServingConfig:
    return ServingConfig(**{"authorization": "acl", "client_listen_port": 9092, **more})


@pytest.mark.parametrize("config", [NodeConfig(), ServingConfig()])
def test_without_rules_nobody_is_asked_anything(config: NodeConfig, caplog: pytest.LogCaptureFixture) -> None:
    assert built(config) == (None, None)
    assert caplog.text == ""


def test_with_service_rules_alone_certificates_are_looked_at_and_clients_are_not() -> None:
    authorizer, authentication = built(NodeConfig(**INSIDE, **RULES))
    assert authorizer is None
    assert authentication is not None
    assert not authentication.wants_password(CallInfo("x", listener=CLIENT))


def test_access_rules_have_super_users_an_audit_log_and_the_quotas_of_the_process() -> None:
    quotas = Quotas()
    config = acl(super_users=("User:root",))
    authorizer, authentication = build_security(config, SystemClock(), NodeMetrics(), quotas)
    assert authorizer is not None
    assert authorizer.policy.super_users == ("User:root",)
    assert authorizer.policy.audit is not None
    assert authorizer.quotas is quotas
    assert not authorizer.is_loaded, "no answer by rules that were not read"
    assert authentication is not None
    assert authentication.wants_password(CallInfo("x", listener=CLIENT))


@pytest.mark.parametrize(
    ("more", "told", "not_told"),
    [
        ({}, ["the internal listener is plaintext", "tokens can be read on the way"], "service_rules is empty"),
        (INSIDE, ["service_rules is empty", "tokens can be read on the way"], "the internal listener is plaintext"),
        ({**INSIDE, **OUTSIDE}, ["service_rules is empty"], "tokens can be read on the way"),
        ({**INSIDE, **OUTSIDE, **RULES}, [], "authorization is on"),
    ],
    ids=["plaintext", "inside", "both", "all"],
)
def test_a_hole_that_the_settings_leave_is_told(
    more: dict[str, Any], told: list[str], not_told: str, caplog: pytest.LogCaptureFixture
) -> None:
    built(acl(**more))
    assert all(words in caplog.text for words in told)
    assert not_told not in caplog.text
    assert len(caplog.records) == len(told)


def test_tokens_are_taken_where_an_issuer_is_named_and_from_a_safe_place_alone() -> None:
    issuer = {"jwt_issuer": "https://issuer", "jwt_audience": "oncelog"}

    class Context:
        def invocation_metadata(self) -> Any:
            return (("authorization", "Bearer x.y.z"),)

    for more, says in (({}, "jwt_issuer is not set"), ({**issuer, "jwt_jwks": "/nowhere"}, "token")):
        authorizer, authentication = built(acl(**more))
        assert authorizer is not None
        assert authentication is not None
        authorizer.is_loaded = True
        with pytest.raises(Exception, match=says):
            asyncio.run(authentication.caller(Context(), CallInfo("ipv4:10.0.0.7:1", listener=CLIENT)))
    with pytest.raises(ConfigError, match="https URL"):
        built(acl(**issuer, jwt_jwks="http://issuer/keys"))


@pytest.mark.parametrize("name", ["principal_rules", "service_rules"])
def test_rules_that_cannot_be_read_are_named(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        built(acl(**INSIDE, **{name: "nonsense"}))
