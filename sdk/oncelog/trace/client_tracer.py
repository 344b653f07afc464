"""Chooses the tracing of a client: the application's own, else what its configuration or the environment asks for, else none.

Rule: who traces nothing loads no OpenTelemetry.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import TYPE_CHECKING, Final

from oncelog.config import ClientConfig
from oncelog.errors import ConfigError

if TYPE_CHECKING:
    from oncelog.trace.tracing import Tracer

_FLUSH_MS: Final = 1_000


def client_tracer(config: ClientConfig) -> Tracer | None:
    """The application's own tracing, else what configuration or environment ask for, else None.

    Raises `ConfigError`. An application that has not imported OpenTelemetry cannot have set it up, so nothing is imported.
    """
    if "opentelemetry.trace" in sys.modules:
        from oncelog.trace.otel_tracer import application_tracer

        found = application_tracer()
        if found is not None:
            return found
    endpoint = config.otlp_endpoint or os.environ.get("ONCELOG_OTLP_ENDPOINT", "")
    if not endpoint:
        return None
    try:
        from oncelog.trace.otlp import otlp_tracer
    except ImportError as error:
        raise ConfigError("otlp_endpoint needs OpenTelemetry: pip install 'oncelog[tracing]'") from error
    service = os.environ.get("OTEL_SERVICE_NAME") or config.client_id
    instance = f"{socket.gethostname()}-{os.getpid()}"
    sampler, ratio = _sampler(config)
    return otlp_tracer(endpoint, service, instance, sampler=sampler, ratio=ratio)


async def flush_traces(tracer: Tracer | None) -> None:
    """Sends the last spans of a client that is closed, and waits for that a second at most."""
    if tracer is not None and tracer.exports:
        await asyncio.to_thread(tracer.flush, _FLUSH_MS)


def _sampler(config: ClientConfig) -> tuple[str, float]:
    """Configuration, else the environment, else every trace."""
    if config.trace_sampler:
        return config.trace_sampler, config.trace_sampler_arg
    try:
        ratio = float(os.environ.get("ONCELOG_TRACE_SAMPLER_ARG", "1"))
    except ValueError:
        raise ConfigError("ONCELOG_TRACE_SAMPLER_ARG is a number, 0 to 1") from None
    return os.environ.get("ONCELOG_TRACE_SAMPLER") or "parentbased_always_on", ratio
