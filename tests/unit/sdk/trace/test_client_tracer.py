"""Which tracing a client has: by its options, else by the environment, else none."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from oncelog import errors
from oncelog.config import ClientConfig
from oncelog.trace import client_tracer as chosen
from oncelog.trace.client_tracer import client_tracer


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
    assert chosen._sampler(ClientConfig(**options)) == sampler


def test_a_ratio_that_is_no_number_is_named(no_tracing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELOG_TRACE_SAMPLER_ARG", "half")
    with pytest.raises(errors.ConfigError, match="ONCELOG_TRACE_SAMPLER_ARG is a number, 0 to 1"):
        client_tracer(ClientConfig(otlp_endpoint="http://127.0.0.1:1"))
