"""The exporter of traces against a real gRPC receiver: it sends, it never waits for one that is down, it does not chatter."""

from __future__ import annotations

import logging
import time
import uuid

import pytest

from oncelog.trace.otel_tracer import OtelTracer
from oncelog.trace.otlp import otlp_tracer
from oncelog.trace.tracing import Kind
from tests.otlp_receiver import OtlpReceiver


def tracer_to(endpoint: str, sampler: str = "always_on", ratio: float = 1.0) -> OtelTracer:
    """A tracer that no other test has."""
    return otlp_tracer(endpoint, f"test-{uuid.uuid4().hex}", "7", sampler=sampler, ratio=ratio)


def test_flush_sends_what_has_ended() -> None:
    with OtlpReceiver() as receiver:
        tracer = tracer_to(receiver.endpoint)
        parent = tracer.start("outer", Kind.INTERNAL, "", {"oncelog.txn.id": "t"})
        child = tracer.start("inner", Kind.CLIENT, parent.traceparent, links=[parent.traceparent])
        child.end("NETWORK_ERROR", "gone")
        parent.end()
        tracer.flush(5_000)
        inner, outer = sorted(receiver.spans, key=lambda span: span.name)
        assert (inner.parent_id, inner.trace_id) == (outer.span_id, outer.trace_id)
        assert inner.failed
        assert inner.attributes["error.type"] == "NETWORK_ERROR"
        assert inner.links == ((outer.trace_id, outer.span_id),)
        assert outer.attributes == {"oncelog.txn.id": "t"}
        assert outer.service.startswith("test-")
        tracer.close(1_000)


def test_a_root_that_was_chosen_elsewhere_gets_its_ids() -> None:
    with OtlpReceiver() as receiver:
        tracer = tracer_to(receiver.endpoint)
        context = tracer.choose_root()
        begin_ns = tracer.now_ns() - 5_000_000_000
        tracer.start("child", Kind.INTERNAL, context).end()
        tracer.emit("root", context, begin_ns, {"oncelog.rows": 3})
        tracer.flush(5_000)
        child, root = sorted(receiver.spans, key=lambda span: span.name)
        assert context == f"00-{root.trace_id}-{root.span_id}-01"
        assert child.parent_id == root.span_id
        assert root.parent_id == ""
        assert root.start_ns == begin_ns
        tracer.close(1_000)


def test_an_endpoint_that_is_down_costs_no_time_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with OtlpReceiver() as receiver:
        port = receiver.port
    tracer = tracer_to(f"http://127.0.0.1:{port}")
    with caplog.at_level(logging.INFO):
        begin = time.monotonic()
        for _ in range(5):
            for _ in range(600):
                tracer.start("lost", Kind.INTERNAL, "").end()
            tracer.flush(1_000)
        assert time.monotonic() - begin < 3.0
        lines = [r for r in caplog.records if r.levelno >= logging.WARNING]
        assert [r.getMessage() for r in lines] == ["no collector takes traces; they are dropped"]
        begin = time.monotonic()
        tracer.close(1_000)
        assert time.monotonic() - begin < 1.0


def test_an_endpoint_that_comes_back_is_used_again(caplog: pytest.LogCaptureFixture) -> None:
    with OtlpReceiver() as receiver:
        port = receiver.port
    tracer = tracer_to(f"http://127.0.0.1:{port}")
    tracer.start("lost", Kind.INTERNAL, "").end()
    tracer.flush(1_000)
    with caplog.at_level(logging.INFO), OtlpReceiver(port) as receiver:
        for name in ("kept", "kept too"):  # one export ends before the next begins
            tracer.start(name, Kind.INTERNAL, "").end()
            assert receiver.wait_for(lambda spans, name=name: any(span.name == name for span in spans))
        tracer.close(1_000)
    assert "traces are taken again" in caplog.text


def test_what_the_sampler_does_not_want_is_not_recorded() -> None:
    with OtlpReceiver() as receiver:
        tracer = tracer_to(receiver.endpoint, "parentbased_traceidratio", 0.2)
        roots = [tracer.start("root", Kind.INTERNAL, "") for _ in range(500)]
        for root in roots:
            tracer.start("child", Kind.INTERNAL, root.traceparent).end()
            root.end()
        tracer.flush(5_000)
        kept = [span for span in receiver.spans if span.name == "root"]
        assert 50 < len(kept) < 150
        assert len(receiver.spans) == 2 * len(kept)
        tracer.close(1_000)
