"""Options: Kafka's names, safe defaults, and errors that help."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from oncelog.config import (
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    WorkerConfig,
    addresses,
    check_channel_options,
    load,
)
from oncelog.errors import ConfigError, InvalidRequiredAcksError


def test_the_defaults_are_the_safe_ones() -> None:
    producer = load(ProducerConfig, {})
    assert (producer.acks_number, producer.enable_idempotence) == (-1, True)
    assert load(ConsumerConfig, {}).isolation_level == "read_committed"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("linger", "linger_ms"), ("compresion_type", "compression_type"), ("batch.sizes", "batch_size")],
)
def test_an_unknown_name_comes_with_a_suggestion(typed: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean `{meant}`"):
        load(ProducerConfig, {typed: 1})


def test_an_unknown_name_without_a_neighbour_is_refused_too() -> None:
    with pytest.raises(ConfigError, match="unknown option `zzz`"):
        load(ClientConfig, {"zzz": 1})


def test_dotted_names_and_text_values_are_understood() -> None:
    given = {"linger.ms": "5", "enable.idempotence": "false", "acks": "1"}
    config = load(ProducerConfig, given)
    assert (config.linger_ms, config.enable_idempotence, config.acks_number) == (5, False, 1)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="twice"):
        load(ProducerConfig, {"linger.ms": 5, "linger_ms": 5})


@pytest.mark.parametrize(
    "given",
    [
        {"acks": 1},
        {"acks": 0},
        {"max_in_flight_requests_per_connection": 17},
        {"enable_idempotence": False, "transactional_id": "t"},
        {"compression_type": "gzip"},
        {"partitioner": "crc32"},
        {"partitioner": 7},
        {"linger_ms": -1},
        {"linger_ms": "soon"},
        {"delivery_timeout_ms": 0},
        {"batch_size": 10, "max_request_size": 5},
        {"enable_idempotence": "perhaps"},
    ],
)
def test_contradictions_of_a_producer_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        load(ProducerConfig, given)


def test_unknown_acks_have_their_own_error() -> None:
    with pytest.raises(InvalidRequiredAcksError):
        load(ProducerConfig, {"acks": 2})


@pytest.mark.parametrize("given", [{"isolation_level": "x"}, {"auto_offset_reset": "first"}, {"max_poll_records": 0}])
def test_contradictions_of_a_consumer_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        load(ConsumerConfig, given)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ClientConfig, "request_timeout_ms"),
        (ProducerConfig, "transaction_timeout_ms"),
        (ConsumerConfig, "fetch_min_bytes"),
        (ConsumerConfig, "fetch_max_bytes"),
        (ConsumerConfig, "fetch_max_wait_ms"),
        (ConsumerConfig, "max_partition_fetch_bytes"),
    ],
)
def test_a_number_that_no_request_can_hold_is_refused_here_and_not_by_the_first_call(kind: type, name: str) -> None:
    assert getattr(load(kind, {name: 2**31 - 1}), name) == 2**31 - 1
    with pytest.raises(ConfigError, match=f"`{name}`.* to 2147483647"):
        load(kind, {name: 2**31})


@pytest.mark.parametrize(
    ("kind", "name"),
    [(ClientConfig, "client_id"), (ClientConfig, "username"), (ProducerConfig, "transactional_id")]
    + [(ConsumerConfig, name) for name in ("group_id", "group_instance_id", "group_remote_assignor", "client_rack")],
)
@pytest.mark.parametrize("value", ["rack-\ud800", 7])
def test_what_is_no_text_is_refused_here_and_not_by_the_first_call(kind: type, name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"`{name}` is .*, and must be text"):
        load(kind, {name: value})


@pytest.mark.parametrize("name", ["token", "password"])
@pytest.mark.parametrize("value", ["hunter2-\ud800", b"hunter2"])
def test_a_secret_that_is_no_text_is_refused_and_not_shown(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"`{name}` must be text") as refused:
        load(ClientConfig, {name: value, "username": "u" if name == "password" else ""})
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


def test_bootstrap_addresses() -> None:
    assert addresses("a:1, b:2,") == ("a:1", "b:2")
    assert addresses(["a:1"]) == ("a:1",)
    assert addresses("[::1]:65535") == ("[::1]:65535",)
    for wrong in ("", "host", "host:port", [":"], ":9092", "host:0", "host:65536", "host:\u00b2", "http://host:80"):
        with pytest.raises(ConfigError):
            addresses(wrong)


@pytest.mark.parametrize("wrong", [None, 9092, b"host:9092", ["host:9092", 9092]])
def test_what_is_no_text_is_no_address(wrong: Any) -> None:
    """As from an environment variable that is not set."""
    with pytest.raises(ConfigError, match=r'give "host:port,host:port", or a list'):
        addresses(wrong)


def test_tls_is_named_as_kafka_users_name_it() -> None:
    config = load(ClientConfig, {"security.protocol": "SSL", "ssl_cafile": "ca.crt"})
    assert (config.security_protocol, config.ssl_cafile, config.ssl_certfile) == ("SSL", "ca.crt", "")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"security_protocol": "TLS"}, "must be one of PLAINTEXT, SSL"),
        ({"ssl_cafile": "ca.crt"}, "ssl_cafile has no use in plaintext: set security_protocol='SSL'"),
        ({"security_protocol": "SSL", "ssl_certfile": "me.crt"}, "ssl_certfile and ssl_keyfile belong together"),
        ({"ssl_ca_file": "ca.crt"}, "did you mean `ssl_cafile`"),
    ],
)
def test_tls_options_that_contradict_each_other_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(ClientConfig, given)


@pytest.mark.parametrize(
    "options",
    [
        {"token": "t", "token_file": "f"},
        {"token": "t", "username": "u", "password": "p"},
        {"token_file": "f", "token_provider": lambda: ""},
        {"username": "u"},
        {"password": "p"},
        {"username": "u", "password": "p", "password_file": "f"},
    ],
    ids=" and ".join,
)
def test_options_that_contradict_each_other(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ClientConfig(**options)


def test_the_longest_pause_of_a_channel_is_no_shorter_than_the_first() -> None:
    WorkerConfig(retry_backoff_ms=700, retry_backoff_max_ms=700)
    WorkerConfig(retry_backoff_ms=10_000)  # the channel may have the other one already: the broker compares them
    short = {"retry_backoff_ms": 10_000, "retry_backoff_max_ms": 5}
    for refused in (lambda: load(WorkerConfig, short), lambda: check_channel_options(short)):
        with pytest.raises(ConfigError, match="`retry_backoff_max_ms` is 5, and must be at least `retry_backoff_ms`"):
            refused()
