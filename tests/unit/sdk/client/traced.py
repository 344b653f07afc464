"""What tests of spans share: a traced client on the scripted cluster, and how spans belong together."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from oncelog.client.client import Client
from oncelog.trace import tracing
from tests.spans import Recorder, recording_tracer
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster

SEND, CREATE = f"send {TOPIC}", f"create {TOPIC}"
Work = Callable[[Client], Coroutine[Any, Any, Any]]


def traced(work: Work, sampler: str = "parentbased_always_on") -> tuple[Recorder, FakeCluster, Any]:
    """What the work of a traced client recorded."""
    cluster = FakeCluster()
    tracer, spans = recording_tracer(sampler)

    async def run(_: FakeCluster) -> Any:
        async with cluster.client(tracer=tracer, default_api_timeout_ms=2_000) as client:
            return await work(client)

    result = cluster.run(run)
    assert spans.open == {}, "a span was never ended"
    return spans, cluster, result


def context_of(span: Any) -> str:
    return tracing.format_traceparent(span.context.trace_id, span.context.span_id, span.context.trace_flags)


def links_of(span: Any) -> list[int]:
    return [link.context.span_id for link in span.links]


async def read_headers(client: Client) -> list[dict[str, bytes | None]]:
    async with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
        return [dict(record.headers) for record in await consumer.getmany(1_000)]
