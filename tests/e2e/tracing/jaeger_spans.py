"""Jaeger's JSON as the spans that the checks know."""

from __future__ import annotations

from typing import Any

from tests.otlp_receiver import ReceivedSpan


def spans_of(trace: dict[str, Any]) -> list[ReceivedSpan]:
    """All spans of a trace of the query API."""
    services = {key: process["serviceName"] for key, process in trace["processes"].items()}
    return [_span(span, services[span["processID"]]) for span in trace["spans"]]


def _span(span: dict[str, Any], service: str) -> ReceivedSpan:
    tags = {tag["key"]: tag["value"] for tag in span["tags"]}
    parents = [ref for ref in span["references"] if ref["refType"] == "CHILD_OF"]
    start_ns = span["startTime"] * 1_000
    return ReceivedSpan(
        service=service,
        trace_id=span["traceID"],
        span_id=span["spanID"],
        parent_id=parents[0]["spanID"] if parents else "",
        name=span["operationName"],
        kind=str(tags.get("span.kind", "internal")).upper(),
        failed=tags.get("otel.status_code") == "ERROR",
        attributes=tags,
        links=tuple((r["traceID"], r["spanID"]) for r in span["references"] if r["refType"] != "CHILD_OF"),
        start_ns=start_ns,
        end_ns=start_ns + span["duration"] * 1_000,
    )
