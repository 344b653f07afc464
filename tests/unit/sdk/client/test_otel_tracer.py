"""OpenTelemetry behind the tracing port: contexts that come from elsewhere."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider

from oncelog import tracing
from oncelog.client.otel_tracer import OtelTracer


@pytest.mark.parametrize("sampler", tracing.SAMPLERS)
@pytest.mark.parametrize("parent", ["x" * 40, f"00-{'z' * 32}-{'1' * 16}-01", "é" * 55, "00"])
def test_a_context_that_is_none_is_nobodys_fault(sampler: str, parent: str) -> None:
    """It comes with a peer's frame: an exception here would end that peer's link."""
    tracer = OtelTracer(TracerProvider(), sampler=tracing.Sampler(sampler, 0.5), ambient=False)
    span = tracing.start_server_call(tracer, "PartitionLeader.Produce", parent)
    assert not span.sampled
    tracing.end_server_call(span, "OK")
