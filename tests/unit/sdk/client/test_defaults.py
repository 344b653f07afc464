"""The real ports of a client: they cost nothing until they are used, and belong to one process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

from oncelog import errors
from oncelog.client import defaults
from oncelog.client.defaults import LazyGrpcTransport, SystemClock, client_tracer, system_random
from oncelog.config import ClientConfig


def test_a_transport_that_was_closed_connects_to_nobody() -> None:
    async def work() -> None:
        transport = LazyGrpcTransport("test")
        await transport.close()
        with pytest.raises(errors.IllegalStateError, match="this transport is closed"):
            await transport.call("127.0.0.1:1", "Partition.GetMetadata", b"", b"", 100)

    asyncio.run(work())


def test_a_client_that_was_made_and_not_used_has_loaded_no_grpc() -> None:
    code = (
        "import sys; from oncelog.client.defaults import LazyGrpcTransport; LazyGrpcTransport('test');"
        "sys.exit('grpc' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_transport_of_another_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = LazyGrpcTransport("test")
    parent = os.getpid()
    monkeypatch.setattr(defaults.os, "getpid", lambda: parent + 1)
    with pytest.raises(errors.ForkedClientError, match="make it in the child"):
        asyncio.run(transport.call("127.0.0.1:1", "PartitionLeader.GetMetadata", b"", b"", 100))


def test_certificates_that_cannot_work_are_told_at_the_first_call() -> None:
    transport = LazyGrpcTransport("test", config=ClientConfig(security_protocol="SSL", ssl_cafile="/nowhere/ca.crt"))
    with pytest.raises(errors.ConfigError, match=r"ssl_cafile /nowhere/ca\.crt cannot be read"):
        asyncio.run(transport.call("127.0.0.1:1", "PartitionLeader.GetMetadata", b"", b"", 100))


def test_no_two_processes_draw_the_same() -> None:
    assert system_random().getrandbits(128) != system_random().getrandbits(128)


def test_the_clock_counts_milliseconds() -> None:
    clock = SystemClock()
    assert 1_700_000_000_000 < clock.now_ms() < 10_000_000_000_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()


# ---------------------------------------------------------------- tracing


@pytest.fixture
def no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the application nor the environment asks for traces."""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    for name in ("ONCELOG_OTLP_ENDPOINT", "ONCELOG_TRACE_SAMPLER", "ONCELOG_TRACE_SAMPLER_ARG"):
        monkeypatch.delenv(name, raising=False)


def test_who_asks_for_no_traces_has_no_tracer(no_tracing: None) -> None:
    assert client_tracer(ClientConfig()) is None


@pytest.mark.parametrize("by", ["option", "environment"])
def test_an_endpoint_asks_for_traces(no_tracing: None, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    if by == "environment":
        monkeypatch.setenv("ONCELOG_OTLP_ENDPOINT", "http://127.0.0.1:1")
    given = {"otlp_endpoint": "http://127.0.0.1:1"} if by == "option" else {}
    tracer = client_tracer(ClientConfig(**given))  # type: ignore[arg-type]
    assert tracer is not None
    assert tracer.wants("")


@pytest.mark.parametrize(
    ("options", "environment", "sampler"),
    [
        ({}, {}, ("parentbased_always_on", 1.0)),
        ({}, {"SAMPLER": "traceidratio", "SAMPLER_ARG": "0.25"}, ("traceidratio", 0.25)),
        ({"trace_sampler": "always_off"}, {"SAMPLER": "traceidratio"}, ("always_off", 1.0)),
    ],
)
def test_options_stand_above_the_environment(
    no_tracing: None,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    environment: dict[str, str],
    sampler: tuple[str, float],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"ONCELOG_TRACE_{name}", value)
    assert defaults._sampler(ClientConfig(**options)) == sampler


def test_a_ratio_that_is_no_number_is_named(no_tracing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELOG_TRACE_SAMPLER_ARG", "half")
    with pytest.raises(errors.ConfigError, match="ONCELOG_TRACE_SAMPLER_ARG is a number, 0 to 1"):
        client_tracer(ClientConfig(otlp_endpoint="http://127.0.0.1:1"))
