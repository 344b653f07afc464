"""OpenTelemetry behind the tracing port: who is recorded, contexts that come from elsewhere, and what "not recorded" costs."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, TraceIdRatioBased

from oncelog.client.produce.send_trace import SendTraces
from oncelog.trace import tracing
from oncelog.trace.otel_tracer import OtelTracer
from oncelog.trace.trace_context import LINKS, TRACEPARENT
from oncelog.trace.tracing import Kind
from tests.spans import recording_tracer

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"
NOT_RECORDED = f"{PARENT[:-2]}00"


@pytest.mark.parametrize("sampler", tracing.SAMPLERS)
@pytest.mark.parametrize("parent", ["x" * 40, f"00-{'z' * 32}-{'1' * 16}-01", "é" * 55, "00"])
def test_a_context_that_is_none_is_nobodys_fault(sampler: str, parent: str) -> None:
    """It comes with a peer's frame: an exception here would end that peer's link."""
    for ambient in (False, True):
        tracer = OtelTracer(TracerProvider(), sampler=tracing.Sampler(sampler, 0.5), ambient=ambient)
        tracing.unrecorded_call(tracer, "PartitionLeader.Produce", parent)
        span, context = tracing.start_server_call(tracer, "PartitionLeader.Produce", parent)
        assert context
        assert span is None or not span.sampled


class TestRoots:
    def test_a_share_of_them_is_recorded(self) -> None:
        tracer, _ = recording_tracer("parentbased_traceidratio", 0.25)
        wanted = sum(tracer.wants("") for _ in range(4_000))
        assert 850 < wanted < 1_150  # five standard deviations to each side

    def test_every_sampler_of_the_same_share_wants_a_recorded_root(self) -> None:
        tracer, _ = recording_tracer("parentbased_traceidratio", 0.01)
        same, smaller = (tracing.Sampler("traceidratio", share) for share in (0.01, 0.0001))
        ids = [_trace_id(tracer.record("root", Kind.INTERNAL, "").traceparent) for _ in range(200)]
        assert all(same.wants(trace_id, PARENT) for trace_id in ids)
        assert not all(smaller.wants(trace_id, PARENT) for trace_id in ids)
        assert len({trace_id >> 64 for trace_id in ids}) == len({trace_id & 2**64 - 1 for trace_id in ids}) == 200

    def test_those_that_are_not_recorded_differ_and_no_sampler_of_the_same_share_wants_them(self) -> None:
        tracer, spans = recording_tracer("parentbased_traceidratio", 0.5)
        roots = [tracer.skip("") for _ in range(100)]
        assert not any(root.sampled for root in roots)
        ids = {_trace_id(root.traceparent) for root in roots}
        assert len(ids) == 100
        assert not any(tracing.Sampler("traceidratio", 0.5).wants(trace_id, "") for trace_id in ids)
        assert spans.open == {}


class TestContexts:
    def test_what_is_not_recorded_says_so_to_those_it_calls(self) -> None:
        assert tracing.unrecorded(PARENT) == NOT_RECORDED
        assert tracing.unrecorded(NOT_RECORDED) == NOT_RECORDED
        assert tracing.unrecorded("") == tracing.NOBODY

    @pytest.mark.parametrize("sampler", tracing.SAMPLERS)
    def test_only_where_parents_decide_a_context_goes_on_unasked(self, sampler: str) -> None:
        tracer, _ = recording_tracer(sampler)
        assert tracer.follows_parents == sampler.startswith("parentbased_")
        assert NOT_RECORDED.endswith(tracing.UNRECORDED)
        assert tracing.NOBODY.endswith(tracing.UNRECORDED)
        assert not PARENT.endswith(tracing.UNRECORDED)

    def test_a_sampler_that_asks_no_parent_records_below_what_is_not_recorded(self) -> None:
        tracer, spans = recording_tracer("always_on")
        span, context = tracing.start_server_call(tracer, "PartitionLeader.Produce", NOT_RECORDED)
        assert span is not None
        assert tracing.is_sampled(context)
        span.end()
        assert spans.names() == ["oncelog.v1.PartitionLeader/Produce"]

    @pytest.mark.parametrize("sampler", tracing.SAMPLERS)
    def test_what_is_done_for_nobody_is_a_root_where_parents_do_not_decide(self, sampler: str) -> None:
        tracer, spans = recording_tracer(sampler)
        span, context = tracing.start_server_call(tracer, "PartitionLeader.Produce", tracing.NOBODY)
        recorded = sampler in ("always_on", "traceidratio")
        assert (span is not None) == recorded == tracing.is_sampled(context)
        if span is not None:
            span.end()
            assert spans.ended[0].parent is None
        assert tracing.start_server_call(tracer, "PartitionLeader.Replicate", tracing.NOBODY) == (None, tracing.NOBODY)

    def test_work_for_nobody_ends_work_for_somebody(self) -> None:
        def in_a_task() -> None:
            tracing.work_for([PARENT, NOT_RECORDED, f"00-{'c' * 32}-{'d' * 16}-01"])
            assert (TRACEPARENT.get(), len(LINKS.get())) == (PARENT, 1)
            tracing.work_for([])
            assert (TRACEPARENT.get(), LINKS.get()) == (tracing.NOBODY, ())
            TRACEPARENT.set(NOT_RECORDED)
            tracing.work_for([])
            assert TRACEPARENT.get() == NOT_RECORDED
            TRACEPARENT.set("")
            tracing.work_for([])
            assert TRACEPARENT.get() == tracing.NOBODY

        contextvars.copy_context().run(in_a_task)


class TestTheApplicationsProvider:
    """Its own sampler decides, and it is asked as seldom as that allows."""

    @pytest.mark.parametrize("sampler", [ALWAYS_ON, ALWAYS_OFF, TraceIdRatioBased(0.5), ParentBased(ALWAYS_ON)])
    def test_nothing_is_recorded_below_nobody_whatever_it_thinks_of_ids(self, sampler: Any) -> None:
        tracer = OtelTracer(TracerProvider(sampler))
        assert not tracer.wants(tracing.NOBODY)
        assert tracing.unrecorded_call(tracer, "PartitionLeader.Produce", tracing.NOBODY) == tracing.NOBODY

    def test_one_that_follows_parents_is_not_asked_below_an_unrecorded_one(self) -> None:
        tracer = OtelTracer(TracerProvider(ParentBased(ALWAYS_ON)))
        assert tracer.follows_parents
        assert not tracer.start("x", Kind.INTERNAL, NOT_RECORDED).sampled
        assert tracer.start("x", Kind.INTERNAL, PARENT).sampled
        assert tracer.start("x", Kind.INTERNAL, "").sampled

    def test_one_that_asks_no_parent_is_asked(self) -> None:
        tracer = OtelTracer(TracerProvider(ALWAYS_ON))
        assert not tracer.follows_parents
        assert tracing.unrecorded_call(tracer, "PartitionLeader.Produce", NOT_RECORDED) is None
        assert tracer.start("x", Kind.INTERNAL, NOT_RECORDED).sampled

    def test_one_that_says_no_makes_spans_with_a_context_that_says_so(self) -> None:
        tracer = OtelTracer(TracerProvider(ALWAYS_OFF))
        for parent in ("", PARENT):
            span = tracer.start("x", Kind.INTERNAL, parent)
            assert not span.sampled
            assert tracing.parse_traceparent(span.traceparent) is not None
            assert not tracing.is_sampled(span.traceparent)


class TestWhatIsNotRecordedCostsLittle:
    """Calls of functions, which can be counted; `bench.tracing` measures the time."""

    def test_a_record_of_a_producer(self) -> None:
        tracer, _ = recording_tracer("parentbased_traceidratio", 0.0)
        traces = SendTraces(tracer, "me")
        assert calls_of(lambda: traces.create("orders")) <= 12  # 9 now; 20 when the span was made first

    def test_a_call_to_here_that_belongs_to_nobody(self) -> None:
        tracer, _ = recording_tracer("parentbased_traceidratio", 0.0)
        assert calls_of(lambda: tracing.start_server_call(tracer, "PartitionLeader.Produce", "")) <= 8  # 7; 13


def calls_of(work: Callable[[], object]) -> int:
    """Functions that the work calls, in Python or C, itself left out."""
    counted = 0

    def count(_frame: object, event: str, _what: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted - 2  # `work`, and the end of counting


def _trace_id(traceparent: str) -> int:
    return int(traceparent[3:35], 16)
