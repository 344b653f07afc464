"""Listeners are settings: which ports clash, and which addresses follow from which."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.errors import ConfigError
from oncelog_runtime.config.serving_config import ServingConfig
from oncelog_runtime.core.listeners import Addresses

LISTENING = {"internal": "127.0.0.1:9093"}
THREE = {**LISTENING, "client": "127.0.0.1:9092", "external": "127.0.0.1:9094"}


def test_one_door_serves_everybody() -> None:
    config = ServingConfig()
    assert not config.has_client_listener
    assert config.announced(LISTENING) == Addresses("127.0.0.1:9093", "127.0.0.1:9093", "")


def test_clients_use_the_same_host_and_their_own_port() -> None:
    config = ServingConfig(
        listen_host="0.0.0.0",
        listen_port=9093,
        advertised_address="b0.brokers:9093",
        client_listen_port=9092,
        external_listen_port=9094,
        external_address="node-1:30000",
    )
    assert config.has_client_listener
    assert config.announced(THREE) == Addresses("b0.brokers:9093", "b0.brokers:9092", "node-1:30000")


def test_announced_addresses_win_over_those_that_are_listened_on() -> None:
    config = ServingConfig(client_address="clients:1", external_listen_port=9094)
    assert config.announced({**LISTENING, "external": "127.0.0.1:9094"}) == Addresses(
        "127.0.0.1:9093", "clients:1", "127.0.0.1:9094"
    )


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"client_listen_port": -1}, "client_listen_port must be 0 to 65535"),
        ({"client_listen_port": 9093, "listen_port": 9093}, "client_listen_port must be different from listen_port"),
        ({"client_listen_port": 1, "external_listen_port": 1}, "external_listen_port must be different from client"),
        ({"external_listen_port": 1, "health_port": 1}, "external_listen_port must be different from health_port"),
        ({"client_address": "nowhere"}, "client_address must be host:port"),
        ({"external_address": "x:y"}, "external_address must be host:port"),
        ({"listen_host": "0.0.0.0", "external_listen_port": 9094}, "external_address must be the host:port"),
    ],
)
def test_settings_that_cannot_work_are_named(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        ServingConfig(**settings)


CLIENT_TLS = {"client_tls_cert_file": "c", "client_tls_key_file": "k"}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (CLIENT_TLS, "client_tls_cert_file must be empty without client_listen_port"),
        ({"client_tls_cert_file": "c"}, "client_tls_key_file must be given together with client_tls_cert_file"),
        (
            {**CLIENT_TLS, "client_listen_port": 1, "client_tls_require_certificate": True},
            "client_tls_require_certificate must be false without client_tls_ca_file",
        ),
        ({"tls_ca_file": "a"}, "tls_cert_file must be given together with tls_ca_file"),
        (
            {"etcd_tls_cert_file": "c", "etcd_tls_key_file": "k"},
            "etcd_tls_ca_file must be given together with etcd_tls_cert_file",
        ),
    ],
)
def test_half_of_tls_is_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        ServingConfig(**settings)


def test_access_rules_ask_for_session_tokens_and_for_a_door_where_services_are_not() -> None:
    assert not ServingConfig().asks_for_session_tokens
    assert ServingConfig(require_session_tokens=True).asks_for_session_tokens
    assert ServingConfig(authorization="acl", client_listen_port=1).asks_for_session_tokens
    with pytest.raises(ConfigError, match="authorization must be none without client_listen_port"):
        ServingConfig(authorization="acl")
